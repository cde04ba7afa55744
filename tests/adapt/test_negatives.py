"""The background: sentences without mentions, and that fitting learns from them as well."""

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import tiny
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target

from hardner.adapt.fit import fit_samples
from hardner.adapt.sample import _FILE, negative_sentences


def test_every_sentence_is_there_without_its_names():
    lines = files("hardner").joinpath(_FILE).read_text("utf-8").splitlines()
    assert len(negative_sentences()) == len(lines) == 400
    for line, sentence in zip(lines, negative_sentences(), strict=True):
        document = json.loads(line)
        bare = list(document["text"])
        for name in document["entities"]:
            bare[name["start"] : name["end"]] = " " * (name["end"] - name["start"])
        assert "".join(sentence.tokens) == "".join("".join(bare).split())
        assert not sentence.spans


def test_fitting_learns_from_it():
    tagger, params, _ = target("transformer")
    rule = replace(RULE, negatives=2)
    first, some = len(tiny.sentences("Gene")), negative_sentences()[:100]
    store = tagger.store([*tiny.sentences("Gene"), *some])
    negatives = np.arange(first, first + len(some))
    plain = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    beside = fit_samples(tagger, params, store, ROWS, rule, SEEDS, negatives=negatives)
    again = fit_samples(tagger, params, store, ROWS, rule, SEEDS, negatives=negatives)
    name = "decoder.weight"
    assert torch.equal(beside[name], again[name])
    assert not torch.allclose(beside[name], plain[name])
    rows = negatives[None]
    quiet = store.batch(torch.from_numpy(rows), store.widths(rows.ravel()))

    def loss(fitted):
        own = {n: p if p.shape[0] == 1 else p[:1] for n, p in fitted.items()}
        return tagger.losses(own, quiet, ["tag"])["tag"].item()

    longer = replace(rule, steps=30)
    assert loss(
        fit_samples(tagger, params, store, ROWS, longer, SEEDS, negatives=negatives)
    ) < loss(fit_samples(tagger, params, store, ROWS, replace(longer, negatives=0), SEEDS))


def test_a_recipe_with_negatives_needs_some():
    tagger, params, store = target("transformer")
    with pytest.raises(ValueError, match="none are given"):
        fit_samples(tagger, params, store, ROWS, replace(RULE, negatives=2), SEEDS)
