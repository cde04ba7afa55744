"""Strict entity-level scores, and how the wrong mentions are wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Literal

from hardner.types import Span

Metric = Literal["f1", "precision", "recall"]
_ErrorKind = Literal["boundary", "type", "alone"]
"""It overlaps a mention of its label; one of another label only; none."""
Labelled = Iterable[Sequence[Span]]
"""The spans of one sentence after another."""


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of mentions; right is one with the same start, end and label. Undefined ratios: 0."""

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def precision(self) -> float:
        """Right ones among the found."""
        return self.tp / (self.tp + self.fp) if self.tp else 0.0

    @property
    def recall(self) -> float:
        """Found ones among the right."""
        return self.tp / (self.tp + self.fn) if self.tp else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn) if self.tp else 0.0


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A score with its false positives and false negatives parted by kind."""

    tp: int = 0
    fp_boundary: int = 0
    """Found, and a right one of its label overlaps."""
    fp_type: int = 0
    """Found, and only right ones of other labels overlap."""
    spurious: int = 0
    """Found where there is none."""
    fn_boundary: int = 0
    """Right, and a found one of its label overlaps."""
    fn_type: int = 0
    """Right, and only found ones of other labels overlap."""
    missed: int = 0
    """Right, and nothing was found there."""

    def __add__(self, other: "Breakdown") -> "Breakdown":
        return Breakdown(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def score(self) -> Score:
        """The kinds summed up."""
        fp = self.fp_boundary + self.fp_type + self.spurious
        return Score(self.tp, fp, self.fn_boundary + self.fn_type + self.missed)


def score(gold: Labelled, predicted: Labelled) -> Score:
    """The micro score of all sentences."""
    return sum(score_labels(gold, predicted).values(), Score())


def score_labels(gold: Labelled, predicted: Labelled) -> dict[str, Score]:
    """The score of each label, in alphabetical order."""
    return {label: parts.score for label, parts in breakdown(gold, predicted).items()}


def breakdown(gold: Labelled, predicted: Labelled) -> dict[str, Breakdown]:
    """The parted score of each label, in alphabetical order."""
    sums: dict[str, Breakdown] = {}

    def add(span: Span, part: Breakdown) -> None:
        sums[span.label] = sums.get(span.label, Breakdown()) + part

    for right, found in zip(gold, predicted, strict=True):
        both = set(right) & set(found)
        for span in both:
            add(span, Breakdown(tp=1))
        for span in set(found) - both:
            kind = error_kind(span, right)
            add(span, Breakdown(**{"spurious" if kind == "alone" else f"fp_{kind}": 1}))
        for span in set(right) - both:
            kind = error_kind(span, found)
            add(span, Breakdown(**{"missed" if kind == "alone" else f"fn_{kind}": 1}))
    return dict(sorted(sums.items()))


def error_kind(span: Span, others: Sequence[Span]) -> _ErrorKind:
    """How a mention that is not among the others relates to them."""
    labels = {o.label for o in others if o.start < span.end and span.start < o.end}
    if span.label in labels:
        return "boundary"
    return "type" if labels else "alone"
