"""Expected F1: intervals hold what they say they hold, in worlds whose truth is known."""

import numpy as np
import pytest

from hardner.adapt.forecast import INTERVAL_LEVEL, HeldOutScores, Interval, forecast, resampled


def sentences(f1, count, rng):
    """Counts of sentences of a model with that F1, some of them harder than others; [count, 3]."""
    mentions = np.where(rng.random(count) < 0.25, 0, 1 + rng.poisson(0.7, count))
    right = rng.binomial(mentions, rng.beta(3 * f1, 3 * (1 - f1), count))
    wrong = rng.poisson(rng.gamma(1.0, (1 - f1) * 1.275, count))
    return np.stack([right, wrong, mentions - right], -1).astype(float)


def truth(f1):
    tp, fp, fn = sentences(f1, 400_000, np.random.default_rng(9)).sum(0)
    return 2 * tp / (2 * tp + fp + fn)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("f1", [0.2, 0.5, 0.9])
def test_resampled_draws_cover_the_truth(count, f1):
    rng, right = np.random.default_rng(count), truth(f1)
    held = 0
    for seed in range(120):
        found = Interval.of(resampled(sentences(f1, count, rng)[None], seed)[0])
        held += found.low <= right <= found.high
    assert held / 120 > INTERVAL_LEVEL - 0.08  # three deviations of the share of 120


@pytest.mark.parametrize("count", [6, 30])
@pytest.mark.parametrize(("start", "exponent"), [(0.3, 0.1), (0.3, 0.4), (0.7, 0.25)])
def test_a_forecast_covers_the_curve_it_is_on(count, start, exponent):
    """Errors follow a power law from ``start`` at a third of the sentences."""

    def at(size):
        return 1 - (1 - start) * (size / (count / 3)) ** -exponent

    rng = np.random.default_rng(count)
    held = gained = 0
    more = at(count + 10) - at(count)
    for seed in range(60):
        large, small = (
            HeldOutScores(size, sentences(at(size), count, rng))
            for size in (2 * count / 3, count / 3)
        )
        small.counts[: count // 3] = 0  # learnt from
        found = forecast(large, small, count, seed=seed)
        held += found.f1.low <= at(count) <= found.f1.high
        gained += found.gain.low <= more <= found.gain.high
    assert held / 60 > INTERVAL_LEVEL - 0.11
    assert gained / 60 > INTERVAL_LEVEL - 0.11


def test_intervals_narrow_with_sentences():
    rng = np.random.default_rng(0)

    def width(count):
        found = [Interval.of(resampled(sentences(0.6, count, rng)[None], s)[0]) for s in range(20)]
        return np.mean([one.high - one.low for one in found])

    wide, middle, narrow = (width(count) for count in (3, 10, 40))
    assert wide > 1.3 * middle > 1.3 * 1.3 * narrow


def test_nothing_right_and_everything_right_are_not_certain():
    none, every = np.array([[0, 1, 2]] * 8, float), np.array([[2, 0, 0]] * 8, float)
    low, high = (Interval.of(resampled(c[None])[0]) for c in (none, every))
    assert low.low < 0.01 and 0.05 < low.high < 0.5
    assert high.high > 0.99 and 0.5 < high.low < 0.95


def test_the_value_is_not_drawn_to_the_middle():
    """In the mean over many draws of sentences it is the truth."""
    rng, right = np.random.default_rng(5), truth(0.1)
    found = [
        forecast(HeldOutScores(10, sentences(0.1, 10, rng)), None, 10, seed=s) for s in range(60)
    ]
    assert np.mean([one.f1.value for one in found]) == pytest.approx(right, abs=0.03)


def test_a_steep_curve_promises_more():
    rng = np.random.default_rng(1)
    large = HeldOutScores(60, sentences(0.7, 90, rng))
    steep, flat = (HeldOutScores(30, sentences(f1, 90, rng)) for f1 in (0.4, 0.7))
    gains = [forecast(large, small, 90).gain.value for small in (steep, flat)]
    assert gains[0] > gains[1] > 0


def test_without_a_second_point_the_exponent_is_the_published_one():
    found = forecast(HeldOutScores(10, np.array([[1.0, 0, 1]] * 20)), None, 20)
    assert found.exponent == pytest.approx(0.23, abs=0.03)
    assert found.f1.low < found.f1.value < found.f1.high


def test_weights_are_shared_between_models():
    rng = np.random.default_rng(3)
    own = sentences(0.5, 12, rng)
    better = own + np.array([1.0, 0, 0])
    one, other, again = resampled(np.stack([own, better, own]))
    np.testing.assert_allclose(one, again, rtol=1e-12)  # sums may differ in the last digit
    assert (other > one).mean() > 0.99


def test_a_model_without_anything_to_count_is_as_good_as_any():
    (draws,) = resampled(
        np.stack([sentences(0.5, 12, np.random.default_rng(3)), np.zeros((12, 3))])
    )[1:]
    assert 0 <= draws.min() < 0.1 < 0.9 < draws.max() <= 1


def test_sentences_that_say_nothing_do_not_count():
    own = sentences(0.5, 12, np.random.default_rng(3))
    own = own[own.any(1)]
    empty = np.concatenate([own, np.zeros((30, 3))])
    assert np.array_equal(resampled(own[None]), resampled(empty[None]))
