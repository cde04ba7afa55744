"""Cross-validation inside the labelled sentences: what to expect before any test data is seen.

For each fold a model is fitted to all others and scored on it. One further model is fitted to the
first fold alone and scored on the others: a second point of the learning curve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.adapter import Adapter, params_of_sample
from hardner.adapt.forecast import HeldOutScores
from hardner.adapt.sample import Fold, Sample, folds_of, parts_of
from hardner.model.layers import Params
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span


class FoldModel(NamedTuple):
    """A model fitted to a part of the sentences, and the rows that it has not seen."""

    params: Params
    held_out: list[int]


@dataclass(frozen=True)
class CrossValidation:
    """What the folds showed."""

    large: HeldOutScores
    """Of models fitted to most of the sentences."""
    small: HeldOutScores | None
    """Of the model fitted to one fold; None where a fold is as large as the rest."""
    models: list[FoldModel]
    """Those fitted to most of the sentences."""


def cross_validate(
    adapter: Adapter, sample: Sample, folds: int, tick: Callable[[int], None]
) -> CrossValidation:
    """Fit and score a model for each fold, and a small one; ``tick`` is told of models fitted."""
    sentences = sample.sentences
    forward = folds_of(sample, folds)
    back = [Fold(fold.held_out, fold.train) for fold in forward[:1] if len(forward) > 2]
    parts = parts_of(sample, [*forward, *back], adapter.recipe.replacements)
    # One fit a fold: restarts would triple the time and hardly change what is expected.
    adapter.encode([sample])
    once = adapter.with_recipe(replace(adapter.recipe, restarts=1, average_folds=False))
    fitted: list[Params] = []
    for some, params in once.fit_groups(parts):
        fitted += [params_of_sample(params, i) for i in range(len(some))]
        tick(len(some))
    ahead, behind = fitted[: len(forward)], fitted[len(forward) :]
    return CrossValidation(
        _held_out_scores(adapter, sentences, forward, ahead),
        _held_out_scores(adapter, sentences, back, behind) if back else None,
        [FoldModel(p, f.held_out) for p, f in zip(ahead, forward, strict=True)],
    )


def count_fits(sentences: int, folds: int) -> int:
    """How many models are fitted in all, the one of all sentences included."""
    count = min(folds, sentences)
    return count + (count > 2) + 1 if sentences > 1 else 1


def find_spans(adapter: Adapter, params: Params, sentences: Sequence[Sentence]) -> list[list[Span]]:
    """What fitted parameters find in sentences, as users will see it."""
    predictor = Predictor(adapter.tagger, params, device=str(adapter.device))
    return [[span for span, _ in spans] for spans in predictor.spans(sentences)]


def _held_out_scores(
    adapter: Adapter, sentences: Sequence[Sentence], folds: Sequence[Fold], fitted: Sequence[Params]
) -> HeldOutScores:
    counts = np.zeros((len(sentences), 3))
    for fold, params in zip(folds, fitted, strict=True):
        held_out = [sentences[row] for row in fold.held_out]
        found = find_spans(adapter, params, held_out)
        counts[fold.held_out] = count_spans([s.spans for s in held_out], found)
    learnt = sum(len(fold.train) for fold in folds) / len(folds)
    return HeldOutScores(learnt, counts)


def count_spans(
    gold: Sequence[Sequence[Span]], found: Sequence[Sequence[Span]]
) -> NDArray[np.float64]:
    """True positives, false positives and false negatives of each sentence: [K, 3]."""
    pairs = [(set(right), set(own)) for right, own in zip(gold, found, strict=True)]
    rows = [(len(r & s), len(s - r), len(r - s)) for r, s in pairs]
    return np.array(rows, np.float64).reshape(-1, 3)
