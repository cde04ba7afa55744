"""The smallest pieces against torch's, one task at a time."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from hardner.model.layers import (
    Mode,
    dropout,
    embed,
    init_linear,
    layer_norm,
    linear,
    mask_of,
    part_of,
    prefixed,
    scoped,
)

M = 3


def draw(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def close(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [1, M])
@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 4), (0, 4)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear(axis: int, shape: tuple[int, ...], biased: bool) -> None:
    x, weight, bias = draw(M, *shape), draw(axis, 6, 4), draw(axis, 6) if biased else None
    ours = linear(x, weight, bias)
    assert ours.shape == (M, *shape[:-1], 6)
    for task in range(M):
        own = min(task, axis - 1)
        expected = x[task] @ weight[own].T + (bias[own] if bias is not None else 0)
        close(ours[task], expected)


def test_linear_gives_one_input_to_every_task() -> None:
    x, weight, bias = draw(1, 2, 4), draw(M, 6, 4), draw(M, 6)
    close(linear(x, weight, bias), linear(x.expand(M, 2, 4), weight, bias))


@pytest.mark.parametrize("axis", [1, M])
def test_embed(axis: int) -> None:
    ids, table = torch.randint(5, (M, 2, 4)), draw(axis, 5, 3)
    ours = embed(ids, table)
    for task in range(M):
        assert torch.equal(ours[task], table[min(task, axis - 1)][ids[task]])


@pytest.mark.parametrize("axis", [1, M])
def test_layer_norm(axis: int) -> None:
    x, weight, bias = draw(M, 2, 5, 4), draw(axis, 4), draw(axis, 4)
    ours = layer_norm(x, weight, bias)
    for task in range(M):
        own = min(task, axis - 1)
        mean, variance = x[task].mean(-1, True), x[task].var(-1, unbiased=False, keepdim=True)
        close(ours[task], (x[task] - mean) / (variance + 1e-5).sqrt() * weight[own] + bias[own])


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    x = torch.ones(1, 100_000)
    assert dropout(x, Mode()) is x
    dropped = dropout(x, Mode(dropout=0.2))
    assert float((dropped == 0).double().mean()) == pytest.approx(0.2, abs=0.01)
    assert float(dropped.mean()) == pytest.approx(1, abs=0.01)


def test_mask_of() -> None:
    assert mask_of(torch.tensor([[2, 0]]), 3).tolist() == [[[True, True, False], [False] * 3]]


def test_names_have_parts() -> None:
    params = {"encoder.a.b": draw(2), "encoder.c": draw(3), "encoders.d": draw(1)}
    assert set(scoped(params, "encoder")) == {"a.b", "c"}
    assert prefixed("encoder", scoped(params, "encoder")).keys() == {"encoder.a.b", "encoder.c"}
    assert part_of("encoder.a.b") == "encoder"


def test_init_linear_starts_as_torch_does() -> None:
    made = init_linear(400, 300, torch.Generator().manual_seed(0))
    peer = torch.nn.Linear(400, 300)
    for ours, theirs in ((made["weight"], peer.weight), (made["bias"], peer.bias)):
        assert ours.shape == (1, *theirs.shape)
        assert float(ours.abs().max()) <= 1 / 20
        assert float(ours.std()) == pytest.approx(float(theirs.detach().std()), rel=0.1)
    x = torch.randn(1, 2, 400)
    expected = functional.linear(x, made["weight"][0], made["bias"][0])
    torch.testing.assert_close(linear(x, made["weight"], made["bias"]), expected)
