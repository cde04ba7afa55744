"""What forecasts are corrected by: against draws, and in worlds whose truth is known."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hardner.adapt.correction import Correction, TextScores, corrected, corrections, signs_of
from hardner.adapt.forecast import Forecast, HeldOutScores, Interval
from hardner.adapt.report import limit_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FIT = runpy.run_path(str(BENCHMARKS / "correction.py"))
Case, fit, left_out, cases_of = (FIT[name] for name in ("Case", "fit", "left_out", "cases_of"))
PLAIN = Forecast(Interval(0.6, 0.4, 0.75), Interval(0.02, 0.0, 0.05), 10, 0.23)
HELD_OUT = HeldOutScores(13.0, np.array([[1, 0, 1]] * 10 + [[2, 1, 0]] * 10, np.float64))


def world(rng, types, each):
    """Cases whose logit F1 is .8 of the forecast's less .7, and types differ by .4."""
    cases = []
    for number in range(types):
        own = rng.normal(0, 0.4)
        for _ in range(each):
            curve, variance = rng.normal(0, 1), rng.gamma(2, 0.05)
            found = 0.8 * curve - 0.7 + own + rng.normal(0, (0.05 + variance) ** 0.5)
            signs = {"curve": curve, "one": 1.0, "variance": variance, "sentences": 0.0}
            cases.append(Case(f"type {number}", 20, signs, float(1 / (1 + np.exp(-found)))))
    return cases


def test_an_interval_is_what_draws_of_the_weights_and_of_fits_hold():
    covariance = ((0.04, 0.01), (0.01, 0.09))
    table = Correction(("curve", "one"), (0.9, -0.3), covariance, (0.2, 0.5), 100, 9)
    found = table.expected({"curve": 0.4, "one": 1.0, "variance": 0.3})
    rng = np.random.default_rng(0)
    weights = rng.multivariate_normal((0.9, -0.3), covariance, 400_000)
    draws = weights @ (0.4, 1.0) + rng.normal(0, (0.2 + 0.5 * 0.3) ** 0.5, len(weights))
    draws = 1 / (1 + np.exp(-draws))
    wanted = (draws.mean(), *np.quantile(draws, (0.05, 0.95)))
    assert (found.value, found.low, found.high) == pytest.approx(wanted, abs=0.003)


def test_what_is_beyond_what_can_be_told_apart_is_held():
    table = Correction(("one",), (3.0,), ((0.5,),), (1.0, 0.0), 1, 1)
    assert table.expected({"one": 1.0, "variance": 0.0}).high == 1.0
    table = Correction(("one",), (-3.0,), ((0.5,),), (1.0, 0.0), 1, 1)
    assert table.expected({"one": 1.0, "variance": 0.0}).low == 0.0


def test_the_fit_finds_what_the_world_was_made_of():
    table = fit(world(np.random.default_rng(1), 30, 8), ("curve", "one"))
    assert table.mean == pytest.approx((0.8, -0.7), abs=0.15)
    own, resampled = table.spread
    assert own + 0.1 * resampled == pytest.approx(0.16 + 0.05 + 0.1, rel=0.4)
    assert (table.cases, table.types) == (240, 30)


def test_intervals_hold_for_types_that_were_left_out():
    cases = world(np.random.default_rng(2), 20, 10)
    pairs = list(left_out(cases, ("curve", "one")))
    assert [case for case, _ in pairs] == sorted(cases, key=lambda case: case.type)
    held = np.mean([f1.low <= case.found <= f1.high for case, f1 in pairs])
    assert 0.85 < held < 0.96
    assert abs(np.mean([f1.value - case.found for case, f1 in pairs])) < 0.03


def test_a_type_says_nothing_of_its_own_forecast():
    cases = world(np.random.default_rng(3), 5, 4)
    turned = [
        Case(c.type, c.shots, c.signs, 0.01 if c.type == "type 2" else c.found) for c in cases
    ]
    (one, other) = (
        [f1 for case, f1 in left_out(own, ("curve", "one")) if case.type == "type 2"]
        for own in (cases, turned)
    )
    assert one == other


def test_signs_are_of_held_out_sentences_and_of_text():
    text = TextScores.of([[], [0.5], [0.9, 0.6], []])
    assert (text.sentences, text.found, text.sure) == (4, 3, pytest.approx(2.0))
    signs = signs_of(PLAIN, HELD_OUT, 20, text)
    precision, recall = 2.5 / 4, 30.5 / 41
    f1 = 2 * precision * recall / (precision + recall)
    assert signs["curve"] == pytest.approx(np.log(0.6 / 0.4))
    assert signs["text"] == pytest.approx(np.log(f1 / (1 - f1)))
    assert signs["sure"] == pytest.approx(np.log(precision / (1 - precision)))
    assert signs["rate"] == pytest.approx(np.log(3.5 / 4 / (40.5 / 20)))
    assert signs["sentences"] == 0 and signs["mentions"] == pytest.approx(1.0)
    assert signs["variance"] > 0
    assert set(signs_of(PLAIN, HELD_OUT, 20)) < set(signs)


def test_the_table_of_the_package_is_of_signs_that_there_are():
    signs = signs_of(PLAIN, HELD_OUT, 20, TextScores(4, 3, 2.0))
    for table in corrections().values():
        assert set(table.signs) <= set(signs) and len(table.mean) == len(table.signs)
        assert np.linalg.eigvalsh(np.array(table.covariance)).min() > -1e-6
        assert min(table.spread) >= 0


def test_text_is_forecast_where_there_is_some():
    assert corrected(PLAIN, HELD_OUT, 20).on_text is None
    found = corrected(PLAIN, HELD_OUT, 20, TextScores(200, 30, 20.0))
    assert found.on_text is not None
    for own in (found.f1, found.on_text):
        assert 0 <= own.low < own.value < own.high <= 1
    assert found.gain == PLAIN.gain


@pytest.mark.parametrize(
    ("on_text", "gain", "said"),
    [
        (None, 0.05, ["few sentences: 10 more bring about +0.05"]),
        (0.55, 0.05, ["few sentences"]),
        (0.2, 0.05, ["no sentences without a mention: 0.40 of F1 is lost", "few sentences"]),
        (0.2, 0.01, ["no sentences without a mention: 0.40 of F1 is lost"]),
        (0.45, 0.3, ["few sentences", "no sentences without a mention: 0.15 of F1 is lost"]),
    ],
)
def test_the_report_says_what_is_missing_most(on_text, gain, said):
    text = on_text and Interval(on_text, 0.1, 0.9)
    expected = replace(PLAIN, gain=Interval(gain, 0.0, 0.5), on_text=text)
    found = limit_of(np.array([[6.0, 2.0, 2.0]]), expected).split("; ")
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def test_lines_without_signs_are_no_cases():
    line = {"type": "a", "shots": 5, "bearing": (2, 1, 1), "all": (2, 9, 1)}
    signs = signs_of(PLAIN, HELD_OUT, 5, TextScores(4, 3, 2.0))
    both = [line, line | {"signs": signs}]
    ((given, _),), ((text, _),) = (cases_of(both, name) for name in ("given", "text"))
    assert given.found == pytest.approx(4 / 6) and text.found == pytest.approx(4 / 14)
