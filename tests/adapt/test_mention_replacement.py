"""Swapped mentions: every word around them stays, and none comes from outside of the sample."""

import random
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target
from hypothesis import given
from hypothesis import strategies as st

from hardner.adapt.fit import fit_samples
from hardner.adapt.sample import replace_mentions, with_mentions
from hardner.types import Sentence, Span


@st.composite
def labelled(draw):
    """Words and mentions of two labels, side by side at times."""
    tokens, spans = [], []
    for kind, length in draw(st.lists(st.tuples(st.sampled_from("oAB"), st.integers(1, 3)))):
        if kind != "o":
            spans.append(Span(len(tokens), len(tokens) + length, kind))
        tokens += [f"{kind}{draw(st.integers(0, 9))}" for _ in range(length)]
    return Sentence(tuple(tokens), tuple(spans))


def mentions(sentence):
    return [(sentence.tokens[s:e], label) for s, e, label in sentence.spans]


def around(sentence):
    inside = {at for s, e, _ in sentence.spans for at in range(s, e)}
    return [token for at, token in enumerate(sentence.tokens) if at not in inside]


@given(labelled(), labelled(), st.integers(0, 99))
def test_mentions_are_the_givers_and_all_else_stays(sentence, giver, seed):
    made = with_mentions(sentence, giver, random.Random(seed))
    assert around(made) == around(sentence)
    assert [label for _, label in mentions(made)] == [label for _, label in mentions(sentence)]
    theirs = mentions(giver)
    for new, old in zip(mentions(made), mentions(sentence), strict=True):
        same = [other for other in theirs if other[1] == old[1]]
        assert new in same if same else new == old


@given(st.lists(labelled(), max_size=6), st.integers(0, 40), st.integers(0, 9))
def test_sentences_take_the_mentions_of_others(sentences, most, seed):
    found = replace_mentions(sentences, most, seed)
    bearing = {row for row, sentence in enumerate(sentences) if sentence.spans}
    there = len(bearing) * (len(bearing) - 1)
    assert len(found) == len({(s.context, s.donor) for s in found}) == min(most, there)
    assert all({s.context, s.donor} <= bearing and s.context != s.donor for s in found)
    assert found == replace_mentions(sentences, most, seed)


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_what_is_swapped_is_learnt_in_the_same_number_of_steps(kind):
    tagger, params, _ = target(kind)
    sentences = tiny.sentences("Gene")
    made = [
        replacement.sentence
        for own, seed in zip(ROWS, SEEDS, strict=True)
        for replacement in replace_mentions([sentences[row] for row in own], 10, seed)
    ]
    store = tagger.store([*sentences, *made])
    replaced = len(sentences) + np.arange(len(made)).reshape(2, -1)
    found = fit_samples(tagger, params, store, ROWS, RULE, SEEDS, replaced=replaced)
    alone = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    whole = np.concatenate((ROWS, replaced), axis=1)
    like = fit_samples(tagger, params, store, whole, RULE, SEEDS)
    assert all(torch.equal(found[n], like[n]) for n in found)
    assert any(not torch.equal(found[n], alone[n]) for n in found)
    longer = replace(RULE, passes=2.0)  # of the five sentences in threes: 4 steps, as before
    found = fit_samples(tagger, params, store, ROWS, longer, SEEDS, replaced=replaced)
    assert all(torch.equal(found[n], like[n]) for n in found)
