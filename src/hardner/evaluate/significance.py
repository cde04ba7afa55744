"""Is one method better than another? Paired by the samples that both were scored on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError

_Floats = NDArray[np.float64]
EXACT = 30
"""Up to so many pairs every change of signs is counted."""
RESAMPLES = 9999
_SLACK = 1e-12
"""Sums that differ by less, relative to their terms, are equal: only rounding parts them."""


@dataclass(frozen=True)
class Comparison:
    """One method less another, over the samples they share."""

    pairs: int
    difference: float
    """Of the means."""
    low: float
    high: float
    """Where 95 % of the bootstrap's mean differences lie."""
    effect: float
    """Cohen's d of paired values: the mean difference in its standard deviations."""
    p: float
    """Of a permutation test, two-sided."""


def compare(one: Sequence[float], other: Sequence[float], seed: int = 0) -> Comparison:
    """Compare two methods' values, pair by pair."""
    if len(one) != len(other) or not one:
        raise HardnerError(f"cannot pair {len(one)} values with {len(other)}")
    differences = np.subtract(one, other, dtype=np.float64)
    low, high = interval(differences, seed)
    return Comparison(
        len(differences),
        float(differences.mean()),
        low,
        high,
        effect_size(differences),
        permutation_test(differences, seed),
    )


def permutation_test(differences: _Floats, seed: int = 0) -> float:
    """How often a sum of the differences with random signs is as far from 0 as theirs.

    Exact for up to `EXACT` pairs: each half's sums are listed, and those of the one that a sum of
    the other needs are counted by search. More pairs are sampled.
    """
    reach = abs(differences.sum()) - _SLACK * np.abs(differences).sum()
    if len(differences) > EXACT:
        rng = np.random.default_rng(seed)
        signs = rng.integers(0, 2, (RESAMPLES, len(differences)), dtype=np.int8) * 2 - 1
        return float((np.sum(np.abs(signs @ differences) >= reach) + 1) / (RESAMPLES + 1))
    half = len(differences) // 2
    left, right = _sums(differences[:half]), np.sort(_sums(differences[half:]))
    above = len(right) - np.searchsorted(right, reach - left, side="left")
    below = np.searchsorted(right, -reach - left, side="right")
    total = left.size * right.size
    return float(min((above.sum() + below.sum()) / total, 1.0))


def _sums(values: _Floats) -> _Floats:
    """All sums of the values with either sign."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums + value, sums - value))
    return sums


def interval(differences: _Floats, seed: int = 0, level: float = 0.95) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(differences), (RESAMPLES, len(differences)))
    means = differences[drawn].mean(1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def effect_size(differences: _Floats) -> float:
    """Cohen's d of paired values; 0 where there is no difference, infinite where none varies."""
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    if deviation <= _SLACK * abs(mean):
        return float(np.inf * np.sign(mean)) if mean else 0.0
    return mean / deviation


def holm(values: Sequence[float]) -> list[float]:
    """P values made fit for being read together (Holm, 1979)."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
