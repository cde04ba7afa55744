"""The tagger as a whole: many tasks against one by one, and what decoding gives."""

import dataclasses

import pytest
import tiny
import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.model.layers import Mode, Params, part_of
from hardner.schemes import TagSet, tags_to_spans
from hardner.types import Sentence, Span

NAMES = ("tag", "domain", "bcls", "mcls", "mtcls")
DECODERS = ("crf", "softmax")
MODES = {"fused": Mode(), "twice": Mode(twice=True)}
each_kind = pytest.mark.parametrize("kind", tiny.KINDS)
each_decoder = pytest.mark.parametrize("decoder", DECODERS)


def one_task(batch: Batch, task: int) -> Batch:
    part = slice(task, task + 1)
    fields = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
    inputs = {n: v if n.startswith("table.") else v[part] for n, v in fields.pop("inputs").items()}
    return Batch(inputs, **{n: v[part] for n, v in fields.items() if isinstance(v, torch.Tensor)})


def task_params(params: Params, task: int) -> Params:
    return {n: p[task : task + 1] for n, p in params.items()}


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@each_kind
@each_decoder
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("domain", ["domain", "attention"])
def test_tasks_with_parameters_of_their_own_equal_one_by_one(
    kind: str, decoder: str, mode: str, domain: str
) -> None:
    """Losses, their gradients, and the decoded tags."""
    tagger = tiny.tagger(kind, decoder, "IOBES", (domain, "bcls", "mcls", "mtcls"))
    params = {n: p.requires_grad_() for n, p in tiny.params(tagger, tasks=5).items()}
    batch = tiny.batch(tagger, tasks=5)
    together = tagger.losses(params, batch, NAMES, MODES[mode])
    total = torch.stack([together[name].sum() for name in NAMES]).sum()
    grads = torch.autograd.grad(total, list(params.values()), materialize_grads=True)
    tags = tagger.decode(params, batch)
    for task in range(5):
        own, few = task_params(params, task), one_task(batch, task)
        alone = tagger.losses(own, few, NAMES, MODES[mode])
        for name in NAMES:
            close(together[name][task : task + 1], alone[name])
        summed = torch.stack([alone[name].sum() for name in NAMES]).sum()
        expected = torch.autograd.grad(summed, list(own.values()), materialize_grads=True)
        for ours, one in zip(grads, expected, strict=True):
            close(ours[task : task + 1], one)
        assert torch.equal(tags[task : task + 1], tagger.decode(own, few))


@each_kind
@each_decoder
def test_shared_parameters_equal_copies(kind: str, decoder: str) -> None:
    tagger = tiny.tagger(kind, decoder, heads=("domain", "bcls", "mcls", "mtcls"))
    params, batch = tiny.params(tagger), tiny.batch(tagger, tasks=4)
    copies = {n: p.expand(4, *p.shape[1:]).contiguous() for n, p in params.items()}
    for mode in MODES.values():
        shared, copied = (tagger.losses(p, batch, NAMES, mode) for p in (params, copies))
        for name in NAMES:
            close(shared[name], copied[name])
    assert torch.equal(tagger.decode(params, batch), tagger.decode(copies, batch))


@each_kind
def test_some_parts_shared_and_others_not(kind: str) -> None:
    """As in adaptation, where only the decoder may differ between tasks."""
    tagger = tiny.tagger(kind, heads=("domain",))
    params, batch = tiny.params(tagger, tasks=4), tiny.batch(tagger, tasks=4)
    mixed = {n: p if part_of(n) == "decoder" else p[:1] for n, p in params.items()}
    full = {n: p.expand(4, *p.shape[1:]) for n, p in mixed.items()}
    for name in ("tag", "domain"):
        close(tagger.losses(mixed, batch, [name])[name], tagger.losses(full, batch, [name])[name])


@each_kind
@each_decoder
def test_all_decoders_in_one_pass_equal_each_alone(kind: str, decoder: str) -> None:
    tagger = tiny.tagger(kind, decoder, "IOBES")
    params, batch = tiny.params(tagger), tiny.batch(tagger, rows=5)
    everyone = torch.arange(len(tiny.DOMAINS))
    together = tagger.decode(params, batch, everyone)
    assert together.shape == (4, *batch.tags.shape[1:])
    for domain in range(4):
        alone = tagger.decode(params, batch, everyone[domain : domain + 1])
        assert torch.equal(together[domain : domain + 1], alone)
        single = tagger.with_domains([tagger.tag_sets[domain]])
        own = {
            n: p[:, domain : domain + 1] if part_of(n) == "decoder" else p
            for n, p in params.items()
        }
        assert torch.equal(single.decode(own, one_task(tiny.batch(tagger, rows=5), 0)), alone)


RICH = (
    TagSet("rich", ("X", "Y", "Z"), "IOBES"),
    TagSet("poor", ("X",), "IOBES"),
    TagSet("plain", ("X", "Y"), "IOB2"),
)


@each_decoder
@pytest.mark.parametrize("scale", [1, 1e6])
def test_what_is_decoded_is_always_valid_and_of_the_domain(decoder: str, scale: float) -> None:
    tagger = tiny.tagger("bilstm", decoder).with_domains(RICH)
    sentences, _ = tiny.everything()
    unlabelled = [Sentence(s.tokens) for s in sentences[:60]] + [Sentence(()), Sentence(("x",))]
    store = tagger.store(unlabelled)
    rows = torch.cat((torch.arange(len(unlabelled)), torch.tensor([-1]))).unsqueeze(0)
    batch = store.batch(rows, store.widths(rows.numpy()))
    params = {
        n: p * (scale if part_of(n) == "decoder" else 1) for n, p in tiny.params(tagger).items()
    }
    found = tagger.decode(params, batch, torch.arange(3))
    spans = 0
    for tag_set, tags in zip(RICH, found, strict=True):
        for row, length in zip(tags.tolist(), batch.lengths[0].tolist(), strict=True):
            assert row[length:] == [-1] * (len(row) - length)
            assert all(0 <= tag < len(tag_set.tags) for tag in row[:length])
            read, repaired = tags_to_spans([tag_set.tags[t] for t in row[:length]], tag_set.scheme)
            assert not repaired
            spans += len(read)
    assert spans > 50


@each_kind
@each_decoder
def test_rows_that_are_not_there_change_nothing(kind: str, decoder: str) -> None:
    tagger = tiny.tagger(kind, decoder, heads=("domain", "bcls", "mcls", "mtcls"))
    sentences, domains = tiny.everything()
    store = tagger.store(sentences, domains)
    params = tiny.params(tagger)
    rows, padded = torch.tensor([[3, 5]]), torch.tensor([[-1, 3, -1, 5]])
    widths = store.widths(rows.numpy())
    wider = {n: w + 7 for n, w in widths.items()}
    expected = tagger.losses(params, store.batch(rows, widths), NAMES)
    batch = store.batch(padded, wider)
    for name, value in tagger.losses(params, batch, NAMES).items():
        close(value, expected[name])
    decoded = tagger.decode(params, batch)
    plain = tagger.decode(params, store.batch(rows, widths))
    assert torch.equal(decoded[:, [1, 3], : plain.shape[2]], plain)
    assert (decoded[:, [0, 2]] == -1).all()


@each_kind
def test_no_sentences_and_one_word(kind: str) -> None:
    tagger = tiny.tagger(kind, heads=("domain", "bcls", "mcls", "mtcls"))
    params = tiny.params(tagger)
    store = tagger.store([])
    batch = store.batch(torch.tensor([[-1]]), store.widths(torch.tensor([-1]).numpy()))
    assert all(float(v) == 0 for v in tagger.losses(params, batch, NAMES).values())
    assert tagger.decode(params, batch).tolist() == [[[-1]]]
    label = tagger.tag_sets[0].labels[0]
    store = tagger.store([Sentence(("Gout",), (Span(0, 1, label),))])
    batch = store.batch(torch.tensor([[0]]), store.widths(torch.tensor([0]).numpy()))
    assert all(float(v) > 0 for v in tagger.losses(params, batch, NAMES).values())
    assert tagger.decode(params, batch).shape == (1, 1, 1)


def test_a_cut_loss_does_not_reach_the_encoder() -> None:
    tagger = tiny.tagger("bilstm", heads=("domain",))
    params = {n: p.requires_grad_() for n, p in tiny.params(tagger).items()}
    batch = tiny.batch(tagger)
    for cut in ((), ("domain",)):
        loss = tagger.losses(params, batch, ("tag", "domain"), cut=cut)["domain"].sum()
        grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        reached = {part_of(n) for n, g in zip(params, grads, strict=True) if g is not None}
        assert ("encoder" in reached) == (not cut)
        assert "critic" in reached


def test_parts_have_the_names_that_methods_use() -> None:
    tagger = tiny.tagger("bilstm", heads=("domain", "bcls", "mcls", "mtcls"))
    parts = {part_of(name) for name in tagger.init()}
    assert parts == {"encoder", "frozen", "decoder", "critic", "bcls", "mcls", "mtcls"}


def test_the_seed_decides() -> None:
    tagger = tiny.tagger("transformer", heads=("domain",))
    one, same, other = (tagger.init(seed) for seed in (1, 1, 2))
    assert all(torch.equal(one[n], same[n]) for n in one)
    assert not torch.equal(one["encoder.pieces"], other["encoder.pieces"])


@each_kind
def test_prototypes_decode_by_the_nearest_mean(kind: str) -> None:
    tagger = tiny.tagger(kind, "softmax")
    params, batch = tiny.params(tagger), tiny.batch(tagger, tasks=2, rows=8)
    made = tagger.prototypes(params, batch)
    assert made["decoder.weight"].shape[:2] == (2, 4)
    encoded = tagger.encoder(params, batch, Mode())
    emissions = tagger.emissions(made, encoded, batch)
    for task in range(2):
        words = torch.arange(batch.tags.shape[2]) < batch.lengths[task].unsqueeze(-1)
        vectors, gold = encoded.words[task][words], batch.tags[task][words]
        means = torch.stack([vectors[gold == tag].mean(0) for tag in gold.unique()])
        nearest = gold.unique()[torch.cdist(vectors, means).argmin(1)]
        assert torch.equal(emissions.scores[task][words].argmax(-1), nearest)


@each_kind
def test_a_tagger_learns_the_example_corpus(kind: str) -> None:
    """Losses fall under plain gradient descent, in single precision."""
    tagger = tiny.tagger(kind)
    params = {n: p.requires_grad_() for n, p in tagger.init().items() if part_of(n) != "frozen"}
    frozen = {n: p for n, p in tagger.init().items() if part_of(n) == "frozen"}
    batch = tiny.batch(tagger, tasks=4, rows=6)
    optimizer = torch.optim.Adam(list(params.values()), lr=2e-2)
    values = []
    for _ in range(30):
        loss = tagger.losses(params | frozen, batch, ["tag"])["tag"].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(float(loss.detach()))
    assert values[-1] < values[0] / 2
