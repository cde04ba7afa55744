"""Muon against the singular value decomposition and torch's own AdamW and Muon."""

import pytest
import torch
from torch import Tensor

from hardner.meta.optim import MOMENTUM, Muon, orthogonal


def decomposed(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A matrix with singular values from 1 to 40, and the nearest orthogonal one."""
    rng = torch.Generator().manual_seed(seed)
    rank = min(rows, columns)
    u, _, v = torch.linalg.svd(torch.randn(rows, columns, generator=rng), full_matrices=False)
    values = torch.logspace(0, 1.6, rank)[torch.randperm(rank, generator=rng)]
    return u * values @ v, u @ v


@pytest.mark.parametrize("shape", [(24, 24), (16, 48), (48, 16)])
def test_newton_schulz_is_near_the_orthogonal_factor(shape: tuple[int, int]) -> None:
    matrix, nearest = decomposed(*shape)
    found = orthogonal(matrix)
    values = torch.linalg.svdvals(found)
    assert 0.6 < values.min() < values.max() < 1.25
    assert (found - nearest).norm() < 0.3 * nearest.norm()
    assert torch.nn.functional.cosine_similarity(found.flatten(), nearest.flatten(), 0) > 0.97


def test_newton_schulz_takes_many_and_does_not_care_for_scale_or_rotation() -> None:
    one, other = decomposed(12, 20, 1)[0], decomposed(12, 20, 2)[0]
    both = orthogonal(torch.stack((one, 1000 * other)))
    assert torch.allclose(both[0], orthogonal(one), atol=1e-5)
    assert torch.allclose(both[1], orthogonal(other), atol=1e-4)
    turn = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(3)))[0]
    assert torch.allclose(orthogonal(turn @ one), turn @ orthogonal(one), atol=1e-4)


NAMES = {
    "encoder.pieces": (1, 9, 4),
    "encoder.layer0.up.weight": (1, 8, 4),
    "encoder.layer0.up.bias": (1, 8),
    "encoder.layer1.down.weight": (1, 4, 8),
    "encoder.norm.weight": (1, 4),
    "guess.weight": (1, 4, 4),
}
MATRICES = {"encoder.layer0.up.weight", "encoder.layer1.down.weight"}


def numbers(seed: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {n: torch.randn(shape, generator=rng, dtype=torch.float64) for n, shape in NAMES.items()}


def rate(step: int) -> float:
    return 0.01 * (20 - step) / 20


def moved(decay: float) -> Muon:
    optimizer = Muon(numbers(0), decay)
    for step in range(20):
        optimizer.step(numbers(step + 1), rate(step))
    return optimizer


def test_what_is_no_matrix_of_a_layer_takes_the_steps_of_torchs_adamw() -> None:
    decay = 0.1
    expected = {n: torch.nn.Parameter(p) for n, p in numbers(0).items() if n not in MATRICES}
    decayed = [p for p in expected.values() if p.dim() == 3]
    kept = [p for p in expected.values() if p.dim() == 2]
    groups = [
        {"params": decayed, "weight_decay": decay},
        {"params": kept, "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.98), eps=1e-8)
    for step in range(20):
        grads = numbers(step + 1)
        for name, value in expected.items():
            value.grad = grads[name]
        for group in reference.param_groups:
            group["lr"] = rate(step)
        reference.step()
    found = moved(decay).params
    for name, value in expected.items():
        torch.testing.assert_close(found[name].detach(), value.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_matrices_of_layers_take_the_steps_of_torchs_muon() -> None:
    found = moved(0.1).params
    for name in sorted(MATRICES):
        value = torch.nn.Parameter(numbers(0)[name][0])
        reference = torch.optim.Muon(
            [value], weight_decay=0.1, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"
        )
        for step in range(20):
            value.grad = numbers(step + 1)[name][0]
            reference.param_groups[0]["lr"] = rate(step)
            reference.step()
        way = (value - numbers(0)[name][0]).norm()
        assert (found[name][0] - value).norm() < 0.03 * way  # torch's iterates in bfloat16


def test_a_run_in_two_parts_is_the_same_to_the_bit() -> None:
    first = Muon(numbers(0), 0.1)
    for step in range(9):
        first.step(numbers(step + 1), rate(step))
    params = {n: p.detach().clone() for n, p in first.params.items()}
    second = Muon(params, 0.1, {n: t.clone() for n, t in first.state.items()}, first.steps)
    for step in range(9, 20):
        second.step(numbers(step + 1), rate(step))
    whole = moved(0.1)
    assert whole.steps == second.steps == 20
    assert all(torch.equal(p, second.params[n]) for n, p in whole.params.items())
    assert all(torch.equal(t, second.state[n]) for n, t in whole.state.items())
