"""Decoders against enumeration: what a scheme allows, the best sequence, losses, prototypes."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Batch
from hardner.model.crf import viterbi
from hardner.model.decoders import (
    Emissions,
    TransitionScores,
    constraints,
    emit,
    init_decoder,
    prototypes,
    select,
    tag_loss,
)
from hardner.model.encoders import Encoded
from hardner.schemes import TagSet, tags_to_spans

ONE = TagSet("one", ("X",))
NARROW = TagSet("narrow", ("Y",), "IOBES")
WIDE = TagSet("wide", ("X", "Y"), "IOBES")
PAIR = TagSet("pair", ("X", "Y", "Z"))
SETS = (ONE, NARROW, WIDE, PAIR)
WIDTH = 9
RNG = torch.Generator().manual_seed(5)


def draw(*shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, dtype=torch.float64, generator=RNG)


def own(index: int) -> TransitionScores:
    """The limits of one domain of `SETS`, as of one task."""
    return TransitionScores(*(limit[index : index + 1].double() for limit in constraints(SETS)))


def valid(tag_set: TagSet, sequence: tuple[int, ...]) -> bool:
    """Whether the scheme writes it: reading it finds nothing to repair."""
    if any(tag >= len(tag_set.tags) for tag in sequence):
        return False
    return not tags_to_spans([tag_set.tags[tag] for tag in sequence], tag_set.scheme)[1]


def score(sequence: tuple[int, ...], scores: Tensor, chain: TransitionScores) -> float:
    """scores [T, C]."""
    total = float(chain.start[0, sequence[0]] + chain.end[0, sequence[-1]])
    total += sum(float(chain.transitions[0, a, b]) for a, b in pairwise(sequence))
    return total + sum(float(scores[t, tag]) for t, tag in enumerate(sequence))


@pytest.mark.parametrize("index", range(len(SETS)), ids=[s.domain for s in SETS])
def test_constraints_allow_exactly_the_sequences_of_the_scheme(index: int) -> None:
    limits = own(index)
    assert limits.start.shape == (1, WIDTH)
    allowed = 0
    for length in (1, 2, 3):
        for sequence in product(range(WIDTH), repeat=length):
            found = score(sequence, torch.zeros(length, WIDTH), limits)
            assert (found == 0) == valid(SETS[index], sequence)
            assert found in (0, -torch.inf)
            allowed += found == 0
    assert allowed > 10


def test_a_single_narrow_domain_needs_no_more_than_its_tags() -> None:
    assert constraints((ONE,)).transitions.shape == (1, 3, 3)


@pytest.mark.parametrize("index", range(len(SETS)), ids=[s.domain for s in SETS])
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_constrained_viterbi_equals_enumeration(index: int, scale: float) -> None:
    """Also where a scheme stands in the way of scores that are very sure of themselves."""
    lengths = [3, 2, 1]
    scores = draw(1, 3, 3, WIDTH, scale=scale)
    limits = own(index)
    found = viterbi(scores, torch.tensor([lengths]), *limits)[0]
    for row, length in enumerate(lengths):
        every = [s for s in product(range(WIDTH), repeat=length) if valid(SETS[index], s)]
        best = max(every, key=lambda s: score(s, scores[0, row, :length], limits))
        assert found[0, row].tolist() == [*best, *[-1] * (3 - length)]


def batch_of(tags: Tensor, lengths: list[list[int]], domains: list[int]) -> Batch:
    there = torch.tensor(lengths)
    return Batch({}, there, tags, torch.tensor(domains), there * 0, tags * 0)


GOLD = {"narrow": [0, 1, 3], "pair": [1, 2, 3]}  # O B-Y E-Y; B-X I-X B-Y


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_losses_are_over_the_domains_own_tags(kind: str) -> None:
    """Two tasks of domains with different tags, each with a decoder of its own."""
    assert NARROW.tags[:4] == ("O", "B-Y", "I-Y", "E-Y")
    picked, lengths = [1, 3], [[3, 1, 0], [2, 3, 0]]
    tags = torch.tensor(
        [[GOLD["narrow"], [0, 0, 0], [0] * 3], [GOLD["pair"], GOLD["pair"], [0] * 3]]
    )
    batch = batch_of(tags, lengths, picked)
    params = {n: draw(*p.shape) for n, p in init_decoder(kind, 4, SETS, torch.Generator()).items()}
    encoded = Encoded(draw(2, 3, 3, 4), draw(2, 3, 4))
    limits = TransitionScores(
        *(limit[torch.tensor(picked)].double() for limit in constraints(SETS))
    )
    chosen = select(params, batch.domains)
    emitted = emit(kind, chosen, encoded, batch, limits)
    ours, by_sentence = (tag_loss(kind, emitted, batch, whole) for whole in (False, True))
    for task, domain in enumerate(picked):
        values, n = [], len(SETS[domain].tags)
        weight, bias = params["weight"][0, domain, :n], params["bias"][0, domain, :n]
        for row, length in enumerate(lengths[task]):
            scores = encoded.words[task, row, :length] @ weight.T + bias  # [T, n]
            gold = tuple(tags[task, row, :length].tolist())
            if kind == "softmax":
                values += [
                    functional.cross_entropy(s, torch.tensor(g))
                    for s, g in zip(scores, gold, strict=True)
                ]
            elif length:
                chain = TransitionScores(
                    *(params[k][:, domain] for k in ("transitions", "start", "end"))
                )
                every = [s for s in product(range(n), repeat=length) if valid(SETS[domain], s)]
                assert gold in every
                paths = torch.tensor([score(s, scores, chain) for s in every], dtype=torch.float64)
                values.append(paths.logsumexp(0) - score(gold, scores, chain))
        every_value, close = torch.stack(values), {"rtol": 1e-10, "atol": 1e-10}
        torch.testing.assert_close(ours[task], every_value.mean(), **close)
        a_sentence = every_value.sum() / sum(length > 0 for length in lengths[task])
        torch.testing.assert_close(by_sentence[task], a_sentence, **close)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_foreign_tags_do_not_learn(kind: str) -> None:
    tags = torch.tensor([[GOLD["narrow"]]])
    batch = batch_of(tags, [[3]], [1])
    made = init_decoder(kind, 4, SETS, torch.Generator())
    params = {n: draw(*p.shape).requires_grad_() for n, p in made.items()}
    limits = own(1)
    encoded = Encoded(draw(1, 1, 3, 4), draw(1, 1, 4))
    loss = tag_loss(kind, emit(kind, select(params, batch.domains), encoded, batch, limits), batch)
    grads = torch.autograd.grad(loss.sum(), list(params.values()))
    for name, grad in zip(params, grads, strict=True):
        assert grad.isfinite().all()
        assert not grad[0, [0, 2, 3]].any()  # other domains
        assert not grad[0, 1, len(NARROW.tags) :].any(), name
        assert grad[0, 1].any()


def test_select_gives_each_task_its_own_decoder() -> None:
    domains = torch.tensor([2, 0, 2])
    shared, each = draw(1, 3, 5), draw(3, 3, 5)
    assert torch.equal(
        select({"p": shared}, domains)["p"], torch.stack([shared[0, d] for d in (2, 0, 2)])
    )
    expected = torch.stack([each[0, 2], each[1, 0], each[2, 2]])
    assert torch.equal(select({"p": each}, domains)["p"], expected)


def test_a_new_decoder_is_as_wide_as_the_richest_domain() -> None:
    made = init_decoder("crf", 4, SETS, torch.Generator())
    shapes = {name: tuple(p.shape) for name, p in made.items()}
    assert shapes == {
        "weight": (1, 4, 9, 4),
        "bias": (1, 4, 9),
        "transitions": (1, 4, 9, 9),
        "start": (1, 4, 9),
        "end": (1, 4, 9),
    }
    assert set(init_decoder("softmax", 4, SETS, torch.Generator())) == {"weight", "bias"}


def test_prototypes_pick_the_nearest_mean() -> None:
    tasks, rows, width, tags = 2, 4, 5, 7
    lengths = [[5, 3, 1, 0], [2, 2, 4, 5]]
    gold = torch.randint(5, (tasks, rows, width), generator=RNG)  # tags 5 and 6 are never shown
    batch = batch_of(gold, lengths, [3, 3])
    encoded = Encoded(draw(tasks, rows, width, 3), draw(tasks, rows, 3))
    made = prototypes(encoded, batch, tags)
    queries = draw(tasks, 10, 3)
    for task in range(tasks):
        held: dict[int, list[Tensor]] = {}
        for row, length in enumerate(lengths[task]):
            for t in range(length):
                held.setdefault(int(gold[task, row, t]), []).append(encoded.words[task, row, t])
        means = {tag: torch.stack(vectors).mean(0) for tag, vectors in held.items()}
        scores = queries[task] @ made["weight"][task, 0].T + made["bias"][task, 0]  # [10, C]
        for query, found in zip(queries[task], scores, strict=True):
            nearest = min(means, key=lambda tag: float((query - means[tag]).square().sum()))
            assert int(found.argmax()) == nearest
            for tag, mean in means.items():  # up to ||h||^2, the scores are the distances
                distance = (query - mean).square().sum()
                torch.testing.assert_close(found[tag], query.square().sum() - distance)


def test_a_word_whose_tag_has_no_prototype_does_not_count() -> None:
    support = batch_of(torch.tensor([[[0, 1]]]), [[2]], [3])
    encoded = Encoded(draw(1, 1, 2, 3), draw(1, 1, 3))
    made = prototypes(encoded, support, WIDTH)
    query = batch_of(torch.tensor([[[1, 2]]]), [[2]], [3])
    emissions = emit("softmax", select(made, torch.tensor([0])), encoded, query, own(3))
    loss = tag_loss("softmax", emissions, query)
    first = functional.cross_entropy(emissions.scores[0, 0, 0, :2], torch.tensor(1))
    torch.testing.assert_close(loss[0], first)


def test_half_precision_scores_are_summed_in_single() -> None:
    scores = draw(1, 2, 3, WIDTH).to(torch.bfloat16)
    batch = batch_of(torch.zeros(1, 2, 3, dtype=torch.long), [[3, 2]], [3])
    limits = TransitionScores(*(limit.float() for limit in own(3)))
    for kind in ("crf", "softmax"):
        loss = tag_loss(kind, Emissions(scores, batch.lengths, limits), batch)
        assert loss.dtype == torch.float32
