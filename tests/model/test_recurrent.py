"""LSTM and GRU against torch.nn, kernel against kernel, many tasks against one."""

import pytest
import torch
from torch import nn

from hardner.model.layers import Mode, Params, mask_of
from hardner.model.recurrent import KERNELS, BiRecurrent

CELLS = ("lstm", "gru")
RNG = torch.Generator().manual_seed(3)


def layer(cell: str, inputs: int = 5, size: int = 4, tasks: int = 1) -> tuple[BiRecurrent, Params]:
    net = BiRecurrent(cell, inputs, size)  # type: ignore[arg-type]
    params = [{k: v.double() for k, v in net.init(RNG).items()} for _ in range(tasks)]
    return net, {k: torch.cat([p[k] for p in params]) for k in params[0]}


@pytest.mark.parametrize("cell", CELLS)
def test_equals_torch_on_rows_of_different_lengths(cell: str) -> None:
    net, params = layer(cell)
    lengths = torch.tensor([[6, 1, 3, 0]])
    x = torch.randn(1, 4, 6, 5, dtype=torch.float64, generator=RNG)
    ours = net(params, x, lengths, Mode())

    peer = (nn.LSTM if cell == "lstm" else nn.GRU)(5, 4, batch_first=True, bidirectional=True)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    state = {f"{n}_l0{'_reverse' if d else ''}": params[n][0, d] for n in names for d in range(2)}
    peer.double().load_state_dict(state)
    for row, length in enumerate(lengths[0].tolist()):
        if length:
            expected = peer(x[0, row : row + 1, :length])[0]
            torch.testing.assert_close(ours[0, row : row + 1, :length], expected)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kind", ["shared", "own", "expanded"])
@pytest.mark.parametrize("kernel", ["scan", "plain"])
def test_kernels_agree_in_value_and_gradient(cell: str, kind: str, kernel: str) -> None:
    _, params = layer(cell, tasks=3 if kind == "own" else 1)
    x = torch.randn(3, 2, 4, 5, dtype=torch.float64, generator=RNG)
    lengths = torch.tensor([[4, 2], [0, 3], [1, 4]])
    weights = torch.randn(3, 2, 4, 8, dtype=torch.float64, generator=RNG)
    weights *= mask_of(lengths, 4).unsqueeze(-1)

    def run(name: str) -> list[torch.Tensor]:
        given = [p.expand(3, *p.shape[1:]) if kind == "expanded" else p for p in params.values()]
        leaves = [leaf.detach().requires_grad_() for leaf in (x, *given)]
        out = KERNELS[name](cell, dict(zip(params, leaves[1:], strict=True)), leaves[0], lengths)
        value = (out * weights).sum()
        filled = out * mask_of(lengths, 4).unsqueeze(-1)
        return [filled, *torch.autograd.grad(value, leaves)]

    for ours, expected in zip(run(kernel), run("torch"), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_tasks_side_by_side_equal_one_after_another(cell: str) -> None:
    net, params = layer(cell, tasks=3)
    x = torch.randn(3, 2, 5, 5, dtype=torch.float64, generator=RNG)
    lengths = torch.tensor([[5, 2], [1, 4], [3, 3]])
    together = net(params, x, lengths, Mode(twice=True))
    for task in range(3):
        one = {k: v[task : task + 1] for k, v in params.items()}
        alone = net(one, x[task : task + 1], lengths[task : task + 1], Mode())
        there = mask_of(lengths[task : task + 1], 5).unsqueeze(-1)
        ours = together[task : task + 1] * there
        torch.testing.assert_close(ours, alone * there, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_gradient_has_a_gradient(cell: str) -> None:
    net, params = layer(cell, inputs=2, size=2)
    x = torch.randn(1, 2, 3, 2, dtype=torch.float64, generator=RNG)
    lengths = torch.tensor([[3, 2]])

    def run(*values: torch.Tensor) -> torch.Tensor:
        return net(dict(zip(params, values, strict=True)), x, lengths, Mode(twice=True))

    leaves = [p.clone().requires_grad_() for p in params.values()]
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves)
