"""A document made ready for the project: sentences of bounded length with their labels."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardner.schemes import non_overlapping
from hardner.text import Problem, sentences
from hardner.types import Document, Offset, Sentence, Span

LONGEST = 400
"""Tokens of a sentence; a longer one is shown and labelled in parts."""


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence on its way into the project."""

    offsets: tuple[Offset, ...]
    """Of its tokens, in the document's text."""
    spans: tuple[Span, ...]

    def values(self, labelled: bool, types: Mapping[str, int]) -> tuple[int, int, str, str, str]:
        """Where it starts and stops, its tokens, state and labels, as the tables keep them."""
        start, stop = self.offsets[0][0], self.offsets[-1][1]
        flat = [edge - start for offset in self.offsets for edge in offset]
        marks = sorted((span.start, span.end, types[span.label]) for span in self.spans)
        state = "open" if not labelled else "labelled" if marks else "none"
        return start, stop, _dump(flat), state, _dump(marks)


def _dump(value: Sequence[object]) -> str:
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document on its way into the project."""

    name: str
    text: str
    rows: tuple[Row, ...]
    labelled: bool
    """Whether it came with labels, so that a sentence without one holds none."""
    warnings: tuple[str, ...]


def prepare(document: Document, labelled: bool = False) -> Prepared:
    """Finds the sentences of a document and puts its mentions on their tokens.

    A document with mentions is always labelled.
    """
    if any(sentence.offsets is None for sentence in document.sentences):
        document = replace(document, sentences=())
    warnings: list[str] = []

    def lost(problem: Problem) -> None:
        warnings.append(f"{document.id}: {problem.entity.text!r} {problem.reason}; left out")

    rows: list[Row] = []
    for sentence in sentences(document, lost):
        kept = _apart(sentence.spans)
        if len(kept) < len(sentence.spans):
            count = len(sentence.spans) - len(kept)
            warnings.append(f"{sentence.id}: {count} within another of its type; left out")
        rows += _parts(replace(sentence, spans=kept))
    labelled = labelled or any(row.spans for row in rows)
    return Prepared(document.id, document.text, tuple(rows), labelled, tuple(warnings))


def _apart(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Spans of which no two of a label overlap, the longer rather than the shorter."""
    order = sorted(spans)
    return tuple(non_overlapping(order, lambda s: (s.start - s.end, s.start), lambda s: [s.label]))


def _parts(sentence: Sentence) -> Iterator[Row]:
    """The sentence in parts of at most `LONGEST` tokens, cut outside its mentions."""
    assert sentence.offsets is not None
    start = 0
    while start < len(sentence):
        end = _cut(sentence, start)
        held = (s for s in sentence.spans if start <= s.start < end)
        spans = tuple(Span(s.start - start, min(s.end, end) - start, s.label) for s in held)
        yield Row(sentence.offsets[start:end], spans)
        start = end


def _cut(sentence: Sentence, start: int) -> int:
    end = min(len(sentence), start + LONGEST)
    while crossing := [s.start for s in sentence.spans if s.start < end < s.end]:
        if min(crossing) <= start:
            return min(len(sentence), start + LONGEST)
        end = min(crossing)
    return end
