"""What a network reads of sentences, as integers, and which sentences are computed together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
