"""Fitting many samples at once is the same as `adapt_tasks`, and scores are the same."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from hardner.adapt.adapter import params_of_sample
from hardner.adapt.fit import fit_samples, length_batches
from hardner.adapt.recipe import RECIPES, Recipe, recipe_for
from hardner.errors import HardnerError
from hardner.evaluate.score import ErrorCounts, Scorer
from hardner.meta.inner import adapt_tasks
from hardner.meta.optim import CudaGraphRunner, Optimizer
from hardner.model.layers import part_of
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor

RULE = Recipe(
    4, 1e-2, Optimizer("adamw", weight_decay=0.01), batch=3, dropout=0.0, scales={"decoder": 3.0}
)
ROWS = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
SEEDS = (11, 12)


def target(kind, decoder="crf", scheme="IOB2"):
    """A tagger for the target Gene, its parameters with a decoder a sample, and its sentences."""
    whole = tiny.tagger(kind, decoder, scheme)
    labels = ("Gene",)
    tagger = whole.with_domains([TagSet("Gene", labels, scheme)])
    params = {n: p for n, p in tiny.params(whole).items() if part_of(n) in ("encoder", "frozen")}
    fresh = [tagger.init_decoder(torch.Generator().manual_seed(i)) for i in range(2)]
    decoders = {n: torch.cat([p[n] for p in fresh]).double() for n in fresh[0]}
    return tagger, params | decoders, tagger.store(tiny.sentences("Gene"))


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize(
    "rule",
    [RULE, replace(RULE, optimizer=Optimizer("sgd", momentum=0.9), batch=5, clip=0.5)],
    ids=["adamw", "sgd"],
)
def test_fitting_is_adapt_step_by_step(kind, rule):
    tagger, params, store = target(kind)
    before = {n: p.clone() for n, p in params.items()}
    found = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    order = length_batches(ROWS, store.tags.widths, rule.steps, rule.batch, SEEDS)
    supports = [store.batch(torch.from_numpy(r), store.widths(r.ravel())) for r in order]
    expected = adapt_tasks(tagger, params, supports, rule.inner(5)).new
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-9), name
    assert all(torch.equal(p, before[n]) for n, p in params.items())


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_samples_do_not_see_each_other(kind):
    tagger, params, store = target(kind)
    together = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    for i in range(2):
        own = {n: p[i : i + 1] if part_of(n) == "decoder" else p for n, p in params.items()}
        alone = fit_samples(tagger, own, store, ROWS[i : i + 1], RULE, SEEDS[i : i + 1])
        for name, value in alone.items():
            row = together[name][i : i + 1] if together[name].shape[0] == 2 else together[name]
            assert torch.allclose(row, value, atol=1e-9), name


def test_dropout_is_a_matter_of_the_seeds():
    tagger, params, store = target("bilstm")
    rule = replace(RULE, dropout=0.5)
    one, again = (fit_samples(tagger, params, store, ROWS, rule, SEEDS) for _ in range(2))
    other = fit_samples(tagger, params, store, ROWS, rule, (1, 2))
    name = "encoder.recurrent.weight_ih"
    assert torch.equal(one[name], again[name])
    assert not torch.equal(one[name], other[name])


def test_frozen_parts_stay():
    tagger, params, store = target("bilstm")
    rule = replace(RULE, parts=frozenset({"decoder"}))
    found = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    moved = {part_of(n) for n, p in params.items() if not torch.equal(p, found[n])}
    assert moved == {"decoder"}


def test_prototypes_are_where_steps_begin():
    tagger, params, store = target("bilstm", "softmax")
    rule = replace(RULE, prototypes=True)
    still = fit_samples(tagger, params, store, ROWS, replace(rule, steps=0, passes=0), SEEDS)
    for own, rows in zip(still["decoder.weight"], ROWS, strict=True):
        batch = store.batch(torch.from_numpy(rows)[None], store.widths(rows))
        assert torch.allclose(own, tagger.prototypes(params, batch)["decoder.weight"][0])
    for own in still["encoder.recurrent.weight_ih"]:
        assert torch.equal(own, params["encoder.recurrent.weight_ih"][0])
    moved = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    assert not torch.equal(moved["decoder.weight"], still["decoder.weight"])
    other = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    assert not torch.allclose(moved["decoder.weight"], other["decoder.weight"])


def test_batches_pass_over_each_sample():
    widths = np.arange(20)
    order = length_batches(ROWS, widths, 5, 2, SEEDS)
    assert order.shape == (5, 2, 2)
    first, last = order[:3, 0].ravel(), order[:3, 1].ravel()
    assert sorted(first[first >= 0]) == [0, 1, 2, 3, 4]
    assert sorted(last[last >= 0]) == [5, 6, 7, 8, 9]
    whole = length_batches(ROWS, widths, 3, 8, SEEDS)
    assert (whole == ROWS).all()
    assert whole.shape == (3, 2, 5)


def test_batches_hold_sentences_of_like_length():
    rows, widths = np.arange(80).reshape(2, 40), np.tile(np.repeat([5, 10, 20, 40], 10), 2)
    order = length_batches(rows, widths, 12, 10, SEEDS)
    found = widths[order]  # [steps, M, B]
    assert (np.ptp(found, axis=(1, 2)) == 0).all()  # of both samples in each step
    assert (np.sort(found[:4, 0, 0]) == [5, 10, 20, 40]).all()
    assert [*found[:4, 0, 0]] != [*found[4:8, 0, 0]] or [*found[4:8, 0, 0]] != [*found[8:, 0, 0]]


def test_batches_of_a_length_differ_from_pass_to_pass():
    order = length_batches(np.arange(40)[None], np.full(40, 7), 8, 10, [3])
    assert {*order[0, 0]} not in [{*batch[0]} for batch in order[4:]]


def test_a_sample_of_fewer_sentences_is_passed_over_more_often():
    rows = np.array([[0, 1, 2, 3, 4, 5], [6, 7, 8, -1, -1, -1]])
    order = length_batches(rows, np.arange(20), 6, 2, SEEDS)
    assert sorted(order[:3, 0].ravel()) == [0, 1, 2, 3, 4, 5]
    assert all(sorted(order[i : i + 2, 1].ravel()) == [-1, 6, 7, 8] for i in (0, 2, 4))


def test_rules_scale_with_the_sentences():
    paper = recipe_for("paper", "bilstm")
    assert paper.inner(32).rate == pytest.approx(1e-2)
    assert paper.inner(8).rate == pytest.approx(5e-3)  # HGDA, Eq. 3
    assert paper.inner(10_000).rate == pytest.approx(2e-2)  # no step is of more than 128
    many = replace(RULE, passes=2.0)
    assert many.inner(5).steps == 4
    assert many.inner(30).steps == 20
    assert many.inner(30).rate == RULE.rate
    sqrt_rate_scaling = replace(many, sqrt_rate_scaling=True)
    assert sqrt_rate_scaling.inner(5).rate == RULE.rate
    assert sqrt_rate_scaling.inner(30).rate == pytest.approx(RULE.rate * (4 / 20) ** 0.5)
    assert all(
        rules.keys() == {"bilstm", "bigru", "transformer", "bert"} for rules in RECIPES.values()
    )
    with pytest.raises(HardnerError, match="no adaptation preset 'worst'; there are paper, best"):
        recipe_for("worst", "bilstm")


def test_fitting_learns_the_sample():
    tagger, params, store = target("bilstm")
    params = {name: value.float() for name, value in params.items()}
    rule = replace(RULE, steps=60, rate=0.02, dropout=0.1)
    fitted = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    train = tiny.sentences("Gene")
    for sample, rows in enumerate(ROWS):
        learnt, others = ([train[row] for row in own] for own in (rows, ROWS[1 - sample]))
        predictor = Predictor(tagger, params_of_sample(fitted, sample))
        assert sum(Scorer(learnt)(predictor).values(), ErrorCounts()).score.f1 > 0.8
        assert Scorer(learnt)(predictor) != Scorer(others)(predictor)


def test_the_mean_of_the_last_steps(monkeypatch):
    """Of seven tenths of ten steps: the fourth's outcome to the tenth's."""
    tagger, params, store = target("bilstm")
    rule = replace(RULE, steps=10, passes=0.0)
    seen = []
    call = CudaGraphRunner.__call__

    def noted(runner, *given):
        found = call(runner, *given)
        seen.append([tensor.clone() for tensor in runner.state])
        return found

    monkeypatch.setattr(CudaGraphRunner, "__call__", noted)
    last = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    steps = list(seen)
    assert len(steps) == 10
    found = fit_samples(tagger, params, store, ROWS, replace(rule, iterate_averaging=0.7), SEEDS)
    moving = [name for name in last if not torch.equal(last[name], found[name])]
    assert "decoder.weight" in moving
    for name in moving:
        (place,) = [i for i, value in enumerate(steps[-1]) if torch.equal(value, last[name])]
        expected = torch.stack([step[place] for step in steps[3:]]).mean(0)
        assert torch.allclose(found[name], expected, atol=1e-12)
