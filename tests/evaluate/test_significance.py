"""Tests and intervals against scipy and enumeration; Holm by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hardner.errors import HardnerError
from hardner.evaluate import significance
from hardner.evaluate.significance import (
    bootstrap_interval,
    cohens_d,
    compare,
    compare_trainings,
    crossed_bootstrap,
    holm,
    permutation_test,
)

values = st.lists(st.integers(-5, 5).map(lambda n: n / 8), min_size=2, max_size=9)


@given(values)
def test_exact_permutation_is_scipys(found):
    differences = np.array(found)
    ours = permutation_test(differences)
    theirs = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert ours == pytest.approx(min(theirs.pvalue, 1.0))


def test_twenty_pairs_are_exact_and_fast():
    differences = np.full(20, 0.01)
    assert permutation_test(differences) == 2 / 2**20


def test_many_pairs_are_sampled_alike(monkeypatch):
    differences = np.random.default_rng(3).normal(0.3, 1, 24)
    exact = permutation_test(differences)
    monkeypatch.setattr(significance, "EXACT_PAIRS", 10)
    sampled = permutation_test(differences, seed=1)
    assert sampled == permutation_test(differences, seed=1)
    assert sampled != permutation_test(differences, seed=2)
    assert sampled == pytest.approx(exact, abs=0.02)


def test_rounding_makes_no_difference():
    """Sums that differ only by the order in which they were added are equal."""
    differences = np.array([0.1, 0.2, 0.3, -0.3, 0.2, 0.1])
    whole = np.array([1, 2, 3, -3, 2, 1]) / 1.0
    assert permutation_test(differences) == permutation_test(whole)


def test_the_interval_is_scipys():
    differences = np.random.default_rng(0).normal(0.02, 0.05, 20)
    theirs = stats.bootstrap(
        (differences,), np.mean, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert bootstrap_interval(differences) == pytest.approx(tuple(theirs), abs=0.002)


def test_effect_size():
    assert cohens_d(np.array([1.0, 2.0, 3.0])) == 2.0
    assert cohens_d(np.zeros(4)) == 0
    assert cohens_d(np.full(4, -0.1)) == -np.inf


def test_compare():
    found = compare([0.5, 0.6, 0.7], [0.4, 0.6, 0.5])
    assert found.pairs == 3
    assert found.difference == pytest.approx(0.1)
    assert found.low <= found.difference <= found.high
    assert found.effect == pytest.approx(1.0)
    assert found.p == pytest.approx(0.5)
    with pytest.raises(HardnerError, match="cannot pair 1 values with 2"):
        compare([1], [1, 2])


def test_holm_by_hand():
    """Holm (1979): the smallest times n, the next times n - 1, never less than the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_what_its_stepping_down_rejects(found):
    level, order = 0.05, sorted(range(len(found)), key=found.__getitem__)
    rejected = set()
    for rank, place in enumerate(order):
        if found[place] * (len(found) - rank) > level:
            break
        rejected.add(place)
    assert {i for i, p in enumerate(holm(found)) if p <= level} == rejected


def test_seeds_and_samples_are_drawn_as_enumeration_draws_them():
    """Three trainings against two, over four samples: every draw of two, one and three of them."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.2, 1, (3, 4)), rng.normal(0, 1, (2, 4))
    every = [
        a[np.ix_(mine, samples)].mean() - b[np.ix_(theirs, samples)].mean()
        for mine in product(range(3), repeat=2)
        for theirs in product(range(2), repeat=1)
        for samples in product(range(4), repeat=3)
    ]
    drawn = crossed_bootstrap(a, b, draws=200_000)
    assert drawn.mean() == pytest.approx(np.mean(every), abs=0.01)
    assert drawn.std() == pytest.approx(np.std(every), rel=0.01)
    for reach in (-1.0, -0.5, 0.0, 0.5, 1.0):
        assert np.mean(drawn <= reach) == pytest.approx(np.mean(np.array(every) <= reach), abs=0.01)
    found = compare_trainings(a.tolist(), b.tolist())
    assert (found.pairs, found.seeds) == (4, 2)
    assert found.difference == pytest.approx(a.mean() - b.mean())
    expected = 2 * min(np.mean(np.array(every) <= 0), np.mean(np.array(every) >= 0))
    assert found.p == pytest.approx(expected, abs=0.03)
    assert found.low < found.difference < found.high


def test_what_trainings_differ_in_is_no_difference_of_methods():
    """All samples agree that one training is better, but trainings of one method differ as much."""
    samples = np.linspace(0, 0.1, 20)
    one, other = (
        [(seed + samples).tolist() for seed in seeds] for seeds in ((0.3, 0.1), (0.2, 0.0))
    )
    assert compare_trainings(one[:1], other[:1]).p < 0.001  # over the samples alone
    assert compare_trainings(one, other).p > 0.1
    apart = [(0.5 + samples).tolist(), (0.6 + samples).tolist()]
    assert compare_trainings(apart, other).p < 0.001
    with pytest.raises(HardnerError, match="cannot compare"):
        compare_trainings([[0.1, 0.2]], [[0.1]])


def test_one_training_of_each_is_compared_by_permutation():
    one, other = [0.3, 0.5, 0.4], [0.2, 0.1, 0.5]
    assert compare_trainings([one], [other]) == compare(one, other)
