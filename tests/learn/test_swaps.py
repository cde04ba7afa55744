"""Swapped mentions: every word around them stays, and none comes from outside of the sample."""

import random
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_fit import ROWS, RULE, SEEDS, target

from hardner.adapt.fit import fit_samples
from hardner.adapt.mention_replacement import replace_mentions, replacements_for, with_mentions
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
    assert len(found) == len({(s.place, s.giver) for s in found}) == min(most, there)
    assert all({s.place, s.giver} <= bearing and s.place != s.giver for s in found)
    assert found == replace_mentions(sentences, most, seed)


def test_samples_lie_one_after_the_other():
    sentences = tiny.sentences("Gene")
    samples = [sentences[:5], sentences[5:7]]
    made, rows = replacements_for(samples, 7, (1, 2), 100)
    assert rows is not None
    own = [
        len(replace_mentions(sample, 7, seed)) for sample, seed in zip(samples, (1, 2), strict=True)
    ]
    assert (rows >= 0).sum(1).tolist() == own
    assert sorted(rows[rows >= 0]) == list(range(100, 100 + len(made)))
    assert replacements_for(samples, 0, (1, 2), 100) == ([], None)


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_what_is_swapped_is_learnt_in_the_same_number_of_steps(kind):
    tagger, params, _ = target(kind)
    sentences = tiny.sentences("Gene")
    samples = [[sentences[row] for row in own] for own in ROWS]
    made, replacements = replacements_for(samples, 10, SEEDS, len(sentences))
    store = tagger.store([*sentences, *made])
    found = fit_samples(tagger, params, store, ROWS, RULE, SEEDS, replacements=replacements)
    alone = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    assert replacements is not None
    whole = np.concatenate((ROWS, replacements), axis=1)
    like = fit_samples(tagger, params, store, whole, RULE, SEEDS)
    assert all(torch.equal(found[n], like[n]) for n in found)
    assert any(not torch.equal(found[n], alone[n]) for n in found)
    longer = replace(RULE, passes=2.0)  # of the five sentences in threes: 4 steps, as before
    found = fit_samples(tagger, params, store, ROWS, longer, SEEDS, replacements=replacements)
    assert all(torch.equal(found[n], like[n]) for n in found)
