"""Thresholds: the score that a mention of a label must reach, and what it does to its precision.

What a threshold costs and brings is measured on sentences that were held out while the label was
learnt: a curve keeps how many mentions were found there with each score, and how many were right.

These are few, so that their plain precision would promise too much at some threshold or other. What
is promised is the mean of p(right | score) by Platt scaling of the score s (Platt, 1999),

    logit p = a + b logit s,    a ~ N(0, 1), b ~ N(1, 1/4),

whose prior says that the score is calibrated already; the more mentions there are, the less it
counts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor

import numpy as np
from numpy.typing import NDArray

from hardner.config import Whole
from hardner.errors import HardnerError
from hardner.tag.text_tagger import check_scores
from hardner.types import Span

_Floats = NDArray[np.float64]
_STEPS = 100
"""Scores are told apart by hundredths."""
_PRIOR = np.array([1.0, 4.0])
"""Precision of the prior of a and b."""
_MOST_STEPS = 50
"""Of Newton's method, which needs five or so."""
_CLOSE = 1e-9


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
    """The precision to expect on other sentences of the kind; 0 where nothing is let through."""


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
        first = bisect_left(self.scores, threshold * _STEPS - 1e-6)
        found, right = (sum(n[first:]) for n in (self.found, self.right))
        every = np.array(self.found[first:], np.float64)
        return CurvePoint(
            threshold,
            right / found if found else 1.0,
            right / self.mentions if self.mentions else 0.0,
            found,
            float(every @ self._chances[first:] / found) if found else 0.0,
        )

    def points(self) -> list[CurvePoint]:
        """From no threshold to the highest that lets anything through."""
        return [self.at(0.0), *(self.at(score / _STEPS) for score in self.scores if score)]

    @cached_property
    def _chances(self) -> _Floats:
        """The probability that a mention with each of the scores is right."""
        share = np.clip((np.array(self.scores, np.float64) + 0.5) / _STEPS, 0.005, 0.995)
        features = np.stack([np.ones_like(share), np.log(share / (1 - share))], axis=1)  # [S, 2]
        found, right = (np.array(n, np.float64) for n in (self.found, self.right))
        intercept, slope = _platt(features, found, right)
        # A higher score never makes a mention less probable.
        return _sigmoid(features @ np.array([intercept, max(slope, 0.0)]))

    def least_threshold(self, precision: float) -> float | None:
        """The lowest threshold that promises a precision; None if none does."""
        kept = (point.threshold for point in self.points() if point.promised >= precision)
        return next(kept, None)


def _platt(features: _Floats, found: _Floats, right: _Floats) -> _Floats:
    """The likeliest a and b, of features [S, 2] of groups of mentions, by Newton's method."""

    def loss(weights: _Floats) -> float:
        logits = features @ weights
        misfit = (found * np.logaddexp(0, logits) - right * logits).sum()
        return float(misfit + _PRIOR @ (weights - start) ** 2 / 2)

    start = np.array([0.0, 1.0])
    weights, reached = start, loss(start)
    for _ in range(_MOST_STEPS):
        chance = _sigmoid(features @ weights)
        slope = features.T @ (found * chance - right) + _PRIOR * (weights - start)
        curvature = features.T * (found * chance * (1 - chance)) @ features + np.diag(_PRIOR)
        step = np.linalg.solve(curvature, slope)
        # Far from the optimum a whole step may go too far: the loss is convex, so half of it helps.
        while (after := loss(weights - step)) > reached and np.abs(step).max() > _CLOSE:
            step /= 2
        if np.abs(step).max() <= _CLOSE:
            break
        weights, reached = weights - step, after
    return weights


def _sigmoid(logits: _Floats) -> _Floats:
    chances: _Floats = 1 / (1 + np.exp(-logits))
    return chances


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
                f"no threshold of {label} promises a precision of {precision:g}, the highest "
                f"{best.promised:.2f}: of {sum(curve.found)} mentions found in held-out sentences "
                f"{sum(curve.right)} were right; label more sentences, or ask for less"
            )
        found[label] = threshold
    return found
