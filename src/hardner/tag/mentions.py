"""Labelled runs of tokens as a network finds them, and how they become spans and entities."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardner.batch import Ints, TagSet
from hardner.schemes import tags_to_spans
from hardner.types import Span


class ScoredMention(NamedTuple):
    """A mention that one of a tagger's heads has found, in the units of the piece it lies in."""

    start: int
    end: int
    label: str
    score: float
    head: int


class TagRun(NamedTuple):
    """A span of a sentence of a batch, and the tags that spell it."""

    head: int
    row: int
    span: Span
    tags: tuple[int, ...]


def tag_runs(tags: Ints, tag_sets: Sequence[TagSet]) -> list[TagRun]:
    """The spans that tags [D, B, T] spell, ``tag_sets`` being those of the D heads."""
    head, row, token = np.nonzero(tags > 0)
    if not len(head):
        return []
    parted = (np.diff(head) != 0) | (np.diff(row) != 0) | (np.diff(token) != 1)
    edges = [0, *(np.flatnonzero(parted) + 1).tolist(), len(head)]
    values = tags[head, row, token].tolist()
    heads, rows, tokens = head.tolist(), row.tolist(), token.tolist()
    found = []
    for left, right in pairwise(edges):
        here = tuple(values[left:right])
        first = tokens[left]
        for start, end, label in _spelt(here, tag_sets[heads[left]]):
            span = Span(first + start, first + end, label)
            found.append(TagRun(heads[left], rows[left], span, here[start:end]))
    return found


@lru_cache(maxsize=1 << 14)
def _spelt(tags: tuple[int, ...], tag_set: TagSet) -> tuple[Span, ...]:
    names = tag_set.tags
    return tags_to_spans([names[tag] for tag in tags], tag_set.scheme)[0]


def without_overlaps(marks: Iterable[ScoredMention]) -> list[ScoredMention]:
    """The best marks of which no two of one head, or of one label, overlap; in order."""
    taken: set[tuple[object, int]] = set()
    kept = []
    for mark in sorted(marks, key=lambda m: (-m.score, m)):
        cells = {(key, at) for key in (mark.head, mark.label) for at in range(mark.start, mark.end)}
        if taken.isdisjoint(cells):
            taken |= cells
            kept.append(mark)
    return sorted(kept)


def in_offsets(
    marks: Iterable[ScoredMention], offsets: Sequence[tuple[int, int]]
) -> Iterator[ScoredMention]:
    """Marks over tokens in the units of the tokens' offsets."""
    for mark in marks:
        start, end, label, score, head = mark
        yield ScoredMention(offsets[start][0], offsets[end - 1][1], label, score, head)
