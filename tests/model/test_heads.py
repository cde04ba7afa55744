"""Heads: labels counted by hand, formulas written out, means over what is there."""

import dataclasses

import pytest
import tiny
import torch
from torch import Tensor, nn

from hardner.batch import Batch, Store
from hardner.model.encoders import Encoded
from hardner.model.heads import (
    Discriminator,
    ExtentHead,
    Head,
    SentenceHead,
    head_loss,
    pool_sentence,
    sentence_labels,
)
from hardner.model.layers import Params, mean_over
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

SIZE = 6
RNG = torch.Generator().manual_seed(1)


def spans(*pairs: tuple[int, int]) -> tuple[Span, ...]:
    return tuple(Span(start, end, "X") for start, end in pairs)


SENTENCES = (
    Sentence(tuple("abcd")),
    Sentence(tuple("abcde"), spans((1, 2))),
    Sentence(tuple("abc"), spans((0, 2), (2, 3))),
    Sentence(tuple("abcdef"), spans((0, 1), (1, 2), (3, 6))),
    Sentence(tuple("abcdefg"), spans((0, 1), (2, 3), (4, 5), (5, 7))),
    Sentence(("a",)),
)
TAG_SETS = (TagSet("one", ("X",)), TagSet("two", ("X",)), TagSet("three", ("X",)))


def batch_of(rows: list[list[int]], width: int = 7) -> Batch:
    """Of `SENTENCES`; task ``i`` is of domain ``i``."""
    chosen = torch.tensor(rows)
    found, domains = [], []
    for task, row in enumerate(rows):
        found += [SENTENCES[i] if i >= 0 else Sentence(()) for i in row]
        domains += [task % 3] * len(row)
    empty = tiny.encoder("bilstm").features(found)
    store = Store(found, empty, TAG_SETS, domains)
    index = torch.where(chosen >= 0, torch.arange(chosen.numel()).view_as(chosen), -1)
    return store.batch(index, {"words": width, "forms": width})


def encoded_of(batch: Batch) -> Encoded:
    shape = (*batch.tags.shape, SIZE)
    words = torch.randn(shape, dtype=torch.float64, generator=RNG)
    return Encoded(words, torch.randn(*shape[:2], SIZE, dtype=torch.float64, generator=RNG))


def double(head: Head, tasks: int = 1) -> Params:
    made = [head.init(torch.Generator().manual_seed(task)) for task in range(tasks)]
    return {n: torch.cat([p[n] for p in made]).double() for n in made[0]}


def test_labels_derive_from_the_mentions() -> None:
    batch = batch_of([[0, 1, 2], [3, 4, 5]])
    assert sentence_labels(batch, "bcls").tolist() == [[0, 1, 1], [1, 1, 0]]
    assert sentence_labels(batch, "mcls").tolist() == [[0, 1, 2], [3, 3, 0]]
    assert sentence_labels(batch, "domain").tolist() == [[0, 0, 0], [1, 1, 1]]
    assert batch.extent[0].tolist() == [[0] * 7, [0, 1, 0, 0, 0, 0, 0], [2, 2, 1, 0, 0, 0, 0]]
    assert batch.extent[1, :2].tolist() == [[1, 1, 0, 2, 2, 2, 0], [1, 0, 1, 0, 1, 2, 2]]


def test_pooling() -> None:
    batch = batch_of([[0, 5, -1]])
    encoded = encoded_of(batch)
    words = encoded.words[0]
    assert pool_sentence(encoded, batch, "cls") is encoded.whole
    mean, most = pool_sentence(encoded, batch, "mean")[0], pool_sentence(encoded, batch, "max")[0]
    torch.testing.assert_close(mean[0], words[0, :4].mean(0))
    torch.testing.assert_close(mean[1], words[1, 0])
    torch.testing.assert_close(most[0], words[0, :4].max(0).values)
    torch.testing.assert_close(most[1], words[1, 0])
    assert mean.isfinite().all()
    assert most.isfinite().all()


HEADS: dict[str, Head] = {
    "domain": SentenceHead("domain", SIZE, 3, "mean"),
    "bcls, cls": SentenceHead("bcls", SIZE, 2, "cls"),
    "bcls, mean": SentenceHead("bcls", SIZE, 2, "mean"),
    "mcls, max": SentenceHead("mcls", SIZE, 4, "max"),
    "mtcls": ExtentHead(SIZE),
    "attention": Discriminator(SIZE, 3),
}


def log_probability(logits: Tensor, gold: int) -> Tensor:
    return logits[gold] - logits.exp().sum().log()


def expected_loss(name: str, params: Params, encoded: Encoded, batch: Batch, task: int) -> Tensor:
    """One sentence, one word at a time."""
    own = {n: p[min(task, p.shape[0] - 1)] for n, p in params.items()}
    values = []
    for row, length in enumerate(batch.lengths[task].tolist()):
        words = encoded.words[task, row, :length]
        mentions = int(batch.mentions[task, row])
        if not length:
            continue
        if name == "attention":
            # Eqs. 9-11.
            scores = torch.stack(
                [torch.tanh(own["attention.weight"] @ h + own["attention.bias"]) for h in words]
            )
            omega = scores.exp() / scores.exp().sum()
            c = sum(weight * h for weight, h in zip(omega, words, strict=True))
            hidden = (own["hidden.weight"] @ c + own["hidden.bias"]).clamp(min=0)
            values.append(-log_probability(own["out.weight"] @ hidden + own["out.bias"], task % 3))
            continue
        if name == "mtcls":
            for h, gold in zip(words, batch.extent[task, row].tolist(), strict=False):
                values.append(-log_probability(own["weight"] @ h + own["bias"], gold))
            continue
        pooled = {
            "domain": words.mean(0),
            "bcls, mean": words.mean(0),
            "mcls, max": words.amax(0),
        }.get(name, encoded.whole[task, row])
        gold = {"d": task % 3, "b": min(mentions, 1), "m": min(mentions, 3)}[name[0]]
        values.append(-log_probability(own["weight"] @ pooled + own["bias"], gold))
    return torch.stack(values).mean()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_losses_are_the_formulas_written_out(name: str, shared: bool) -> None:
    batch = batch_of([[0, 1, 2], [3, -1, 5], [4, 4, 1]])
    encoded, params = encoded_of(batch), double(HEADS[name], 1 if shared else 3)
    ours = head_loss(HEADS[name], params, encoded, batch)
    expected = [expected_loss(name, params, encoded, batch, task) for task in range(3)]
    torch.testing.assert_close(ours, torch.stack(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", HEADS)
def test_what_is_not_there_has_no_effect(name: str) -> None:
    """Rows of padding, and words behind the end of a sentence."""
    head, small, padded = HEADS[name], batch_of([[1, 2]], 5), batch_of([[1, 2, -1, -1]], 7)
    params, encoded = double(head), encoded_of(small)
    noise = encoded_of(padded)
    words, whole = noise.words.clone() * 50, noise.whole.clone() * 50
    for row in range(2):
        length = int(small.lengths[0, row])
        words[0, row, :length] = encoded.words[0, row, :length]
        whole[0, row] = encoded.whole[0, row]
    expected = head_loss(head, params, encoded, small)
    leaves = words.requires_grad_(), whole.requires_grad_()
    ours = head_loss(head, params, Encoded(*leaves), padded)
    torch.testing.assert_close(ours, expected)
    for grad in torch.autograd.grad(ours.sum(), leaves, materialize_grads=True):
        assert grad.isfinite().all()
        assert not grad[0, 2:].any()


@pytest.mark.parametrize("name", HEADS)
def test_a_task_without_sentences_costs_nothing(name: str) -> None:
    batch = batch_of([[-1, -1]])
    assert head_loss(HEADS[name], double(HEADS[name]), encoded_of(batch), batch).tolist() == [0.0]


def test_cross_entropy_is_torchs() -> None:
    head = HEADS["domain"]
    batch = batch_of([[0, 1], [2, 3]])
    encoded, params = encoded_of(batch), double(head)
    logits = head.logits(params, encoded, batch)
    expected = nn.functional.cross_entropy(logits[1], torch.tensor([1, 1]))
    torch.testing.assert_close(head_loss(head, params, encoded, batch)[1], expected)


def test_mean_over_counts_what_is_there() -> None:
    values = torch.tensor([[[1.0, 2.0], [3.0, 99.0]], [[5.0, 99.0], [99.0, 99.0]]])
    assert mean_over(values, values < 99).tolist() == [2.0, 5.0]
    assert mean_over(values, values < 0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", HEADS)
def test_gradient_has_a_gradient(name: str) -> None:
    head = dataclasses.replace(HEADS[name], size=2)  # type: ignore[type-var]
    batch = batch_of([[1, 5]], 5)
    words = torch.randn(1, 2, 5, 2, dtype=torch.float64, generator=RNG, requires_grad=True)
    whole = torch.randn(1, 2, 2, dtype=torch.float64, generator=RNG, requires_grad=True)
    params = double(head)

    def run(words: Tensor, whole: Tensor, *values: Tensor) -> Tensor:
        return head_loss(head, dict(zip(params, values, strict=True)), Encoded(words, whole), batch)

    leaves = [words, whole, *(p.requires_grad_() for p in params.values())]
    assert torch.autograd.gradgradcheck(run, leaves)
