"""What F1 to expect, from cross-validation inside the labelled sentences.

For each fold a model is fitted to all others and scored on it. One further model is fitted to the
first fold alone and scored on the others: a second point of the learning curve. All types share the
folds and their models; each is judged by itself.

Held-out counts of true positives, false positives and false negatives, a row a sentence, are
resampled by the Bayesian bootstrap. One imaginary sentence of random quality is always among them:
with two sentences anything is possible, with fifty it no longer counts. A power law extrapolates
the F1 from the number of sentences learnt to another,

    1 - F1(n) = (1 - F1(m)) * (n / m)^-b,

with a prior on its exponent from published learning curves, updated by the model's own curve.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.adapter import Adapter, params_of_sample
from hardner.adapt.fit import OnStep
from hardner.adapt.sample import Fold, Sample, folds_of, parts_of
from hardner.model.layers import Params
from hardner.tag.predictor import Predictor
from hardner.tag.thresholds import PrecisionRecallCurve
from hardner.types import Sentence, Span

FloatArray = NDArray[np.float64]
DRAWS = 2000
INTERVAL_LEVEL = 0.9
"""Probability that an interval should hold."""
EXPONENT = (0.23, 0.14)
"""Prior of b: mean and deviation over neighbouring sizes of the 306 published pairs."""
_LUCK = 0.25
"""Deviation of log(1 - F1) between samples of n sentences, times sqrt(n)."""
_BEST = 0.995
"""Cap on F1, so that log(1 - F1) is finite."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: FloatArray) -> "Interval":
        """The mean and the central `INTERVAL_LEVEL` of the draws."""
        low, high = np.quantile(draws, ((1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2))
        return cls(float(draws.mean()), float(low), float(high))


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of models on sentences held out from them."""

    learnt: float
    counts: FloatArray
    """True positives, false positives, false negatives of each sentence [K, 3]; zeros if not held
    out."""


class FoldModel(NamedTuple):
    """A model fitted to a part of the sentences, and the rows that it has not seen."""

    params: Params
    held_out: list[int]


class HeadScores(NamedTuple):
    """What the folds showed of one head."""

    large: HeldOutScores
    """Of models fitted to most of the sentences."""
    small: HeldOutScores | None
    """Of the model fitted to one fold; None where a fold is as large as the rest."""


@dataclass(frozen=True)
class CrossValidation:
    """What the folds showed."""

    heads: list[HeadScores | None]
    """None where too few sentences hold a mention of a head to hold any out."""
    models: list[FoldModel]
    """Those fitted to most of the sentences."""


def cross_validate(
    adapter: Adapter, sample: Sample, folds: int, on_step: OnStep | None = None
) -> CrossValidation | None:
    """Fit and score a model for each fold, and a small one; None where nothing can be judged.

    ``on_step`` is called as by `Adapter.fit`.
    """
    return cross_validate_all(adapter, [sample], folds, on_step)[0]


def cross_validate_all(
    adapter: Adapter, samples: Sequence[Sample], folds: int, on_step: OnStep | None = None
) -> list[CrossValidation | None]:
    """The cross-validation of each sample, as few computations as the device allows."""
    every = [_both_ways(sample, folds) for sample in samples]
    judged = [adapter.judged(s, forward) for s, (forward, _) in zip(samples, every, strict=True)]
    parts: list[Sample] = []
    for sample, (forward, back), can in zip(samples, every, judged, strict=True):
        if any(can):
            both = [*forward, *back]
            made = parts_of(sample, both, adapter.recipe.replacements, adapter.types)
            # The small one first: only its scores are kept.
            parts += [*made[len(forward) :], *made[: len(forward)]]
    if not parts:
        return [None] * len(samples)
    # One fit a fold: restarts would triple the time and hardly change what is expected.
    adapter.encode(samples)
    once = adapter.with_recipe(replace(adapter.recipe, restarts=1, average_folds=False))
    groups = once.fit_groups(parts, on_step)
    fitted = (params_of_sample(params, i) for some, params in groups for i in range(len(some)))
    found: list[CrossValidation | None] = []
    for sample, (forward, back), can in zip(samples, every, judged, strict=True):
        own = islice(fitted, len(forward) + len(back))
        there = any(can)
        found.append(_scored(adapter, sample.sentences, forward, back, can, own) if there else None)
    return found


def _scored(
    adapter: Adapter,
    sentences: Sequence[Sentence],
    forward: Sequence[Fold],
    back: Sequence[Fold],
    judged: Sequence[bool],
    fitted: Iterator[Params],
) -> CrossValidation:
    """What the models of the folds, those of one sample and the small one first, show of it."""
    small = _held_out_scores(adapter, sentences, back, islice(fitted, len(back))) if back else []
    ahead = list(fitted)
    large = _held_out_scores(adapter, sentences, forward, ahead)
    pairs = zip_longest(large, small)
    return CrossValidation(
        [HeadScores(*pair) if can else None for can, pair in zip(judged, pairs, strict=True)],
        [FoldModel(p, f.held_out) for p, f in zip(ahead, forward, strict=True)],
    )


def _both_ways(sample: Sample, folds: int) -> tuple[list[Fold], list[Fold]]:
    """The folds, and the first the other way round, where that makes a smaller model."""
    forward = folds_of(sample, folds)
    return forward, [Fold(f.held_out, f.train) for f in forward[:1] if len(forward) > 2]


def count_steps(adapter: Adapter, sample: Sample, folds: int) -> int:
    """How many steps a fit to all sentences and its cross-validation take."""
    own, (forward, back) = adapter.steps(sample), _both_ways(sample, folds)
    if not any(adapter.judged(sample, forward)):
        return own
    heads = len(adapter.tag_sets)
    return own + sum(adapter.recipe.inner(len(f.train), heads).steps for f in (*forward, *back))


def find_spans(adapter: Adapter, params: Params, sentences: Sequence[Sentence]) -> list[list[Span]]:
    """What fitted parameters find in sentences, as users will see it."""
    predictor = Predictor(adapter.tagger, params, device=str(adapter.device))
    return [[span for span, _ in spans] for spans in predictor.spans(sentences)]


def held_out_curves(
    adapter: Adapter,
    sentences: Sequence[Sentence],
    models: Sequence[FoldModel],
    temperatures: Sequence[float],
) -> dict[str, PrecisionRecallCurve]:
    """By label, precision and recall at every threshold, as the models of the folds find it."""
    gold: list[Sequence[Span]] = []
    found: list[list[tuple[Span, float]]] = []
    for params, rows in models:
        predictor = Predictor(adapter.tagger, params, tuple(temperatures), str(adapter.device))
        held_out = [sentences[row] for row in rows]
        gold += [sentence.spans for sentence in held_out]
        found += predictor.spans(held_out)
    curves = {}
    for label in (label for tag_set in adapter.tag_sets for label in tag_set.labels if models):
        own = [[(span, score) for span, score in spans if span.label == label] for spans in found]
        curves[label] = PrecisionRecallCurve.of(of_labels(gold, [label]), own)
    return curves


def _held_out_scores(
    adapter: Adapter, sentences: Sequence[Sentence], folds: Sequence[Fold], fitted: Iterable[Params]
) -> list[HeldOutScores]:
    """The scores of each head in the sentences that its fold held out."""
    counts = np.zeros((len(adapter.tag_sets), len(sentences), 3))
    for fold, params in zip(folds, fitted, strict=True):
        held_out = [sentences[row] for row in fold.held_out]
        found = find_spans(adapter, params, held_out)
        gold = [sentence.spans for sentence in held_out]
        for own, tag_set in zip(counts, adapter.tag_sets, strict=True):
            pair = (of_labels(spans, tag_set.labels) for spans in (gold, found))
            own[fold.held_out] = count_spans(*pair)
    learnt = sum(len(fold.train) for fold in folds) / len(folds)
    return [HeldOutScores(learnt, own) for own in counts]


def of_labels(spans: Sequence[Sequence[Span]], labels: Collection[str]) -> list[list[Span]]:
    """Of each sentence, the spans of some labels."""
    return [[span for span in own if span.label in labels] for own in spans]


def count_spans(
    gold: Sequence[Sequence[tuple[object, ...]]], found: Sequence[Sequence[tuple[object, ...]]]
) -> NDArray[np.float64]:
    """True positives, false positives and false negatives of each sentence: [K, 3]."""
    pairs = [(set(right), set(own)) for right, own in zip(gold, found, strict=True)]
    rows = [(len(r & s), len(s - r), len(r - s)) for r, s in pairs]
    return np.array(rows, np.float64).reshape(-1, 3)


@dataclass(frozen=True)
class Forecast:
    """What to expect of a model that learns from all sentences."""

    f1: Interval
    gain: Interval
    """What ``more`` sentences would add."""
    more: int
    exponent: float
    """Of the learning curve."""
    on_text: Interval | None = None
    """F1 on text as it runs, where there is some to see what the model finds in it."""


def forecast(
    large: HeldOutScores, small: HeldOutScores | None, sentences: int, more: int = 10, seed: int = 0
) -> Forecast:
    """Extrapolate held-out scores to a model of all sentences, and of more.

    Args:
        large: Scores of models that learnt most of the sentences.
        small: Scores of a model that learnt few; without it, b is the prior's.
        sentences: How many there are.
        more: Further sentences to forecast the gain of.
        seed: Of the draws.
    """
    rng = np.random.default_rng((seed, 1))
    trials = [large] if small is None else [large, small]
    missed = 1 - np.minimum(resampled(np.stack([t.counts for t in trials]), seed), _BEST)
    b = _exponent([t.learnt for t in trials], missed, rng)
    luck = np.exp(rng.normal(0, _LUCK / sentences**0.5, DRAWS))
    now = np.minimum(missed[0] * (sentences / large.learnt) ** -b * luck, 1.0)
    then = now * ((sentences + more) / sentences) ** -b
    f1 = Interval.of(1 - now)
    # The imaginary sentence widens the interval but does not move the point estimate.
    likely = 1 - (1 - f1_of(large.counts)) * (sentences / large.learnt) ** -float(b.mean())
    f1 = replace(f1, value=min(max(likely, f1.low), f1.high))
    return Forecast(f1, Interval.of(now - then), more, float(b.mean()))


def f1_of(counts: FloatArray) -> float:
    """Micro F1 of counts [K, 3]; 0 where nothing is right."""
    tp, fp, fn = counts.sum(0).tolist()
    return float(2 * tp / (2 * tp + fp + fn)) if tp else 0.0


def _exponent(learnt: list[float], missed: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draws of b from its posterior: prior and measured slope weighted by their precision."""
    mean, deviation = EXPONENT
    if len(learnt) == 2 and learnt[1] < learnt[0]:
        apart = np.log(learnt[0] / learnt[1])
        seen = np.log(missed[1] / missed[0]) / apart
        luck = _LUCK * (1 / learnt[0] + 1 / learnt[1]) ** 0.5 / apart
        noise = float(seen.var()) + luck**2
        share = deviation**2 / (deviation**2 + noise)
        mean += share * (float(seen.mean()) - mean)
        deviation *= (1 - share) ** 0.5
    return np.maximum(rng.normal(mean, deviation, DRAWS), 0.0)


def resampled(counts: FloatArray, seed: int = 0) -> FloatArray:
    """Bootstrap draws of F1 from counts [N, K, 3], paired between the N models: [N, DRAWS]."""
    tp, fp, fn = np.moveaxis(np.asarray(counts, np.float64), -1, 0)  # [N, K]
    right, every = 2 * tp, 2 * tp + fp + fn
    rng = np.random.default_rng(seed)
    fancied, weight = rng.random(DRAWS), rng.exponential(size=DRAWS)
    there = np.flatnonzero(every.any(0))
    if not len(there):
        return np.broadcast_to(fancied, (len(tp), DRAWS))
    # With few sentences their spread is underrated; weights that vary more make up for it.
    shape = max((len(there) - 1) / (len(there) + 1), 0.25)
    weights = rng.gamma(shape, 1 / shape, (len(there), DRAWS))
    usual = weight * every[:, there].mean(1, keepdims=True).clip(min=1e-9)  # [N, DRAWS]
    found: FloatArray = (right[:, there] @ weights + fancied * usual) / (
        every[:, there] @ weights + usual
    )
    return found
