"""How well scores match the share of right spans: bins, and the expected calibration error."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from hardner.tag.predictor import Predictor
from hardner.types import Sentence


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Spans whose scores lie close together."""

    low: float
    high: float
    count: int
    confidence: float
    """Their mean score."""
    accuracy: float
    """The share of them that is right."""


def score_outcomes(predictor: Predictor, sentences: Sequence[Sentence]) -> list[tuple[float, bool]]:
    """The score of each span that is found, and whether it is right: same start, end and label.

    Labels that the sentences do not show are not asked for.
    """
    shown = {span.label for sentence in sentences for span in sentence.spans}
    labels = [label for label in predictor.labels if label in shown]
    found = predictor.spans(sentences, labels=labels)
    return [
        (score, span in sentence.spans)
        for sentence, spans in zip(sentences, found, strict=True)
        for span, score in spans
    ]


def reliability(
    outcomes: Iterable[tuple[float, bool]], bins: int = 10
) -> tuple[ReliabilityBin, ...]:
    """The outcomes (`score_outcomes`) by score, in bins of equal width; empty bins are left out."""
    held: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for score, right in outcomes:
        held[min(int(score * bins), bins - 1)].append((score, right))
    found = []
    for place, own in sorted(held.items()):
        confidence, accuracy = (fmean(values) for values in zip(*own, strict=True))
        bounds = place / bins, (place + 1) / bins
        found.append(ReliabilityBin(*bounds, len(own), confidence, accuracy))
    return tuple(found)


def calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """The expected calibration error: how far score and share of right spans lie apart."""
    total = sum(part.count for part in bins)
    gaps = (part.count * abs(part.confidence - part.accuracy) for part in bins)
    return sum(gaps) / total if total else 0.0
