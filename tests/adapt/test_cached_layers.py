"""Fitting upper layers from what the lower ones said once: the same as fitting them in place."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target

from hardner.adapt.adapter import Adapter
from hardner.adapt.cached_layers import cache_lower_layers, mean_decoder, upper_tagger
from hardner.adapt.fit import fit_samples
from hardner.adapt.recipe import o_bias_for
from hardner.adapt.sample import Sample
from hardner.errors import HardnerError
from hardner.meta.inner import InnerLoop, adapt_tasks
from hardner.meta.optim import Optimizer
from hardner.model.layers import SCORING, part_of
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.types import Sentence


def test_a_lifted_encoder_says_what_the_whole_one_says():
    tagger, params, _ = target("transformer")
    long = Sentence(tuple(["gene", "of", "IL-2"] * 150))
    sentences = [*tiny.sentences("Gene")[:5], long, *tiny.sentences("Gene")[5:9]]
    store = tagger.store(sentences)
    params = {n: p[:1] for n, p in params.items()}
    upper = upper_tagger(tagger, params, 1)
    raised = cache_lower_layers(upper, params, store)
    for rows in ([[0, 1, 2]], [[5, 3, -1]], [[9, 8, 7, 6]]):
        at = torch.tensor(rows)
        whole = store.batch(at, store.widths(np.array(rows).ravel()))
        part = raised.batch(at, raised.widths(np.array(rows).ravel()))
        expected = tagger.encoder(params, whole, SCORING).words
        found = upper.encoder(params, part, SCORING).words
        there = torch.arange(expected.shape[2]) < whole.lengths.unsqueeze(-1)
        assert torch.allclose(found[there], expected[there], atol=1e-10)


@pytest.mark.parametrize("optimizer", [Optimizer("sgd"), Optimizer("adamw")], ids=["sgd", "adamw"])
def test_fitting_from_above_is_fitting_with_the_rest_held(optimizer):
    tagger, params, store = target("transformer")
    rule = replace(RULE, optimizer=optimizer, clip=0.0)
    held = {"encoder.pieces": 0.0, "encoder.layer0": 0.0}
    expected = fit_samples(
        tagger, params, store, ROWS, replace(rule, scales=rule.scales | held), SEEDS
    )
    found = fit_samples(tagger, params, store, ROWS, replace(rule, layers=1), SEEDS)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(found[name].expand_as(value), value, atol=1e-9), name
    assert found["encoder.layer0.up.weight"].shape[0] == 1
    assert not torch.equal(
        found["encoder.layer1.up.weight"][0], params["encoder.layer1.up.weight"][0]
    )


def test_a_transformer_of_fewer_layers_is_fitted_in_all_of_them():
    tagger, params, store = target("transformer")
    held = {"encoder.pieces": 0.0}
    expected = fit_samples(
        tagger, params, store, ROWS, replace(RULE, clip=0.0, scales=RULE.scales | held), SEEDS
    )
    found = fit_samples(tagger, params, store, ROWS, replace(RULE, clip=0.0, layers=4), SEEDS)
    for name, value in expected.items():
        assert torch.allclose(found[name].expand_as(value), value, atol=1e-9), name


def test_a_soup_is_the_mean_of_fits_in_other_orders():
    tagger, params, store = target("transformer")
    rule = replace(RULE, batch=5)  # all sentences in each step: every order gives the same
    once = fit_samples(tagger, params, store, ROWS, rule, SEEDS)
    thrice = fit_samples(tagger, params, store, ROWS, replace(rule, restarts=3), SEEDS)
    for name, value in once.items():
        assert torch.allclose(thrice[name], value, atol=1e-9), name
    mixed = fit_samples(tagger, params, store, ROWS, replace(RULE, restarts=3), SEEDS)
    plain = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    assert mixed["decoder.weight"].shape == plain["decoder.weight"].shape
    assert not torch.allclose(mixed["decoder.weight"], plain["decoder.weight"])


def gene_adapter(recipe):
    whole = tiny.tagger("bilstm")
    params = {name: value.float() for name, value in tiny.params(whole).items()}
    return Adapter(Model(whole, params), [TagSet("Gene", ("Gene",))], recipe)


def test_the_o_bias_is_added_to_the_outside():
    samples = [Sample(tiny.sentences("Gene")[:5]), Sample(tiny.sentences("Gene")[5:10], (1,))]
    plain = gene_adapter(RULE).fit(samples)
    biased = gene_adapter(replace(RULE, o_bias=0.7)).fit(samples)
    gap = biased["decoder.bias"] - plain["decoder.bias"]
    assert torch.allclose(gap[..., 0], torch.full_like(gap[..., 0], 0.7))
    assert torch.equal(gap[..., 1:], torch.zeros_like(gap[..., 1:]))


def test_the_o_bias_is_greater_where_mentions_are_rare():
    by_count = {len(s.spans): s for s in tiny.sentences("Gene")}
    none, once, twice = (by_count[count] for count in (0, 1, 2))
    recipe = replace(RULE, o_bias=0.5, o_bias_density=9.0)
    samples = [(once, none), (once, once), (once, twice), (twice,) * 3]
    assert o_bias_for(recipe, samples, [TagSet("Gene", ("Gene",))])[:, 0].tolist() == pytest.approx(
        [0.5 + 9 / (3 / 2) ** 2, 0.5 + 9 / (4 / 3) ** 2, 0.5 + 9 / (5 / 3) ** 2, 0.5 + 9 / 4]
    )


def test_the_o_bias_is_lower_for_fewer_sentences():
    recipe, sentences = replace(RULE, o_bias_size=6.0), tiny.sentences("Gene")
    samples = [sentences[:2], sentences[:3]]
    assert o_bias_for(recipe, samples, [TagSet("Gene", ("Gene",))]).tolist() == [[-3.0], [-2.0]]


def test_answers_take_the_place_of_the_o_bias():
    recipe, sentences = replace(RULE, o_bias=0.8, o_bias_size=6.0), tiny.sentences("Gene")
    samples, sets = [sentences[:4]] * 4, [TagSet("Gene", ("Gene",))]
    partial = [sentences[4 : 4 + count] for count in (0, 1, 4, 5)]
    found = o_bias_for(recipe, samples, sets, partial)[:, 0]
    assert found.tolist() == pytest.approx([0.8 - 1.5, 0.6 - 1.5, -1.5, -1.5])


@pytest.mark.parametrize("start", ["random", "zero", "mean"])
def test_a_new_decoder_starts_as_told(start):
    whole = tiny.tagger("transformer", "crf")
    params = tiny.params(whole)
    rule = replace(RULE, start=start)
    adapter = Adapter(Model(whole, params), [TagSet("Device", ("Device",))], rule)
    begun = adapter.start([Sample((), (seed,)) for seed in (3, 4)])
    assert adapter.tagger.domains == ("Device",)
    weight = begun["decoder.weight"]
    assert weight.shape == (2, 1, 3, whole.encoder.size)
    if start == "mean":
        assert torch.allclose(weight[1, 0].double(), params["decoder.weight"][0].mean(0)[:3])
        assert mean_decoder(whole, params)["decoder.transitions"].shape == (1, 1, 3, 3)
    else:
        assert torch.equal(weight[0], weight[1]) == (start == "zero")


def test_only_a_transformer_can_be_lifted():
    tagger, params, store = target("bilstm")
    with pytest.raises(HardnerError, match="layer by layer"):
        fit_samples(tagger, params, store, ROWS, replace(RULE, layers=1), SEEDS)


def test_a_fresh_decoder_forgets_the_one_before():
    tagger, params, store = target("transformer")
    rows = torch.tensor(ROWS)
    supports = [store.batch(rows, store.widths(ROWS.ravel()))]
    zero = params | {n: torch.zeros_like(p) for n, p in params.items() if part_of(n) == "decoder"}
    for through in (False, True):
        rule = InnerLoop(2, rate=1e-2, fresh=True)
        leaves = {n: p.clone().requires_grad_(through) for n, p in params.items()}
        found = adapt_tasks(tagger, leaves, supports, rule, through=through).new
        expected = adapt_tasks(tagger, zero, supports, replace(rule, fresh=False)).new
        assert all(torch.allclose(found[n], p) for n, p in expected.items())
