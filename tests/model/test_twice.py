"""Second derivatives through whole taggers, against finite differences."""

import pytest
import tiny
import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.features import Pieces
from hardner.model.characters import Characters
from hardner.model.encoders import WordEncoder
from hardner.model.layers import Mode
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

each_kind = pytest.mark.parametrize("kind", tiny.KINDS)
each_decoder = pytest.mark.parametrize("decoder", ["crf", "softmax"])


@each_kind
def test_fused_and_twice_agree(kind: str) -> None:
    tagger = tiny.tagger(kind)
    params = {n: p.requires_grad_() for n, p in tiny.params(tagger, tasks=2).items()}
    batch = tiny.batch(tagger, tasks=2)
    found = []
    for mode in (Mode(), Mode(twice=True)):
        loss = tagger.losses(params, batch, ["tag"], mode)["tag"].sum()
        found.append(
            [loss, *torch.autograd.grad(loss, list(params.values()), materialize_grads=True)]
        )
    for fused, twice in zip(*found, strict=True):
        torch.testing.assert_close(fused, twice, rtol=1e-10, atol=1e-10)


def smallest(kind: str, decoder: str) -> tuple[Tagger, Batch]:
    """Few enough parameters for every second derivative to be checked."""
    sets = (TagSet("one", ("X",)), TagSet("two", ("X", "Y"), "IOBES"))
    if kind == "transformer":
        pieces = Pieces(lambda word: [4 + ord(letter) % 3 for letter in word], 1, 2, 3)
        encoder = PieceEncoder(Transformer(7, size=2, layers=1, heads=1, inner=2), pieces)
    else:
        characters = Characters(embedding=1, filters=1, widths=(2,), recurrent=2)
        cell = "lstm" if kind == "bilstm" else "gru"
        encoder = WordEncoder(("a",), 1, True, characters, cell, hidden=1)  # type: ignore[assignment]
    tagger = Tagger(encoder, sets, decoder)  # type: ignore[arg-type]
    one = Sentence(("a", "ab", "b"), (Span(0, 2, "X"),))
    two = Sentence(("b", "a"), (Span(1, 2, "Y"),))
    store = tagger.store([one, two], [0, 1])
    rows = torch.tensor([[0, -1], [1, -1]])
    return tagger, store.batch(rows, store.widths(rows.numpy()))


@pytest.mark.parametrize("kind", ["bilstm", "bigru", "transformer"])
@each_decoder
def test_gradient_has_a_gradient(kind: str, decoder: str) -> None:
    tagger, batch = smallest(kind, decoder)
    params = tiny.params(tagger, tasks=2)
    seen = {n: p for n, p in params.items() if n != "encoder.characters.table"}

    def run(*values: Tensor) -> Tensor:
        given = params | dict(zip(seen, values, strict=True))
        return tagger.losses(given, batch, ["tag"], Mode(twice=True))["tag"]

    leaves = [p.clone().requires_grad_() for p in seen.values()]
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@each_kind
def test_single_precision_has_second_derivatives_too(kind: str) -> None:
    """Kernels are chosen by precision as well: those of float32 must be the right ones."""
    tagger = tiny.tagger(kind)
    batch = tiny.batch(tagger, tasks=2, rows=2)
    found = []
    for dtype in (torch.float64, torch.float32):
        params = {n: p.to(dtype).requires_grad_() for n, p in tiny.params(tagger, tasks=2).items()}
        leaves = list(params.values())
        loss = tagger.losses(params, batch, ["tag"], Mode(twice=True))["tag"].sum()
        slope = torch.autograd.grad(loss, leaves, create_graph=True, materialize_grads=True)
        steep = torch.stack([g.square().sum() for g in slope]).sum()
        found.append(torch.autograd.grad(steep, leaves, materialize_grads=True))
    for exact, single in zip(*found, strict=True):
        assert (single - exact).norm() <= 1e-3 * exact.norm().clamp(min=1)


@each_kind
@each_decoder
def test_second_derivatives_equal_differences(kind: str, decoder: str) -> None:
    """Along a direction in all parameters, letters and heads included."""
    tagger = tiny.tagger(kind, decoder, heads=("attention", "mcls"))
    batch = tiny.batch(tagger, rows=2)
    params = {n: p.requires_grad_() for n, p in tiny.params(tagger).items()}
    leaves, rng = list(params.values()), torch.Generator().manual_seed(0)
    ways = [torch.randn(p.shape, generator=rng, dtype=p.dtype) for p in leaves]

    def gradient(step: float, graph: bool = False) -> tuple[Tensor, ...]:
        moved = {n: p + step * way for (n, p), way in zip(params.items(), ways, strict=True)}
        losses = tagger.losses(moved, batch, ("tag", "domain", "mcls"), Mode(twice=True))
        total = torch.stack(list(losses.values())).sum()
        return torch.autograd.grad(total, leaves, create_graph=graph, materialize_grads=True)

    slope = gradient(0, graph=True)
    along = torch.stack([(g * way).sum() for g, way in zip(slope, ways, strict=True)]).sum()
    exact = torch.autograd.grad(along, leaves, materialize_grads=True)
    ahead, behind = gradient(1e-5), gradient(-1e-5)
    for name, h, a, b in zip(params, exact, ahead, behind, strict=True):
        assert (h - (a - b) / 2e-5).norm() < 1e-5 * h.norm().clamp(min=1), name
