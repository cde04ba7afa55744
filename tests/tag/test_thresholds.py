"""Thresholds by label: one mechanism, stored with the model, backed by held-out sentences."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_models as models
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import hardner
from hardner.errors import HardnerError
from hardner.tag.thresholds import PrecisionRecallCurve, thresholds_for
from hardner.types import Document, Span

TEXT = (
    "Aspirin may worsen asthma in mice. BRCA1 is a gene; p53 is one too. "
    "Cafe au lait spots are harmless, and 5-fluorouracil is a drug."
)
LEAST = {"Gene": 0.6, "Species": 0.7}


def test_a_mention_is_kept_where_it_reaches_its_labels_threshold() -> None:
    predictor = models.predictor()
    every = predictor(TEXT)
    kept = [e for e in every if e.score >= LEAST.get(e.label, 0.0)]
    assert 0 < len(kept) < len(every)
    strict = predictor.with_thresholds(LEAST)
    assert strict.thresholds == {"Disease": 0.0, "Chemical": 0.0, **LEAST}
    assert predictor(TEXT, min_score=LEAST) == kept
    assert strict(TEXT) == kept
    assert strict.to_records([TEXT]) == predictor.to_records([TEXT], min_score=LEAST)
    assert list(next(strict.documents([Document("d", TEXT)])).entities) == kept
    # What is said in a call counts more, for all labels or for some.
    assert strict(TEXT, min_score=0.0) == every
    assert strict(TEXT, min_score={"Gene": 0.0}) == [
        e for e in every if e.label == "Gene" or e in kept
    ]
    assert predictor.with_thresholds(0.5)(TEXT) == predictor(TEXT, min_score=0.5)


def test_thresholds_and_curves_stay_with_the_folder(tmp_path: Path) -> None:
    curve = PrecisionRecallCurve(3, (40, 95), (2, 2), (1, 2))
    plain = models.predictor()
    made = replace(plain.with_thresholds(LEAST), curves={"Gene": curve})
    made.save(tmp_path / "model")
    again = hardner.load(tmp_path / "model")
    assert (again.thresholds, again.curves) == (made.thresholds, {"Gene": curve})
    assert again(TEXT) == made(TEXT)
    # What earlier versions wrote knows neither.
    plain.save(tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    config = json.loads(path.read_text())
    del config["config"]["checksum"]
    assert not any(config["config"].pop(key) for key in ("thresholds", "curves"))
    path.write_text(json.dumps(config))
    assert hardner.load(tmp_path / "old")(TEXT) == plain(TEXT)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"thresholds": {"Gene": 1.5}}, "a number 0 to 1, got {.Gene.: 1.5}"),
        ({"curves": {"Gene": {"mentions": 1, "scores": [3], "found": [1]}}}, "contradicts itself"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    models.predictor().save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    del config["config"]["checksum"]
    config["config"] |= change
    path.write_text(json.dumps(config))
    with pytest.raises(HardnerError, match=said):
        hardner.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: p(TEXT, min_score={"Device": 0.5}), "the model has no label 'Device'"),
        (lambda p: p.with_thresholds({"Gene": 2}), "min_score is a probability, from 0 to 1"),
        (lambda p: replace(p, thresholds={"Gene": -1}), "a threshold is a probability"),
        (lambda p: p(TEXT, min_score="0.5"), "min_score is a probability, .* got 0.5"),
        (lambda p: p.thresholds_for(0.9), "nothing is known of the precision of Disease"),
        (lambda p: p.thresholds_for(1.2), "a precision is a probability"),
    ],
)
def test_wrong_thresholds_are_one_line(call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(HardnerError, match=said):
        call(models.predictor())


A, B, C = Span(0, 1, "A"), Span(2, 3, "A"), Span(4, 5, "A")


def test_a_curve_by_hand() -> None:
    gold = [(A, B), (C,), ()]
    found = [[(A, 0.9), (C, 0.8)], [(C, 0.805)], [(A, 0.2)]]
    curve = PrecisionRecallCurve.of(gold, found)
    assert curve == PrecisionRecallCurve(3, (20, 80, 90), (1, 2, 1), (0, 1, 1))
    said = [(p.threshold, p.precision, p.recall, p.found) for p in curve.points()]
    assert said == [
        (0, 0.5, 2 / 3, 4),
        (0.2, 0.5, 2 / 3, 4),
        (0.8, 2 / 3, 2 / 3, 3),
        (0.9, 1, 1 / 3, 1),
    ]
    assert curve.at(0.801).found == 1  # hundredths, rounded up
    assert curve.at(0.95) == type(curve.at(0))(0.95, 1.0, 0.0, 0, 0.0)
    assert PrecisionRecallCurve().points() == [type(curve.at(0))(0.0, 1.0, 0.0, 0, 0.0)]


scored = st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=40)


@given(scored)
def test_what_is_promised_is_platts_scaling_of_the_scores(pairs: list[tuple[int, bool]]) -> None:
    gold, found = [], []
    for at, (score, right) in enumerate(pairs):
        span = Span(at, at + 1, "A")
        gold.append((span,) if right else ())
        found.append([(span, score / 100)])
    curve = PrecisionRecallCurve.of(gold, found)
    for point in curve.points():
        kept = [right for score, right in pairs if score / 100 >= point.threshold]
        assert point.found == len(kept)
        assert point.precision == (sum(kept) / len(kept) if kept else 1.0)
    promised = [point.promised for point in curve.points() if point.found]
    assert promised == pytest.approx(sorted(promised), abs=1e-9)  # never less at a higher one
    if not pairs:
        return
    share = np.clip((np.array([s for s, _ in pairs]) + 0.5) / 100, 0.005, 0.995)
    x, y = np.log(share / (1 - share)), np.array([r for _, r in pairs], float)

    def loss(w: Any) -> float:
        z = w[0] + w[1] * x
        return float((np.logaddexp(0, z) - y * z).sum() + w[0] ** 2 / 2 + 2 * (w[1] - 1) ** 2)

    a, b = minimize(loss, (0.0, 1.0), method="BFGS", options={"gtol": 1e-9}).x
    if b > 0.01:
        assert promised[0] == pytest.approx(float((1 / (1 + np.exp(-a - b * x))).mean()), abs=1e-4)


def test_precision_that_is_promised_is_kept_on_new_mentions() -> None:
    """Of calibrated scores, and of scores that are too high."""
    rng = np.random.default_rng(0)
    kept = []
    for trial in range(60):
        scores = rng.beta(3, 1.5, 40 + 2000)
        right = rng.random(scores.size) < scores ** (1 + trial % 2)
        spans = [Span(i, i + 1, "A") for i in range(scores.size)]
        curve = PrecisionRecallCurve.of(
            [(s,) if r else () for s, r in zip(spans[:40], right[:40], strict=True)],
            [[(s, float(score))] for s, score in zip(spans[:40], scores[:40], strict=True)],
        )
        threshold = curve.least_threshold(0.8)
        if threshold is not None:
            kept.append(right[40:][scores[40:] >= threshold].mean())
    assert len(kept) > 40
    assert abs(float(np.mean(kept)) - 0.8) < 0.03


def test_the_lowest_threshold_that_keeps_its_promise() -> None:
    sure = PrecisionRecallCurve(90, (30, 90), (30, 60), (5, 59))
    point = sure.at(0.9)
    assert thresholds_for(point.promised - 0.001, {"A": sure}, ["A"]) == {"A": 0.9}
    assert thresholds_for(0.1, {"A": sure}, ["A"]) == {"A": 0.0}
    with pytest.raises(
        HardnerError, match=r"no threshold of A promises .* 0.999, the highest 0\.9"
    ):
        thresholds_for(0.999, {"A": sure}, ["A"])
    with pytest.raises(HardnerError, match=r"precision of B at other thresholds \(known: A\)"):
        thresholds_for(0.5, {"A": sure}, ["B"])
