"""Many things in, each cut into pieces; tagged together in a bounded buffer; out in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from hardner.tag.mentions import ScoredMention, in_offsets, without_overlaps
from hardner.tag.windows import Window

BATCHES = 16
"""Batches of pieces in the buffer, among which those of like length are brought together."""
PIECES = 1 << 14
"""In the buffer, at most, however large a batch is."""
TOKENS = 64
"""In the buffer, at most, for each piece that it has room for, but for the last piece."""

_Item = TypeVar("_Item")
_TagWindows = Callable[[Sequence[Window]], Iterable[Iterable[ScoredMention]]]


def room_for(size: int) -> int:
    """Pieces that the buffer holds where batches are of this size."""
    return min(BATCHES * size, PIECES)


def tag_in_order(
    things: Iterable[tuple[_Item, Iterable[Window]]], tag: _TagWindows, room: int
) -> Iterator[tuple[_Item, list[ScoredMention]]]:
    """Each thing with its marks, sorted.

    Args:
        things: Read no further ahead than the buffer holds.
        tag: Finds the marks of some pieces, in tokens.
        room: Pieces, and things, that the buffer holds.
    """
    waiting: list[tuple[_Item, _Found]] = []
    buffer: list[tuple[_Found, Window]] = []
    tokens = 0

    def empty() -> None:
        nonlocal tokens
        for (found, piece), marks in zip(buffer, tag([p for _, p in buffer]), strict=True):
            found.add(piece, marks)
        buffer.clear()
        tokens = 0

    for thing, pieces in things:
        found = _Found()
        for piece in pieces:
            if len(buffer) >= room or tokens >= room * TOKENS:
                empty()
                yield from _all(waiting)
            buffer.append((found, piece))
            tokens += len(piece.tokens)
        waiting.append((thing, found))
        if len(waiting) >= room:
            empty()
            yield from _all(waiting)
    empty()
    yield from _all(waiting)


class _Found:
    """The marks of one thing, as its pieces come back."""

    def __init__(self) -> None:
        self.marks: list[ScoredMention] = []
        self.disputed = False

    def add(self, piece: Window, marks: Iterable[ScoredMention]) -> None:
        left, right = piece.own
        there = in_offsets(marks, piece.offsets)
        self.marks += [mark for mark in there if left <= mark.start < right]
        self.disputed |= piece.cut


def _all(waiting: list[tuple[_Item, _Found]]) -> Iterator[tuple[_Item, list[ScoredMention]]]:
    for thing, found in waiting:
        yield thing, without_overlaps(found.marks) if found.disputed else sorted(found.marks)
    waiting.clear()
