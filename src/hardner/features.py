"""What a network reads of sentences, as integers: subword pieces, cut into windows; batches.

Nothing here needs torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hardner.config import AxisSize, Bounds, Whole, check_fields, make
from hardner.errors import HardnerError
from hardner.types import Sentence

TOKENIZER = "tokenizer.json"
"""The file of a model folder that holds it."""
_REMEMBERED = 200_000
"""Words whose pieces are kept at a time."""
Ints = NDArray[np.int64]
CPU_SENTENCES, CPU_CELLS = 64, 1 << 13
"""Of a batch on a CPU, at most: sentences, and words or subwords, counting padding."""


@dataclass(frozen=True)
class Features:
    """What an encoder reads of sentences, before batching."""

    streams: Mapping[str, Sequence[Ints]]
    """By name, one row of integers a sentence; padded with 0 in a batch."""
    tables: Mapping[str, Ints]
    """By name, what the integers point into (the letters of each word form, say)."""
    counted: str = ""
    """The stream whose different values an encoder may want counted, if any."""
    packed: str = ""
    """The stream whose values an encoder may want to lay end to end, if any."""


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


def read_pieces(config: Mapping[str, Any], text: str, shift: int) -> Pieces:
    """The pieces of a model folder, from their settings and the JSON text of its tokenizer file."""
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode(["\U0010ffff"], is_pretokenized=True)  # some lack a piece for the unknown
    except Exception as error:  # tokenizers raises no narrower one
        raise HardnerError(f"{TOKENIZER} is damaged: {error}") from None
    splitter = make(Splitter, {"tokenizer": tokenizer, "shift": shift}, "encoder")
    return make(Pieces, {**config, "split": splitter}, "encoder.pieces")


def bucket(width: int) -> int:
    """The next multiple of 16, and beyond 128 the next of 160, 192, 224, 256, 320, … ."""
    if width <= 128:
        return -(-width // 16) * 16
    step = 1 << ((width - 1).bit_length() - 3)  # a quarter of the power of two below
    return -(-width // step) * step


def group_by_width(
    widths: Ints,
    max_cells: int,
    max_rows: int | None = None,
    round_up: Callable[[int], int] | None = None,
) -> Iterator[Ints]:
    """Rows in groups of like width, the widest first, so that little of a batch is padding.

    Args:
        widths: Of each row.
        max_cells: Rows of a group times the width that they are padded to; a row that is wider
            is a group by itself.
        max_rows: Rows of a group.
        round_up: The width that a width is padded to. If given, a group holds rows of one padded
            width, so that a row's padding depends on the row alone and not on its neighbours.
    """
    if round_up:
        table = np.array([round_up(width) for width in range(int(widths.max(initial=0)) + 1)])
        widths = table[widths]
    order = np.argsort(-widths, kind="stable")
    descending = -widths[order]
    start = 0
    while start < len(order):
        width = -descending[start]
        size = max(1, max_cells // max(1, int(width)))
        stop = start + min(size, max_rows or size)
        if round_up:
            stop = min(stop, int(np.searchsorted(descending, -width, "right")))
        yield order[start:stop]
        start = stop


def even_width(width: int) -> int:
    """The padded width of a sentence on a CPU.

    It follows from the sentence alone, so that results do not depend on the batch.
    """
    return width + width % 2


def groups_of_streams(
    widths: Mapping[str, Ints],
    max_cells: int,
    max_rows: int,
    round_up: Callable[[int], int] = even_width,
) -> Iterator[tuple[Ints, dict[str, int]]]:
    """Rows of one padded width, the widest first, and the padded width of each stream.

    Args: ``widths`` are those of each row by stream; others are those of `group_by_width`.
    """
    widest = np.stack([*widths.values()]).max(0)
    for rows in group_by_width(widest, max_cells, max_rows, round_up):
        yield rows, {n: round_up(max(1, int(own[rows].max()))) for n, own in widths.items()}
