"""Temperatures against a plain search, and calibration errors against what was made up."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import small_models as models
import tiny
import torch
from scipy.optimize import minimize_scalar
from sequences import truth

import hardner
from hardner.errors import HardnerError
from hardner.schemes import tags_to_spans
from hardner.tag.calibration import calibrated, fit_temperature
from hardner.types import Sentence, Span

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "reliability.py"))
ReliabilityBin, reliability = BENCHMARK["ReliabilityBin"], BENCHMARK["reliability"]
calibration_error, score_outcomes = BENCHMARK["calibration_error"], BENCHMARK["score_outcomes"]


def truthful(count: int = 250) -> list[Sentence]:
    """Sentences whose genes are drawn from what the model itself holds possible."""
    predictor, head = models.predictor(), 2
    rng = np.random.default_rng(0)
    words = [word for s in tiny.everything("train")[0] for word in s.tokens]
    found = []
    for _ in range(count):
        start = rng.integers(len(words) - 4)
        tokens = tuple(words[start : start + 4])
        paths = truth(predictor, tokens, head)
        path = list(paths)[rng.choice(len(paths), p=list(paths.values()))]
        names = [predictor.tagger.tag_sets[head].tags[tag] for tag in path]
        found.append(Sentence(tokens, tags_to_spans(names)[0]))
    return found


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_the_temperature_is_where_the_loss_is_least(scheme: str) -> None:
    predictor = models.predictor("bilstm", scheme)
    sentences = tiny.sentences("Gene", "train")
    tagger = predictor.tagger
    store = tagger.store(sentences, [2] * len(sentences))

    def loss(temperatures: float) -> float:
        params = dict(predictor.params)
        for name in params:
            if name.startswith("decoder."):
                params[name] = params[name] / temperatures
        rows = np.arange(len(sentences))
        batch = store.batch(torch.from_numpy(rows[None]), store.widths(rows))
        return tagger.losses(params, batch, ["tag"])["tag"].item()

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-4})
    assert fit_temperature(predictor, sentences, 2) == pytest.approx(best.x, rel=0.01)


def test_calibration_makes_scores_match_the_facts() -> None:
    sentences = truthful()
    for wrong in (0.2, 5.0):
        temperatures = (1.0, 1.0, wrong, 1.0)
        before = replace(models.predictor(), temperatures=temperatures)
        after = calibrated(before, {"Gene": sentences})
        assert after.temperatures == (1.0, 1.0, pytest.approx(1.0, abs=0.15), 1.0)
        errors = [
            calibration_error(reliability(score_outcomes(p, sentences))) for p in (before, after)
        ]
        assert errors[1] < errors[0] / 2
        assert errors[1] < 0.06


def test_what_is_found_does_not_depend_on_the_temperature() -> None:
    sentences = tiny.everything("test")[0]
    plain = models.predictor().spans(sentences)
    warm = replace(models.predictor(), temperatures=(3.0,) * 4).spans(sentences)
    assert [[s for s, _ in own] for own in warm] == [[s for s, _ in own] for own in plain]
    assert warm != plain


def test_temperatures_outlive_the_folder(tmp_path) -> None:
    warm = replace(models.predictor(), temperatures=(1.5, 1.0, 0.25, 2.0))
    warm.save(tmp_path / "model")
    assert hardner.load(tmp_path / "model").temperatures == (1.5, 1.0, 0.25, 2.0)


def test_bins() -> None:
    outcomes = [(0.05, False), (0.15, False), (0.15, True), (0.95, True), (1.0, True), (1.0, False)]
    bins = reliability(outcomes)
    assert bins[0] == ReliabilityBin(0.0, 0.1, 1, 0.05, 0.0)
    assert bins[1] == ReliabilityBin(0.1, 0.2, 2, 0.15, 0.5)
    assert (bins[2].low, bins[2].high, bins[2].count) == (0.9, 1.0, 3)
    by_hand = (1 * 0.05 + 2 * 0.35 + 3 * abs(2.95 / 3 - 2 / 3)) / 6
    assert calibration_error(bins) == pytest.approx(by_hand)
    assert calibration_error(reliability([])) == 0.0


def test_judged_spans_must_match_wholly() -> None:
    predictor = models.predictor()
    (sentence,) = (s for s in [tiny.sentences("Gene", "test")[0]])
    (spans,) = predictor.spans([sentence], labels=["Gene"])
    first = spans[0][0]
    gold = replace(sentence, spans=(first, Span(0, len(sentence), "Gene")))
    outcomes = score_outcomes(predictor, [gold])
    assert [right for _, right in outcomes] == [span == first for span, _ in spans]


def test_nothing_to_learn_from_is_one_clear_line() -> None:
    with pytest.raises(HardnerError, match="calibration needs held-out sentences with labels"):
        fit_temperature(models.predictor(), [Sentence(("a",))])
    with pytest.raises(HardnerError, match="no domain 'Device'; its domains are Disease"):
        calibrated(models.predictor(), {"Device": []})
