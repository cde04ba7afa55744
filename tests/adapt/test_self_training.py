"""Learning from text without labels: against all paths, against differences, and that it helps."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import tiny
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target

from hardner.adapt.fit import fit_samples
from hardner.adapt.recipe import SelfTraining
from hardner.adapt.self_training import (
    LONGEST_UNLABELLED,
    label_by_teacher,
    soft_label_loss,
    soft_labels,
    usable_sentences,
)
from hardner.model.decoders import Emissions, TransitionScores, constraints, tag_loss
from hardner.model.layers import SCORING, part_of
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

TAUGHT = replace(RULE, self_training=SelfTraining(steps=6, batch=4))
MORE = np.array([[10, 11, 12, 13, 14, 15], [16, 17, 18, 10, 11, 12]])


def made_up(lengths, kind="crf", tasks=2):
    """Random emissions of sentences of these lengths, as a decoder of one label says them."""
    rng = torch.Generator().manual_seed(len(lengths))

    def drawn(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    limits = constraints([TagSet("X", ("X",))])
    if kind == "crf":
        moves = (drawn(tasks, 3, 3), drawn(tasks, 3), drawn(tasks, 3))
        limits = TransitionScores(
            *(limit + move for limit, move in zip(limits, moves, strict=True))
        )
    scores = drawn(tasks, len(lengths), max(lengths), 3)
    return Emissions(scores, torch.tensor([lengths] * tasks), limits)


def paths(emissions, task, row):
    """All tag sequences of a sentence, and the probability of each."""
    scores, lengths, limits = emissions
    pair, start, end = (limit[task % len(limit)] for limit in limits)
    every = list(product(range(3), repeat=int(lengths[task, row])))
    found = []
    for tags in every:
        value = start[tags[0]] + end[tags[-1]] if tags else torch.zeros(())
        value = value + sum(scores[task, row, t, tag] for t, tag in enumerate(tags))
        found.append(value + sum(pair[a, b] for a, b in pairwise(tags)))
    return every, torch.stack(found).softmax(0)


LENGTHS = (4, 1, 3, 0)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_opinions_are_what_all_paths_together_say(kind):
    emissions = made_up(LENGTHS, kind)
    found = soft_labels(emissions)
    for task, row in product(range(2), range(len(LENGTHS))):
        tags, steps = torch.zeros(4, 3), torch.zeros(4, 4)
        for path, weight in zip(*paths(emissions, task, row), strict=True):
            for t, tag in enumerate(path):
                tags[t, tag] += weight
            ends = (3, *path, 3) if path else ()
            for a, b in pairwise(ends):
                steps[a, b] += weight
        assert torch.allclose(found.tags[task, row].float(), tags, atol=1e-5)
        assert torch.allclose(found.steps[task, row].float(), steps, atol=1e-5)


def test_the_loss_is_the_cross_entropy_over_all_paths():
    teacher, self_training = made_up(LENGTHS), made_up((*LENGTHS, 2, 2))
    self_training = Emissions(self_training.scores[:, :4], teacher.lengths, self_training.chain)
    found = soft_label_loss("crf", self_training, soft_labels(teacher))
    for task in range(2):
        total = 0.0
        for row in range(3):
            q, p = (paths(e, task, row)[1] for e in (teacher, self_training))
            there = q > 0
            total -= (q[there] * p[there].log()).sum().item()
        assert found[task].item() == pytest.approx(total / 3)  # an empty sentence does not count


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_where_the_teacher_is_sure_it_is_the_loss_of_its_tags(kind):
    tagger, params, store = target("bilstm", kind)
    rows = torch.from_numpy(ROWS)
    batch = store.batch(rows, store.widths(ROWS.ravel()))
    emissions = tagger.emissions(params, tagger.encoder(params, batch, SCORING), batch)
    hard = 1e3 * torch.nn.functional.one_hot(batch.tags, 3).double()
    sure = soft_labels(Emissions(hard, emissions.lengths, constraints(tagger.tag_sets)))
    expected = tag_loss(kind, emissions, batch)
    assert torch.allclose(soft_label_loss(kind, emissions, sure), expected)


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_gradients_are_differences(kind, decoder):
    tagger, params, store = target(kind, decoder)
    teacher_labels = label_by_teacher(tagger, params, store, MORE)
    own = {n: p.expand(2, *p.shape[1:]) + 0.05 * torch.ones(()) for n, p in params.items()}
    rows = torch.from_numpy(np.concatenate((ROWS, MORE[:, 1:4]), axis=1))
    batch = store.batch(rows, store.widths(rows.numpy().ravel()))
    losses = teacher_labels.losses(tagger, batch, rows[:, -3:], 0.7, SCORING)

    def value(point):
        return losses(point, ["tag"], ())["tag"].sum()

    leaves = {n: p.clone().requires_grad_() for n, p in own.items() if part_of(n) != "frozen"}
    grads = torch.autograd.grad(value(own | leaves), list(leaves.values()))
    rng = torch.Generator().manual_seed(0)
    way = {n: torch.randn(p.shape, generator=rng).double() for n, p in leaves.items()}
    slope = sum((g * way[n]).sum() for n, g in zip(leaves, grads, strict=True))
    tiny_step = 1e-5
    ahead, behind = (
        value(own | {n: p.detach() + sign * tiny_step * way[n] for n, p in leaves.items()})
        for sign in (1, -1)
    )
    assert slope.item() == pytest.approx(((ahead - behind) / (2 * tiny_step)).item(), rel=1e-5)


def test_what_is_not_trusted_changes_nothing():
    tagger, params, store = target("transformer")
    idle = replace(
        TAUGHT, self_training=SelfTraining(steps=2, rate=1.0, batch=4, pseudo_label_weight=0.0)
    )
    plain = fit_samples(tagger, params, store, ROWS, idle, SEEDS)
    taught = fit_samples(tagger, params, store, ROWS, idle, SEEDS, unlabelled=MORE)
    for name, value in plain.items():
        assert torch.allclose(taught[name], value, atol=1e-9), name
    slow = replace(idle, self_training=replace(idle.self_training, rate=0.5))
    halved = fit_samples(tagger, params, store, ROWS, replace(RULE, rate=RULE.rate / 2), SEEDS)
    taught = fit_samples(tagger, params, store, ROWS, slow, SEEDS, unlabelled=MORE)
    assert torch.allclose(taught["decoder.weight"], halved["decoder.weight"], atol=1e-9)
    trusting = fit_samples(tagger, params, store, ROWS, TAUGHT, SEEDS, unlabelled=MORE)
    assert not torch.allclose(trusting["decoder.weight"], plain["decoder.weight"])


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_samples_have_teachers_of_their_own(kind, decoder):
    tagger, params, store = target(kind, decoder)
    together = fit_samples(tagger, params, store, ROWS, TAUGHT, SEEDS, unlabelled=MORE)
    for i in range(2):
        own = {n: p[i : i + 1] if part_of(n) == "decoder" else p for n, p in params.items()}
        some = slice(i, i + 1)
        alone = fit_samples(
            tagger, own, store, ROWS[some], TAUGHT, SEEDS[some], unlabelled=MORE[some]
        )
        for name, value in alone.items():
            row = together[name][some] if together[name].shape[0] == 2 else together[name]
            assert torch.allclose(row, value, atol=1e-9), name


def test_labels_of_what_is_not_labelled_do_not_count():
    tagger, params, store = target("transformer")
    bare = [replace(s, spans=s.spans if i < 10 else ()) for i, s in enumerate(_genes())]
    one, other = (
        fit_samples(tagger, params, held, ROWS, TAUGHT, SEEDS, unlabelled=MORE)
        for held in (store, tagger.store(bare))
    )
    assert all(torch.equal(other[name], value) for name, value in one.items())


def test_nothing_fills_up_what_is_short():
    tagger, params, store = target("transformer")
    some = replace(TAUGHT, self_training=SelfTraining(steps=6, batch=8))
    filled = np.pad(MORE, ((0, 0), (0, 2)), constant_values=-1)
    one, other = (
        label_by_teacher(tagger, params, store, rows).of(
            torch.from_numpy(rows),
            store.batch(torch.from_numpy(rows), store.widths(rows.ravel())),
        )
        for rows in (MORE, filled)
    )
    assert torch.equal(one.tags, other.tags[:, :6])
    assert other.tags[:, 6:].abs().sum() == other.steps[:, 6:].abs().sum() == 0
    assert (
        fit_samples(tagger, params, store, ROWS, some, SEEDS, unlabelled=filled).keys()
        == params.keys()
    )


def test_a_soup_and_upper_layers_are_taught_too():
    tagger, params, store = target("transformer")
    whole = replace(
        TAUGHT, batch=5, self_training=SelfTraining(steps=4, batch=6)
    )  # all of it in each step
    once = fit_samples(tagger, params, store, ROWS, whole, SEEDS, unlabelled=MORE)
    thrice = fit_samples(
        tagger, params, store, ROWS, replace(whole, restarts=3), SEEDS, unlabelled=MORE
    )
    for name, value in once.items():
        assert torch.allclose(thrice[name], value, atol=1e-9), name
    rule = replace(TAUGHT, clip=0.0)
    held = {"encoder.pieces": 0.0, "encoder.layer0": 0.0}
    still = replace(rule, scales=rule.scales | held)
    expected = fit_samples(tagger, params, store, ROWS, still, SEEDS, unlabelled=MORE)
    found = fit_samples(
        tagger, params, store, ROWS, replace(rule, layers=1), SEEDS, unlabelled=MORE
    )
    for name, value in expected.items():
        assert torch.allclose(found[name].expand_as(value), value, atol=1e-9), name


def test_the_pupil_is_heard():
    tagger, params, store = target("bilstm")
    moved = []
    fit_samples(
        tagger,
        params,
        store,
        ROWS,
        TAUGHT,
        SEEDS,
        unlabelled=MORE,
        on_step=moved.append,
    )
    steps = TAUGHT.inner(ROWS.shape[1]).steps
    assert moved == [len(ROWS)] * (steps + 6)


def test_small_parts_change_nothing(monkeypatch):
    tagger, params, store = target("bilstm")
    whole = label_by_teacher(tagger, params, store, MORE)
    monkeypatch.setattr("hardner.adapt.self_training._WORDS_AT_ONCE", {"cpu": 60})
    parts = label_by_teacher(tagger, params, store, MORE)
    assert torch.allclose(parts.labels.tags, whole.labels.tags, atol=1e-12)
    assert torch.allclose(parts.labels.steps, whole.labels.steps, atol=1e-12)


def test_sentences_are_ranked_by_what_they_say():
    texts = [
        ("a", "b"),
        ("c",),
        (),
        ("d",) * LONGEST_UNLABELLED,
        ("d",) * (LONGEST_UNLABELLED + 1),
        ("c",),
        ("e",),
    ]
    sentences = [Sentence(text) for text in texts]
    order = [texts[row] for row in usable_sentences(sentences)]
    assert sorted(order) == [("a", "b"), ("c",), ("d",) * LONGEST_UNLABELLED, ("e",)]
    assert [texts[::-1][row] for row in usable_sentences(sentences[::-1])] == order
    assert any(
        [texts[row] for row in usable_sentences(sentences, seed)] != order for seed in (1, 2, 3)
    )


def test_text_without_labels_helps():
    """New names stand beside known clues there; where there is no clue, the pupil knows more."""
    tagger, params, _ = target("transformer")
    words = tiny.vocabulary()
    old, new, clue, rest = words[:8], words[8:14], words[14:16], words[16:40]

    def said(name, left, right):
        return Sentence((left, name, right), (Span(1, 2, "Gene"),))

    def other(i):
        return Sentence((rest[i], rest[i - 1], rest[i - 2]))

    labelled = [*(said(name, *clue) for name in old), *(other(i) for i in range(8))]
    text = [
        *(Sentence((clue[0], name, clue[1])) for name in new),
        *(other(i) for i in range(8, 16)),
    ]
    hidden = [*(said(name, rest[i], rest[-i - 1]) for i, name in enumerate(new))]
    store = tagger.store([*labelled, *text, *hidden, *(other(i) for i in range(16, 24))])
    first = {n: p[:1].float() for n, p in params.items()}
    rule = replace(
        RULE, steps=30, batch=16, self_training=SelfTraining(steps=30, rate=1.0, batch=14)
    )
    rows, more, last = (np.arange(*ends)[None] for ends in ((0, 16), (16, 30), (30, 44)))
    batch = store.batch(torch.from_numpy(last), store.widths(last[0]))

    def loss(params):
        return tagger.losses(params, batch, ["tag"])["tag"].item()

    alone = loss(fit_samples(tagger, first, store, rows, rule, [0]))
    helped = loss(fit_samples(tagger, first, store, rows, rule, [0], unlabelled=more))
    assert helped < 0.85 * alone


def _genes():
    return tiny.sentences("Gene")
