"""What no adaptation may do: diverge, tag everything or nothing, or be worse than what is there."""

from collections.abc import Sequence

import numpy as np

from hardner.adapt.forecast import FloatArray, Forecast, HeldOutScores, resampled
from hardner.adapt.report import TypeReport
from hardner.errors import HardnerError
from hardner.model.layers import Params
from hardner.types import Sentence, Span

SURE = 0.9
"""An adaptation is refused if an existing label is better with at least this probability."""
USEFUL = 0.2
"""An existing label with a lower F1 is no alternative."""


class AdaptationRefused(HardnerError):
    """An adaptation that would do harm, and why."""

    types: Sequence[TypeReport] = ()
    """What came of each type, where none could be learnt."""


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


def chance_of(counts: FloatArray, large: HeldOutScores, seen: Forecast, seed: int = 0) -> float:
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
