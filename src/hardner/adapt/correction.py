"""What a forecast is worth, by what was found on types that no model had learnt.

Cross-validation judges models of two thirds of the sentences, one by one, on sentences that were
chosen because they hold mentions. Their mean is handed over, and it is for text as it runs.
`benchmarks/running.py` measures both, and `benchmarks/correction.py` fits to that

    logit F1 ~ N(w . x, a + b v),    w ~ N(mean, covariance),

where x are signs of a fit that are known before it is used, and v is the variance of logit F1 over
resampled held-out sentences. So an interval counts how much types differ, and how little is known
of w.

Most mentions that are missed in text would be missed in the given sentences too; what is found
too much can be seen only there. So recall is taken from the sentences that were held out, and
precision from the text: the mean score of what is found in it, and how much that is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from math import log, log2

import numpy as np

from hardner.adapt.forecast import FloatArray, Forecast, HeldOutScores, Interval
from hardner.config import make

_TABLE = "assets/forecast.json"
_USUAL = 20
"""Sentences to which numbers of them are compared."""
_EDGE = 0.02
"""F1 is told apart between this and 1 minus this."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_QUANTILE = 1.6448536269514722
"""Of a normal distribution, between whose negative and itself 90 % of it lies."""


def logit(share: float) -> float:
    """The log odds of a share, which is kept from 0 and 1."""
    kept = min(max(share, _EDGE), 1 - _EDGE)
    return log(kept / (1 - kept))


@dataclass(frozen=True)
class TextScores:
    """What a model finds of a label in text without labels."""

    sentences: int
    found: int
    sure: float
    """The sum of the scores."""

    @classmethod
    def of(cls, found: Sequence[Sequence[float]]) -> "TextScores":
        """From the scores of what is found in each sentence."""
        return cls(len(found), sum(map(len, found)), sum(map(sum, found)))


def signs_of(
    plain: Forecast, held_out: HeldOutScores, sentences: int, text: TextScores | None = None
) -> dict[str, float]:
    """What is known of a fit before it is used, by the names that the table has.

    Args:
        plain: What the learning curve promises.
        held_out: Of cross-validation.
        sentences: That the model learns from.
        text: What it finds where there are no labels.
    """
    right, spurious, missed = held_out.counts.sum(0).tolist()
    low, high = logit(plain.f1.low), logit(plain.f1.high)
    found = {
        "one": 1.0,
        "curve": logit(plain.f1.value),
        "variance": ((high - low) / 2 / _QUANTILE) ** 2,
        "sentences": log2(sentences / _USUAL),
        "mentions": log2((right + missed) / len(held_out.counts)),
    }
    if text is None:
        return found
    precision = (text.sure + 0.5) / (text.found + 1)
    recall = (right + 0.5) / (right + missed + 1)
    rate = (text.found + 0.5) / text.sentences
    usual = (right + spurious + 0.5) / len(held_out.counts)
    return found | {
        "text": logit(2 * precision * recall / (precision + recall)),
        "sure": logit(precision),
        "rate": log(rate / usual),
    }


@dataclass(frozen=True)
class Correction:
    """What signs say of F1, fitted to measurements."""

    signs: tuple[str, ...]
    mean: tuple[float, ...]
    """Of their weights."""
    covariance: tuple[tuple[float, ...], ...]
    spread: tuple[float, float]
    """Variance of logit F1 between types and fits, and what a unit of resampled variance adds."""
    cases: int
    types: int

    def expected(self, signs: Mapping[str, float]) -> Interval:
        """The mean F1 of fits with such signs, and the interval that 90 % of them lie in."""
        x = np.array([signs[name] for name in self.signs])
        middle = float(x @ self.mean)
        own, resampled = self.spread
        variance = float(x @ np.array(self.covariance) @ x) + own + resampled * signs["variance"]
        deviation = variance**0.5
        mean = float(_WEIGHTS @ _share(middle + deviation * _NODES) / _WEIGHTS.sum())
        ends = np.array([-_QUANTILE, _QUANTILE])
        low, high = _share(middle + deviation * ends).tolist()
        # What is beyond the edges was not told apart when it was measured.
        low, high = low if low > _EDGE else 0.0, high if high < 1 - _EDGE else 1.0
        return Interval(min(max(mean, low), high), low, high)


@lru_cache(maxsize=1)
def corrections() -> dict[str, Correction]:
    """Those that come with the package: ``given``, on sentences like the given ones, and ``text``,
    on text as it runs."""
    table = json.loads(files("hardner").joinpath(_TABLE).read_text("utf-8"))
    return {name: make(Correction, own) for name, own in table.items()}


def corrected(
    plain: Forecast, held_out: HeldOutScores, sentences: int, text: TextScores | None = None
) -> Forecast:
    """A forecast by what came of others; arguments are those of `signs_of`."""
    known, signs = corrections(), signs_of(plain, held_out, sentences, text)
    on_text = known["text"].expected(signs) if text else None
    return replace(plain, f1=known["given"].expected(signs), on_text=on_text)


def _share(logits: FloatArray) -> FloatArray:
    shares: FloatArray = 1 / (1 + np.exp(-logits))
    return shares
