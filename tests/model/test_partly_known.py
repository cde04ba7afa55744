"""The loss of sentences labelled in part, against the enumeration of all tag sequences."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from hardner.batch import Batch, Store
from hardner.errors import HardnerError
from hardner.features import Features
from hardner.model.crf import crf_loss
from hardner.model.decoders import Emissions, TransitionScores, constraints, tag_loss
from hardner.schemes import TagSet, spans_to_tags, tags_to_spans
from hardner.types import Sentence, Span

X, Y = "X", "Y"
CASES = {
    "nothing": Sentence(("a",) * 4, state="partial"),
    "a mention": Sentence(("a",) * 4, (Span(1, 3, X),), state="partial"),
    "touching mentions": Sentence(("a",) * 4, (Span(0, 1, X), Span(1, 2, Y)), state="partial"),
    "a rejected word": Sentence(("a",) * 4, state="partial", rejected=(Span(2, 3, X),)),
    "rejected words": Sentence(("a",) * 4, state="partial", rejected=(Span(1, 4, X),)),
    "rejected at both ends": Sentence(
        ("a",) * 4, state="partial", rejected=(Span(0, 2, X), Span(3, 4, X))
    ),
    "nested": Sentence(
        ("a",) * 4, state="partial", rejected=(Span(1, 2, X), Span(1, 4, X), Span(2, 3, X))
    ),
    "overlapping": Sentence(
        ("a",) * 4, state="partial", rejected=(Span(0, 2, X), Span(1, 4, Y), Span(2, 4, X))
    ),
    "touching": Sentence(("a",) * 4, state="partial", rejected=(Span(0, 2, X), Span(2, 3, X))),
    "of two labels": Sentence(("a",) * 4, state="partial", rejected=(Span(1, 2, X), Span(1, 3, Y))),
    "beside a mention": Sentence(
        ("a",) * 4, (Span(2, 4, X),), state="partial", rejected=(Span(1, 3, X), Span(0, 1, Y))
    ),
    "of no known label": Sentence(("a",) * 3, state="partial", rejected=(Span(1, 2, "Z"),)),
    "done": Sentence(("a",) * 4, (Span(1, 2, X),), state="done"),
    "one word": Sentence(("a",), state="partial", rejected=(Span(0, 1, X),)),
}
SCHEMES = ("IOB2", "IOB1", "IOBES", "IO")


def agreeing(sentence: Sentence, tag_set: TagSet) -> tuple[Tensor, Tensor]:
    """All paths of a sentence, [P, n], and which of them say what is known of it, [P]."""
    paths = list(product(range(len(tag_set.tags)), repeat=len(sentence)))
    named = ([tag_set.tags[tag] for tag in path] for path in paths)
    right = [agrees(sentence, tags, tag_set.scheme) for tags in named]
    return torch.tensor(paths), torch.tensor(right)


def agrees(sentence: Sentence, tags: Sequence[str], scheme: str) -> bool:
    """Whether tags say what is known of a sentence, as its mentions are read from them."""
    if sentence.is_done:
        return list(tags) == spans_to_tags(sentence.spans, len(sentence), scheme)
    spans = set(tags_to_spans(tags, scheme)[0])
    return spans >= set(sentence.spans) and not spans & set(sentence.rejected)


def made(sentences: Sequence[Sentence], tag_set: TagSet, seed: int = 0) -> tuple[Batch, Emissions]:
    """The sentences as a batch, twice, and random scores of their tags for two tasks."""
    features = Features({"words": [torch.zeros(len(s)).long().numpy() for s in sentences]}, {})
    store = Store(sentences, features, [tag_set], [0] * len(sentences))
    rows = torch.arange(len(sentences)).repeat(2, 1)
    batch = store.batch(rows, store.widths(rows.numpy()))
    rng = torch.Generator().manual_seed(seed)
    count = len(tag_set.tags)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    limits = [limit.double() for limit in constraints([tag_set])]
    own = [normal(2, *limit.shape[1:]) + limit for limit in limits]
    scores = 2 * normal(*batch.tags.shape, count)
    return batch, Emissions(scores, batch.lengths, TransitionScores(*own))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_crf_sums_over_the_paths_that_agree(name: str, scheme: str) -> None:
    tag_set, sentence = TagSet("d", (X, Y), scheme), CASES[name]
    batch, (scores, lengths, chain) = made([sentence, CASES["done"]], tag_set)
    losses = crf_loss(scores, lengths, *chain, batch.tags, batch.partial)
    paths, right = agreeing(sentence, tag_set)
    for task in range(2):
        values = scores[task, 0, torch.arange(len(sentence)), paths].sum(-1)  # [P]
        values = values + chain.transitions[task, paths[:, :-1], paths[:, 1:]].sum(-1)
        values = values + chain.start[task, paths[:, 0]] + chain.end[task, paths[:, -1]]
        missed = values.logsumexp(0) - values[right].logsumexp(0)
        torch.testing.assert_close(losses[task, 0], missed, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_softmax_sums_over_all_tags_that_agree(name: str, scheme: str) -> None:
    tag_set, sentence = TagSet("d", (X, Y), scheme), CASES[name]
    batch, emissions = made([sentence], tag_set)
    found = tag_loss("softmax", emissions, batch)
    paths, right = agreeing(sentence, tag_set)
    for task in range(2):
        logs = emissions.scores[task, 0].log_softmax(-1)
        missed = -logs[torch.arange(len(sentence)), paths[right]].sum(-1).logsumexp(0)
        steps = int((batch.partial.steps[task] > 0).sum()) if batch.partial else len(sentence)
        torch.testing.assert_close(found[task], missed / max(1, steps), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_its_gradients_are_the_finite_differences(kind: str) -> None:
    tag_set = TagSet("d", (X,), "IOB2")
    names = ("rejected words", "nested", "a mention", "done", "nothing")
    short = [replace(CASES[n], tokens=CASES[n].tokens[:4]) for n in names]
    batch, (scores, lengths, chain) = made(short, tag_set)

    def loss(scores: Tensor, *steps: Tensor) -> Tensor:
        limits = (limit.double() for limit in constraints([tag_set]))
        own = (step + limit for step, limit in zip(steps, limits, strict=True))
        return tag_loss(kind, Emissions(scores, lengths, TransitionScores(*own)), batch)  # type: ignore[arg-type]

    inputs = [scores, *(step.masked_fill(step.isinf(), 0.3) for step in chain)]
    assert torch.autograd.gradcheck(loss, [value.requires_grad_() for value in inputs])


def test_where_all_is_known_nothing_has_changed() -> None:
    tag_set, done = TagSet("d", (X, Y), "IOB2"), CASES["done"]
    alone, emissions = made([done, done], tag_set)
    assert alone.partial is None
    mixed, _ = made([done, CASES["nested"]], tag_set)
    assert mixed.partial is not None
    wide = torch.zeros(2, 2, 4, 5, dtype=torch.float64)
    wide[:, :1, :4] = emissions.scores[:, :1]
    before = crf_loss(emissions.scores, alone.lengths, *emissions.chain, alone.tags)
    after = crf_loss(wide, mixed.lengths, *emissions.chain, mixed.tags, mixed.partial)
    assert torch.equal(before[:, 0], after[:, 0])
    assert torch.equal(mixed.partial.there, torch.tensor([[False, True]] * 2))


def test_nothing_known_costs_nothing_and_moves_nothing() -> None:
    batch, (scores, lengths, chain) = made([CASES["nothing"]], TagSet("d", (X, Y), "IOB2"))
    scores.requires_grad_()
    loss = crf_loss(scores, lengths, *chain, batch.tags, batch.partial)
    torch.testing.assert_close(loss, torch.zeros_like(loss), rtol=0, atol=1e-12)
    (grad,) = torch.autograd.grad(loss.sum(), scores)
    torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-12)


def test_one_task_is_given_to_many() -> None:
    batch, _ = made([CASES["nested"], CASES["done"]], TagSet("d", (X, Y), "IOB2"))
    assert batch.partial is not None
    one = replace(
        batch,
        **{n: getattr(batch, n)[:1] for n in ("lengths", "tags", "domains", "mentions", "extent")},
        inputs={n: v[:1] for n, v in batch.inputs.items()},
        partial=batch.partial._replace(
            there=batch.partial.there[:1], steps=batch.partial.steps[:1]
        ),
    )
    again = one.repeat(2).partial
    assert again is not None
    assert all(torch.equal(a, b) for a, b in zip(again, batch.partial, strict=True))


def test_a_span_cannot_be_both() -> None:
    both = Sentence(("a", "b"), (Span(0, 1, X),), state="partial", rejected=(Span(0, 1, X),))
    with pytest.raises(HardnerError, match="'a' is labelled 'X' and rejected"):
        made([both], TagSet("d", (X,), "IOB2"))
