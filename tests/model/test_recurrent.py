"""LSTM and GRU against torch.nn, kernel against kernel, many tasks against one."""

import pytest
import torch
from torch import nn

from hardner.model import scan
from hardner.model.layers import Mode, Params, mask_of
from hardner.model.recurrent import KERNELS, BiRecurrent, choose_kernel

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


class PrivateCells:
    """Torch's private operators as this version's GPU has them, on any device."""

    def __init__(self, error: float = 0.0) -> None:
        self.error = error

    def _thnn_fused_lstm_cell(self, gates, recurrent, memory):
        return scan._lstm_forward(gates + self.error, recurrent, memory, False)

    def _thnn_fused_lstm_cell_backward_impl(self, dh, dc, before, after, kept, has_bias):
        return *scan._lstm_backward(dh, dc, before, after, kept, False), None

    def _thnn_fused_gru_cell(self, gates, recurrent, hidden):
        return scan._gru_forward(gates, recurrent, hidden, False)

    def _thnn_fused_gru_cell_backward(self, dh, kept, has_bias):
        return *scan._gru_backward(dh, kept, False), None, None


class OtherSignature(PrivateCells):
    """One operator takes one more thing than today."""

    def _thnn_fused_gru_cell(self, gates, recurrent, hidden, more):
        raise AssertionError("called with what it does not take")


@pytest.mark.parametrize(
    ("cells", "there"),
    [
        (PrivateCells(), True),
        (PrivateCells(error=0.1), False),
        (OtherSignature(), False),
        (object(), False),
    ],
    ids=["as today", "other numbers", "other signature", "gone"],
)
def test_private_operators_are_used_only_where_they_do_what_plain_steps_do(
    cells: object, there: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    x = torch.randn(2, 3, 4, 5, generator=RNG)
    lengths = torch.tensor([[4, 2, 0], [1, 3, 4]])
    found = {}
    for patched in (False, True):
        if patched:
            monkeypatch.setattr(scan, "aten", cells)
        scan.has_fused_cells.cache_clear()
        request.addfinalizer(scan.has_fused_cells.cache_clear)
        assert scan.has_fused_cells(x.device) == (patched and there)
        rng = torch.Generator().manual_seed(0)
        for cell in CELLS:
            params = BiRecurrent(cell, 5, 4).init(rng)
            leaves = [p.requires_grad_() for p in params.values()]
            out = KERNELS["scan"](cell, params, x, lengths)
            found[cell, patched] = [out, *torch.autograd.grad(out.square().sum(), leaves)]
    for cell in CELLS:
        torch.testing.assert_close(found[cell, True], found[cell, False])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_this_torch_has_fused_cells() -> None:
    assert scan.has_fused_cells(torch.device("cuda", 0))


def test_a_cpu_without_torchs_layers_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    net, params = layer("gru")
    x, lengths = torch.randn(1, 2, 3, 5, generator=RNG).double(), torch.tensor([[3, 1]])
    there = mask_of(lengths, 3).unsqueeze(-1)
    expected = net(params, x, lengths, Mode()) * there
    monkeypatch.delattr(torch, "gru")
    assert choose_kernel(params, x, Mode()) == "scan"
    torch.testing.assert_close(net(params, x, lengths, Mode()) * there, expected)
