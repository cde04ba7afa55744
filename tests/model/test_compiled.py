"""Chains that a GPU computes as one kernel: what they say, and that they can be compiled."""

import pytest
import torch
from torch import Tensor

from hardner.model.layers import layer_norm
from hardner.model.transformer import (
    MANY,
    Transformer,
    compiled,
    is_worth_compiling,
    matmul_dtype,
    rotate_heads,
    task_norm,
)


def drawn(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=rng, dtype=torch.float64).requires_grad_()


def test_a_norm_is_that_of_each_model() -> None:
    x, weight, bias = drawn(3, 5, 8), drawn(3, 8), drawn(3, 8)
    found = task_norm(x, weight, bias, torch.float64)
    torch.testing.assert_close(found, layer_norm(x, weight, bias))
    assert task_norm(x, weight, bias, torch.bfloat16).dtype == torch.bfloat16


def test_a_turn_keeps_lengths_and_depends_on_distances_alone() -> None:
    width, size = 7, 6
    same = drawn(1, 1, 3, 2, size).expand(4, width, 3, 2, size)
    q, k, v = rotate_heads(same, *Transformer(1, size, 1, 1).rotation(width, same), torch.float64)
    assert q.shape == k.shape == v.shape == (4, 2, width, size)
    torch.testing.assert_close(v, same[:, :, 2].transpose(1, 2))
    torch.testing.assert_close(q.norm(dim=-1), same[:, :, 0].transpose(1, 2).norm(dim=-1))
    scores = q @ k.transpose(-1, -2)  # [4, 2, width, width]
    for apart in range(-width + 1, width):
        diagonal = scores.diagonal(apart, -2, -1)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal))


@pytest.mark.parametrize("rows", [2, 3])
def test_compiled_chains_say_the_same_with_the_same_slopes(
    rows: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    torch.compiler.reset()
    request.addfinalizer(compiled.cache_clear)
    compile_chain = torch.compile
    monkeypatch.setattr(
        torch,
        "compile",
        lambda chain, dynamic: compile_chain(chain, dynamic=dynamic, backend="aot_eager"),
    )
    compiled.cache_clear()
    x, weight, bias = drawn(rows, 5, 8), drawn(rows, 8), drawn(rows, 8)
    mixed = drawn(rows, 5, 3, 2, 4)
    turns = Transformer(1, 4, 1, 1).rotation(5, mixed)
    for chain, leaves, rest in (
        (task_norm, (x, weight, bias), ()),
        (rotate_heads, (mixed,), turns),
    ):
        ours = compiled(chain)(*leaves, *rest, torch.float64)
        plain = chain(*leaves, *rest, torch.float64)
        torch.testing.assert_close(ours, plain)
        sums = [sum((part**2).sum() for part in _all(found)) for found in (ours, plain)]
        torch.testing.assert_close(*(torch.autograd.grad(total, leaves) for total in sums))


def _all(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_one_model_and_a_cpu_compute_step_by_step() -> None:
    x = torch.zeros(2)
    assert not is_worth_compiling(x, MANY, twice=False)
    assert matmul_dtype(x) == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert matmul_dtype(x) == torch.bfloat16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_makes_one_kernel_for_many_models() -> None:
    x = torch.zeros(2, device="cuda")
    assert is_worth_compiling(x, MANY, twice=False)
    assert not is_worth_compiling(x, MANY - 1, twice=False)
    assert not is_worth_compiling(x, MANY, twice=True)
