"""Windows of subword pieces laid out for a transformer.

Sentences of a task are of different lengths, so that rows as wide as the longest are mostly
padding. Laid end to end the pieces of a task are one row, in which each sees those of its own
window alone. Positions are relative (rotary), so that it does not matter where a window lies.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.batch import Batch


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
