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
    linear_in_blocks,
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


def test_random_numbers_of_its_own_drop_a_share_and_repeat_themselves() -> None:
    x = torch.ones(1, 99_999)
    for share in (0.1, 0.5):
        one, again, other = (
            dropout(x, Mode(share, generator=torch.Generator().manual_seed(seed)))
            for seed in (1, 1, 2)
        )
        assert float((one == 0).double().mean()) == pytest.approx(share, abs=0.01)
        assert float(one.mean()) == pytest.approx(1, abs=0.02)
        assert torch.equal(one, again) and not torch.equal(one, other)
        both = float(((one == 0) & (one.roll(1) == 0)).double().mean())
        assert both == pytest.approx(share**2, abs=0.01)  # neighbours are of one draw


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


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 16), (1, 3, 11), (1, 7, 200), (1, 2, 512)])
def test_blocks_are_one_product(shape: tuple[int, int, int]) -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, 8, generator=rng)
    weight, bias = torch.randn(1, 5, 8, generator=rng), torch.randn(1, 5, generator=rng)
    expected = functional.linear(x.double(), weight[0].double(), bias[0].double())
    torch.testing.assert_close(linear_in_blocks(x, weight, bias), expected.float())
    halved = linear_in_blocks(x, weight.bfloat16(), bias.bfloat16())
    assert halved.dtype == torch.bfloat16
    torch.testing.assert_close(halved, expected.bfloat16(), rtol=0.02, atol=0.05)


def test_blocks_are_of_a_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What oneDNN keeps for each size of a product would be hundreds of megabytes."""
    seen, multiply = set(), torch.addmm

    def addmm(bias: Tensor, x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        seen.add(len(x))
        return multiply(bias, x, weight, out=out)

    monkeypatch.setattr(torch, "addmm", addmm)
    weight, bias = torch.zeros(1, 2, 3), torch.zeros(1, 2)
    for rows in range(1, 2000):
        assert linear_in_blocks(torch.zeros(1, rows, 3), weight, bias).shape == (1, rows, 2)
    assert len(seen) <= 16
