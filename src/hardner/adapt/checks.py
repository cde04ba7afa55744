"""Adaptations that must not reach the user: collapsed, diverged, or worse than what was there."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.forecast import Forecast, HeldOutScores, f1_of, resampled
from hardner.errors import HardnerError
from hardner.model.layers import Params
from hardner.types import Sentence, Span

SURE = 0.9
"""How probable it must be that a label is better as it is before an adaptation is refused."""
USEFUL = 0.2
"""F1 below which a label is no alternative, however bad the adaptation."""

_Counts = NDArray[np.float64]


class AdaptationRefused(HardnerError):
    """An adaptation that would do harm, and why."""


def check_finite(fitted: Sequence[Params]) -> None:
    """Refuse parameters that are no numbers any more."""
    for params in fitted:
        for name, value in params.items():
            if not bool(value.isfinite().all()):
                raise AdaptationRefused(
                    f"learning diverged ({name} is not finite); try another --seed"
                )


def check_loss(before: float, after: float) -> None:
    """Refuse a fit that moved away from its own sentences."""
    if not after < before:
        said = f"the loss on the sentences went from {before:.3g} to {after:.3g}"
        raise AdaptationRefused(f"learning diverged: {said}; try another --seed")


def check_spans(gold: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> None:
    """Refuse a model that finds nothing, or nearly everything, in sentences it learnt from."""
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
    """Refuse a model that finds mentions in most words of plain text."""
    words = sum(map(len, text))
    said = sum(s.end - s.start for spans in found for s in spans)
    if 2 * said > words:
        raise AdaptationRefused(
            f"the adapted model tags {said / words:.0%} of the words of unlabelled text"
        )


def best_label(labels: Mapping[str, _Counts]) -> tuple[str, float] | None:
    """Which label of a model stands for the new one best as it is, and its F1."""
    scored = {label: f1_of(counts) for label, counts in labels.items()}
    best = max(scored, key=lambda label: scored[label], default=None)
    return None if best is None else (best, scored[best])


def chance_of(counts: _Counts, large: HeldOutScores, seen: Forecast, seed: int = 0) -> float:
    """How probable it is that a label as it is beats the model of all sentences."""
    theirs, ours = resampled(np.stack([counts, large.counts]), seed)
    grown = (len(counts) / large.learnt) ** -seen.exponent
    return float((theirs > 1 - (1 - ours) * grown).mean())


def check_better(label: str, f1: float, chance: float, seen: Forecast) -> None:
    """Refuse an adaptation that is almost surely worse than a label of the model as it is."""
    if chance >= SURE and f1 > max(seen.f1.value, USEFUL):
        raise AdaptationRefused(
            f"the model's own {label} does better on these sentences as it is: F1 {f1:.2f}, "
            f"adapted {seen.f1.value:.2f} expected; use it, or force the adaptation"
        )
