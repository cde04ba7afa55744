"""Words as subword pieces: split, cut into windows, and laid out for a transformer.

Sentences of a task are of different lengths, so that rows as wide as the longest are mostly
padding. Laid end to end the pieces of a task are one row, in which each sees those of its own
window alone. Positions are relative (rotary), so that it does not matter where a window lies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import pad

from hardner.batch import Batch, Features, Ints
from hardner.config import AxisSize, Bounds, Whole, check_fields
from hardner.errors import HardnerError
from hardner.types import Sentence

_REMEMBERED = 200_000
"""Words whose pieces are kept at a time."""


@dataclass(frozen=True)
class Splitter:
    """A tokenizer's pieces of a word."""

    tokenizer: Tokenizer
    shift: Annotated[int, Bounds(0, 1)] = 0
    """Added to its pieces, for one that does not keep 0 for padding."""

    def __call__(self, word: str) -> list[int]:
        known = word.encode("utf-8", "replace").decode()  # half a character pair is no text
        found = self.tokenizer.encode([known], is_pretokenized=True, add_special_tokens=False)
        return [piece + self.shift for piece in found.ids]


@dataclass(frozen=True)
class Pieces:
    """How words become pieces. Piece 0 is padding.

    A sentence that does not fit is read in windows that overlap; each word is taken from the
    window in which it stands farthest from an edge. Windows lie ``limit`` apart, so that a word's
    place is ``window * limit + position`` whether there is one window or there are many.
    """

    split: Callable[[str], Sequence[int]]
    """The pieces of a word; none where the tokenizer knows nothing of it."""
    first: AxisSize
    """Opens a window (``[CLS]``)."""
    last: AxisSize
    """Closes a window (``[SEP]``)."""
    unknown: AxisSize
    """Stands for a word without pieces (``[UNK]``)."""
    limit: Annotated[int, Bounds(1, 1 << 16)] = 256
    """Pieces of a window, both ends included."""
    overlap: Whole = 64
    """Of two windows, and the most pieces of a word that are read."""
    _cache: dict[str, tuple[int, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        check_fields(self, "pieces")
        if not 0 < self.overlap < self.limit - 2:
            raise HardnerError(f"windows of {self.limit} pieces cannot overlap by {self.overlap}")

    @classmethod
    def by(cls, tokenizer: Tokenizer, limit: int = 256) -> "Pieces":
        """By a tokenizer like the project's own: 0 is padding, special pieces have BERT's names."""
        first, last, unknown = (_piece(tokenizer, name) for name in ("[CLS]", "[SEP]", "[UNK]"))
        return cls(Splitter(tokenizer), first, last, unknown, limit, overlap_of(limit))

    def of(self, word: str) -> tuple[int, ...]:
        """The pieces of a word: never none, and no more than lie in one window wherever cut."""
        known = self._cache.get(word)
        if known is None:
            found = tuple(piece for piece in self.split(word) if piece)
            known = found[: self.overlap] or (self.unknown,)
            if len(self._cache) >= _REMEMBERED:  # at least: other threads add to it, too
                self._cache.clear()
            self._cache[word] = known
        return known

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """Streams ``pieces`` (windows end to end) and ``heads`` (each word's first piece)."""
        rows = [self._windows(sentence.tokens) for sentence in sentences]
        return Features({"pieces": [p for p, _ in rows], "heads": [h for _, h in rows]}, {})

    def _windows(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        known = self._cache.get
        split = [known(word) or self.of(word) for word in words]
        begins = np.cumsum([0, *map(len, split)])  # where each word's pieces begin
        flat = list(chain.from_iterable(split))
        room = self.limit - 2
        if len(flat) <= room:
            return np.array([self.first, *flat, self.last], np.int64), begins[:-1] + 1
        starts = [*range(0, len(flat) - room, room - self.overlap), len(flat) - room]
        windows = [[self.first, *flat[s : s + room], self.last] for s in starts]
        # The distance of each word's pieces from the nearer edge of each window; inside is >= 0.
        edge = np.array(
            [np.minimum(begins[:-1] - s, s + room - begins[1:]) for s in starts], np.int64
        )
        best = edge.argmax(0)
        heads = best * self.limit + 1 + begins[:-1] - np.array(starts)[best]
        return np.array([p for window in windows for p in window], np.int64), heads


def _piece(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.token_to_id(name)
    if found is None:
        raise HardnerError(f"the tokenizer has no piece {name}")
    return found


def overlap_of(limit: int) -> int:
    """How far windows should overlap: a quarter, and no more than 64 pieces."""
    return min(64, limit // 4)


class PieceLayout(NamedTuple):
    """What a transformer reads of a batch, and where each word lies in it."""

    pieces: Tensor  # [M, W, P]; 0 is padding
    mask: Tensor  # which pieces of a row see which: bool [M*W, 1, 1 or P, P]
    heads: Tensor  # where in all rows of its task a word's first piece lies, [M, B, T]
    starts: Tensor  # where a sentence's first piece lies, [M, B]


def lay_out(batch: Batch, stream: str, limit: int) -> PieceLayout:
    """The layout of a stream of pieces: end to end where the batch says how many there are.

    Args:
        batch: With the words' first pieces in its stream ``heads``.
        stream: Its name.
        limit: Pieces of a window.
    """
    windows = in_windows(batch.inputs[stream], limit)
    sentences = batch.lengths.shape[1]
    width = windows[0].numel() // sentences
    starts = torch.arange(sentences, device=windows.device).mul(width).expand_as(batch.lengths)
    heads = batch.inputs["heads"] + starts.unsqueeze(-1)
    filled = windows > 0
    if batch.packed is None:
        return PieceLayout(windows, padding_mask(filled), heads, starts)
    at, place = _end_to_end(filled.flatten(1), batch.packed)  # [M, N], [M, W*P]
    pieces = pad(windows.flatten(1), (0, 1)).gather(1, at)
    window = at // windows.shape[2]  # [M, N]; the padding's is behind all others
    there = window.unsqueeze(2) == window.unsqueeze(1)  # [M, N, N]
    heads = place.gather(1, heads.flatten(1)).view_as(heads)
    return PieceLayout(pieces.unsqueeze(1), there.unsqueeze(1), heads, place.gather(1, starts))


def in_windows(pieces: Tensor, limit: int) -> Tensor:
    """Cut rows that hold several windows: [M, B, n * limit] -> [M, B * n, limit]."""
    tasks, _, width = pieces.shape
    if width <= limit:
        return pieces
    short = -width % limit
    pieces = pad(pieces, (0, short))
    return pieces.view(tasks, -1, limit)


def padding_mask(filled: Tensor) -> Tensor:
    """The padding of a row is seen by none: [M, W, P] -> [M*W, 1, 1, P]."""
    there = filled.flatten(0, 1)[:, None, None].clone()
    there[..., 0] = True  # an empty row sees something, so that it stays finite
    return there


def _end_to_end(filled: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Where the filled places lie, one behind the other, and where each place comes to lie.

    filled [M, F], no more than ``most`` of a task -> [M, most], F filling up, and [M, F].
    """
    tasks, places = filled.shape
    rank = filled.cumsum(1) - 1  # [M, F]
    own = torch.arange(places, device=filled.device).expand(tasks, -1)
    at = own.new_full((tasks, most + 1), places)
    at = at.scatter(1, torch.where(filled, rank, most), own)  # what is not filled goes behind
    return at[:, :most].contiguous(), rank.clamp(min=0)


def vectors_at(places: Tensor, vectors: Tensor) -> Tensor:
    """Those of some pieces: places [M, ...] of W*P, vectors [M, W, P, H] -> [M, ..., H]."""
    flat = vectors.flatten(1, 2)
    index = places.flatten(1).unsqueeze(-1).expand(-1, -1, flat.shape[-1])
    return flat.gather(1, index).view(*places.shape, -1)
