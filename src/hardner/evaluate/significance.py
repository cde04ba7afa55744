"""Is one system better than another? Tests over the samples that both were scored on, and seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError

_Floats = NDArray[np.float64]
EXACT_PAIRS = 30
"""Up to so many pairs the permutation test is exact."""
RESAMPLES = 9999
_EXACT_UNITS = 12
"""Up to so many units that differ, all ways to exchange them are gone through."""
_SLACK = 1e-12
"""Sums that differ by less, relative to their terms, are equal: the rest is rounding."""


@dataclass(frozen=True)
class Comparison:
    """One system less another, over the samples they share."""

    pairs: int
    difference: float
    """Of the means."""
    low: float
    high: float
    """The 95 % bootstrap interval of the difference."""
    effect: float
    """Cohen's d of paired values: the mean difference in its standard deviations."""
    p: float
    """Two-sided: of a paired permutation test, or with several seeds of the bootstrap."""
    seeds: int = 1
    """Trainings of the system that has fewer."""


def compare(one: Sequence[float], other: Sequence[float]) -> Comparison:
    """Compare two systems' values, pair by pair."""
    if len(one) != len(other) or not one:
        raise HardnerError(f"cannot pair {len(one)} values with {len(other)}")
    apart = np.subtract(one, other, dtype=np.float64)
    interval = bootstrap_interval(apart)
    effect, p = cohens_d(apart), permutation_test(apart)
    return Comparison(len(apart), float(apart.mean()), *interval, effect, p)


def compare_trainings(
    one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
) -> Comparison:
    """Compare two systems that were trained with several seeds each: [seeds, samples] values.

    Every training was scored after the same samples, so the samples are paired and the trainings
    are not. With a single training of each, this is `compare`.
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not a.size or not b.size:
        raise HardnerError(f"cannot compare {a.shape} values (seeds, samples) with {b.shape}")
    apart = a.mean(0) - b.mean(0)
    if len(a) == len(b) == 1:
        return compare(a[0].tolist(), b[0].tolist())
    drawn = crossed_bootstrap(a, b)
    low, high = np.quantile(drawn, (0.025, 0.975))
    beyond = min(np.sum(drawn <= 0), np.sum(drawn >= 0))
    p = min(1.0, 2 * float(beyond + 1) / (len(drawn) + 1))
    difference, seeds = float(apart.mean()), min(len(a), len(b))
    return Comparison(len(apart), difference, float(low), float(high), cohens_d(apart), p, seeds)


def crossed_bootstrap(a: _Floats, b: _Floats, draws: int = RESAMPLES) -> _Floats:
    """Differences of the means under other trainings and other samples: [draws].

    The trainings of either system and the samples, which both share, are drawn with replacement.
    Of n, n - 1 are drawn, so that the variance is unbiased for as few as five (McCarthy and
    Snowden, 1985); a single one always.
    """
    rng = np.random.default_rng(0)

    def counts(n: int) -> _Floats:  # how often each was drawn, as shares: [draws, n]
        return rng.multinomial(max(n - 1, 1), np.full(n, 1 / n), draws) / max(n - 1, 1)

    samples = counts(a.shape[1])
    means = [np.einsum("ds,st,dt->d", counts(len(x)), x, samples, optimize=True) for x in (a, b)]
    return np.asarray(means[0] - means[1], np.float64)


def permutation_test(differences: _Floats, seed: int = 0) -> float:
    """The p value of Fisher's paired permutation test (approximate randomisation), two-sided.

    Under the null hypothesis each difference d_i could as well have the other sign:

        p = share of all signs s in {-1, 1}^n with |sum_i s_i d_i| >= |sum_i d_i|

    Up to `EXACT_PAIRS` pairs this is exact: the sums over either half of the pairs are listed, and
    for each of the left half those of the right half that reach far enough are found by binary
    search, which takes 2^(n/2) sums instead of 2^n. With more pairs, signs are drawn at random and
    p = (hits + 1) / (draws + 1), which counts the observed signs as one of the draws.
    """
    reach = abs(differences.sum()) - _SLACK * np.abs(differences).sum()
    if len(differences) > EXACT_PAIRS:
        rng = np.random.default_rng(seed)
        signs = rng.integers(0, 2, (RESAMPLES, len(differences)), dtype=np.int8) * 2 - 1
        return float((np.sum(np.abs(signs @ differences) >= reach) + 1) / (RESAMPLES + 1))
    half = len(differences) // 2
    left, right = _signed_sums(differences[:half]), np.sort(_signed_sums(differences[half:]))
    above = len(right) - np.searchsorted(right, reach - left, side="left")
    below = np.searchsorted(right, -reach - left, side="right")
    total = left.size * right.size
    # Where all differences are 0, a sum of 0 is counted on both sides.
    return float(min((above.sum() + below.sum()) / total, 1.0))


def _signed_sums(values: _Floats) -> _Floats:
    """The sums of the values under all choices of signs: [2^n]."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums + value, sums - value))
    return sums


def bootstrap_interval(differences: _Floats) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the mean (Efron, 1979)."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(differences), (RESAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(1), (0.025, 0.975))
    return float(low), float(high)


def f1_of_sums(sums: _Floats) -> _Floats:
    """Micro F1 of sums of true positives, false positives, false negatives: [..., 3] -> [...]."""
    every = 2 * sums[..., 0] + sums[..., 1] + sums[..., 2]
    return np.divide(2 * sums[..., 0], every, out=np.zeros_like(every), where=every > 0)


def bootstrap_sums(counts: _Floats, draws: int = 2000, seed: int = 0) -> _Floats:
    """Sums of counts of units [N, ...] that are drawn with replacement: [draws, ...]."""
    rng = np.random.default_rng(seed)
    flat, size = counts.reshape(len(counts), -1), len(counts)
    weights = (np.bincount(rng.integers(0, size, size), minlength=size) for _ in range(draws))
    return np.stack([weight @ flat for weight in weights]).reshape(draws, *counts.shape[1:])


def permutation_test_f1(one: _Floats, other: _Floats, seed: int = 0) -> float:
    """The p value of two systems' micro F1, two-sided, from counts of the same units [N, 3].

    Under the null hypothesis each unit could as well have its two outcomes the other way round
    (approximate randomisation; Noreen, 1989; Yeh, 2000). F1 is no mean over units, so the counts
    are exchanged and F1 is computed anew. Where few units differ this is exact.
    """
    apart = (other - one)[np.any(other != one, axis=1)]
    if not len(apart):
        return 1.0
    ours, theirs = one.sum(0), other.sum(0)
    reach = abs(float(f1_of_sums(theirs) - f1_of_sums(ours))) - _SLACK
    if exact := len(apart) <= _EXACT_UNITS:
        swaps = np.array(list(product((0.0, 1.0), repeat=len(apart))))  # [2^n, n]
    else:
        rng = np.random.default_rng(seed)
        swaps = rng.integers(0, 2, (RESAMPLES, len(apart))).astype(np.float64)
    moved = swaps @ apart
    hits = int(np.sum(np.abs(f1_of_sums(theirs - moved) - f1_of_sums(ours + moved)) >= reach))
    return hits / len(swaps) if exact else (hits + 1) / (RESAMPLES + 1)


def cohens_d(differences: _Floats) -> float:
    """Cohen's d of paired values, mean(d) / sd(d); infinite where the differences do not vary."""
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    if deviation <= _SLACK * abs(mean):
        return float(np.inf * np.sign(mean)) if mean else 0.0
    return mean / deviation


def holm(values: Sequence[float]) -> list[float]:
    """P values adjusted for multiple testing by Holm's step-down procedure (Holm, 1979).

    With p_(1) <= ... <= p_(n), the adjusted p_(k) is the maximum over j <= k of (n - j + 1) p_(j),
    at most 1.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
