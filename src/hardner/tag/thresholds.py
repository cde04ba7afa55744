"""Thresholds: the score that a mention of a label must reach, and what it does to its precision.

What a threshold costs and brings is measured on sentences that were held out while the label was
learnt: a curve keeps how many mentions were found there with each score, and how many were right.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from hardner.config import Whole
from hardner.errors import HardnerError
from hardner.types import Span

MinScore = float | Mapping[str, float] | None
"""The least score of what is kept: of every label, or of some; None for a tagger's own."""
_STEPS = 100
"""Scores are told apart by hundredths."""


@dataclass(frozen=True)
class CurvePoint:
    """What a threshold lets through."""

    threshold: float
    precision: float
    """Measured; 1 where nothing is let through."""
    recall: float
    found: int
    """Mentions that are let through."""
    promised: float
    """The precision if one more wrong mention were among them: few right ones promise little."""


@dataclass(frozen=True)
class PrecisionRecallCurve:
    """Precision and recall of a label at every threshold, in sentences held out from learning."""

    mentions: Whole = 0
    """Labelled in these sentences."""
    scores: tuple[Whole, ...] = ()
    """Of what was found there, in hundredths, rounded down; ascending."""
    found: tuple[Whole, ...] = ()
    """How many mentions had each score."""
    right: tuple[Whole, ...] = ()
    """How many of these were right."""

    def __post_init__(self) -> None:
        rising = list(self.scores) == sorted({s for s in self.scores if s <= _STEPS})
        fits = len(self.scores) == len(self.found) == len(self.right)
        possible = fits and all(r <= n for r, n in zip(self.right, self.found, strict=True))
        if not (rising and possible and sum(self.right) <= self.mentions):
            raise HardnerError("a curve of precision and recall contradicts itself")

    @classmethod
    def of(
        cls, gold: Iterable[Sequence[Span]], found: Iterable[Sequence[tuple[Span, float]]]
    ) -> "PrecisionRecallCurve":
        """From the right spans of each held-out sentence, and those found in it with scores."""
        mentions, every, right = 0, Counter[int](), Counter[int]()
        for own, scored in zip(gold, found, strict=True):
            mentions += len(set(own))
            for span, score in scored:
                step = floor(round(score * _STEPS, 6))
                every[step] += 1
                right[step] += span in own
        scores = tuple(sorted(every))
        return cls(mentions, scores, *(tuple(n[s] for s in scores) for n in (every, right)))

    def at(self, threshold: float) -> CurvePoint:
        """What a threshold lets through; it counts in hundredths, rounded up."""
        passed = [i for i, score in enumerate(self.scores) if score >= threshold * _STEPS - 1e-6]
        found, right = (sum(n[i] for i in passed) for n in (self.found, self.right))
        return CurvePoint(
            threshold,
            right / found if found else 1.0,
            right / self.mentions if self.mentions else 0.0,
            found,
            right / (found + 1),
        )

    def points(self) -> list[CurvePoint]:
        """From no threshold to the highest that lets anything through."""
        return [self.at(0.0), *(self.at(score / _STEPS) for score in self.scores if score)]

    def least_threshold(self, precision: float) -> float | None:
        """The lowest threshold that promises a precision; None if none does."""
        kept = (point.threshold for point in self.points() if point.promised >= precision)
        return next(kept, None)


def check_scores(scores: Iterable[float], name: str) -> None:
    """Refuse what is no probability."""
    for score in scores:
        if not isinstance(score, float | int) or not 0 <= score <= 1:
            raise HardnerError(f"{name} is a probability, from 0 to 1; got {score}")


def thresholds_for(
    precision: float,
    curves: Mapping[str, PrecisionRecallCurve],
    labels: Collection[str],
) -> dict[str, float]:
    """The lowest threshold of each label that promises a precision."""
    check_scores([precision], "a precision")
    found: dict[str, float] = {}
    for label in labels:
        curve = curves.get(label)
        if curve is None:
            known = ", ".join(curves) or "none"
            raise HardnerError(
                f"nothing is known of the precision of {label} at other thresholds (known: "
                f"{known}); leave it out, or set its threshold yourself"
            )
        threshold = curve.least_threshold(precision)
        if threshold is None:
            best = max(curve.points(), key=lambda point: point.promised)
            raise HardnerError(
                f"no threshold of {label} promises a precision of {precision:g}: of "
                f"{sum(curve.found)} mentions found in held-out sentences {sum(curve.right)} were "
                f"right, which promises {best.promised:.2f} at most; label more sentences, or ask "
                "for less"
            )
        found[label] = threshold
    return found
