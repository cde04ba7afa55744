"""Checks that refuse an adaptation: collapsed, diverged, or worse than the model as it is."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.forecast import Forecast, HeldOutScores, f1_of, resampled
from hardner.errors import HardnerError
from hardner.model.layers import Params
from hardner.types import Sentence, Span

SURE = 0.9
"""An adaptation is refused if an existing label is better with at least this probability."""
USEFUL = 0.2
"""An existing label with a lower F1 is no alternative."""

_Counts = NDArray[np.float64]


class AdaptationRefused(HardnerError):
    """An adaptation that would do harm, and why."""


def check_finite(fitted: Sequence[Params]) -> None:
    """Refuse parameters that are NaN or infinite."""
    for params in fitted:
        for name, value in params.items():
            if not bool(value.isfinite().all()):
                raise AdaptationRefused(
                    f"learning diverged ({name} is not finite); try another --seed"
                )


def check_loss(before: float, after: float) -> None:
    """Refuse a fit whose loss on its own sentences did not fall."""
    if not after < before:
        said = f"the loss on the sentences went from {before:.3g} to {after:.3g}"
        raise AdaptationRefused(f"learning diverged: {said}; try another --seed")


def check_spans(gold: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> None:
    """Refuse a model that tags nothing, or nearly everything, in the sentences it learnt."""
    words = sum(map(len, gold))
    right = sum(s.end - s.start for sentence in gold for s in sentence.spans)
    said = sum(s.end - s.start for spans in found for s in spans)
    if not said:
        raise AdaptationRefused(
            "the adapted model tags nothing, not even the mentions it learnt from"
        )
    if 2 * said > words + right:
        shares = f"{said / words:.0%} of the words where {right / words:.0%} are right"
        raise AdaptationRefused(f"the adapted model tags nearly everything: {shares}")


def check_text(text: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> None:
    """Refuse a model that tags most words of unlabelled text."""
    words = sum(map(len, text))
    said = sum(s.end - s.start for spans in found for s in spans)
    if 2 * said > words:
        raise AdaptationRefused(
            f"the adapted model tags {said / words:.0%} of the words of unlabelled text"
        )


def best_label(labels: Mapping[str, _Counts]) -> tuple[str, float] | None:
    """The model's label that does best in place of the new one, and its F1."""
    scored = {label: f1_of(counts) for label, counts in labels.items()}
    best = max(scored, key=lambda label: scored[label], default=None)
    return None if best is None else (best, scored[best])


def chance_of(counts: _Counts, large: HeldOutScores, seen: Forecast, seed: int = 0) -> float:
    """The probability that an existing label beats the adapted model."""
    theirs, ours = resampled(np.stack([counts, large.counts]), seed)
    grown = (len(counts) / large.learnt) ** -seen.exponent
    return float((theirs > 1 - (1 - ours) * grown).mean())


def check_better(label: str, f1: float, chance: float, seen: Forecast) -> None:
    """Refuse an adaptation that is almost surely worse than an existing label."""
    if chance >= SURE and f1 > max(seen.f1.value, USEFUL):
        raise AdaptationRefused(
            f"the model's own {label} does better on these sentences as it is: F1 {f1:.2f}, "
            f"adapted {seen.f1.value:.2f} expected; use it, or force the adaptation"
        )
