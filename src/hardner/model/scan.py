"""Recurrences over many tasks at once, with gradients written by hand.

A step is one batched product and one fused cell. The gradient walks back in the same way and
leaves the weights' gradient to a single product over all steps. Once differentiable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

aten = torch.ops.aten


def scan_lstm(gates: Tensor, weight: Tensor) -> Tensor:
    """gates [T, M, 2, B, 4H] (of the inputs), weight [M|1, 2, 4H, H] -> states [T, M, 2, B, H]."""
    layout = _Groups.of(gates, weight)
    states: Tensor = _Lstm.apply(layout.fold(gates), weight, layout)  # type: ignore[no-untyped-call]
    return layout.unfold(states)


def scan_gru(gates: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `scan_lstm` with 3H for 4H, and the recurrent bias [M|1, 2, 3H]."""
    layout = _Groups.of(gates, weight)
    states: Tensor = _Gru.apply(layout.fold(gates), weight, bias, layout)  # type: ignore[no-untyped-call]
    return layout.unfold(states)


@dataclass(frozen=True)
class _Groups:
    """How tasks and directions are laid into groups of rows that share a weight.

    Where all tasks have the same weight (there is one, or an expanded view of one), the tasks'
    rows stand together in two groups, one a direction; their gradients are still each task's own.
    """

    tasks: int
    rows: int
    shared: bool
    axis: int
    """The tasks of the weight: 1 if a single gradient is wanted."""

    @classmethod
    def of(cls, gates: Tensor, weight: Tensor) -> "_Groups":
        tasks, rows = gates.shape[1], gates.shape[3]
        axis = weight.shape[0]
        return cls(tasks, rows, axis < tasks or (axis > 1 and weight.stride(0) == 0), axis)

    def fold(self, x: Tensor) -> Tensor:
        """[T, M, 2, B, R] -> [T, 2, M*B, R] if shared, else [T, 2M, B, R]."""
        return x.transpose(1, 2).flatten(2, 3) if self.shared else x.flatten(1, 2)

    def unfold(self, x: Tensor) -> Tensor:
        """The inverse of `fold`."""
        if self.shared:
            return _split(x, 2, self.tasks).transpose(1, 2)
        return _split(x, 1, self.tasks)

    def weights(self, weight: Tensor) -> Tensor:
        """[M|1, 2, R, H] -> [G, R, H]."""
        return weight[0] if self.shared else weight.flatten(0, 1)

    def weight_gradient(self, hiddens: Tensor, grads: Tensor) -> Tensor:
        """Sum over steps and rows: [T, G, N, H], [T, G, N, R] -> [M|1, 2, R, H]."""
        if self.shared and self.axis > 1:
            hiddens, grads = (self.unfold(x).flatten(1, 2) for x in (hiddens, grads))
        groups = hiddens.shape[1]
        h, g = (x.transpose(0, 1).reshape(groups, -1, x.shape[-1]) for x in (hiddens, grads))
        return _split(torch.bmm(g.transpose(1, 2), h), 0, groups // 2)

    def bias_gradient(self, grads: Tensor) -> Tensor:
        """Sum over steps and rows: [T, G, N, R] -> [M|1, 2, R]."""
        if self.shared and self.axis > 1:
            grads = self.unfold(grads).flatten(1, 2)
        return _split(grads.sum((0, 2)), 0, grads.shape[1] // 2)


def _split(x: Tensor, dim: int, parts: int) -> Tensor:
    """One axis as two, the first of them of that length."""
    return x.view(*x.shape[:dim], parts, x.shape[dim] // parts, *x.shape[dim + 1 :])


class _Lstm(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, layout: _Groups) -> Tensor:
        ways = layout.weights(weight).transpose(1, 2)  # [G, H, 4H]
        hidden = gates.new_zeros(*gates.shape[1:3], ways.shape[1])  # [G, N, H]
        memory = hidden
        hiddens, memories, kept = [hidden], [memory], []
        fused = has_fused_cells(gates.device)
        for step in gates.unbind(0):
            hidden, memory, gate = _lstm_forward(step, torch.bmm(hidden, ways), memory, fused)
            hiddens.append(hidden)
            memories.append(memory)
            kept.append(gate)
        stacked = torch.stack(hiddens)  # [T + 1, G, N, H]
        ctx.layout, ctx.fused = layout, fused
        ctx.save_for_backward(stacked, weight, *memories, *kept)
        return stacked[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        hiddens, weight, *saved = ctx.saved_tensors
        steps = grad.shape[0]
        memories, kept = saved[: steps + 1], saved[steps + 1 :]
        back = ctx.layout.weights(weight).to(grad.dtype)  # [G, 4H, H]
        flow = grad.clone(memory_format=torch.contiguous_format)  # steps add to it in place
        dh, dc = flow[-1], torch.zeros_like(hiddens[0])
        grads: list[Tensor] = []
        for t in range(steps - 1, -1, -1):
            dgates, dc = _lstm_backward(dh, dc, memories[t], memories[t + 1], kept[t], ctx.fused)
            grads.append(dgates)
            if t:
                dh = flow[t - 1].baddbmm_(dgates, back)
        dgates = torch.stack(grads[::-1])  # [T, G, N, 4H]
        return dgates, ctx.layout.weight_gradient(hiddens[:-1], dgates), None


class _Gru(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, layout: _Groups) -> Tensor:
        ways = layout.weights(weight).transpose(1, 2)  # [G, H, 3H]
        own = (bias[0] if layout.shared else bias.flatten(0, 1)).unsqueeze(1)  # [G, 1, 3H]
        hidden = gates.new_zeros(*gates.shape[1:3], ways.shape[1])  # [G, N, H]
        hiddens, kept = [hidden], []
        fused = has_fused_cells(gates.device)
        for step in gates.unbind(0):
            hidden, gate = _gru_forward(step, torch.baddbmm(own, hidden, ways), hidden, fused)
            hiddens.append(hidden)
            kept.append(gate)
        stacked = torch.stack(hiddens)  # [T + 1, G, N, H]
        ctx.layout, ctx.fused = layout, fused
        ctx.save_for_backward(stacked, weight, *kept)
        return stacked[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hiddens, weight, *kept = ctx.saved_tensors
        layout: _Groups = ctx.layout
        back = layout.weights(weight).to(grad.dtype)  # [G, 3H, H]
        # The state's gradient gathers along the way back; the weights' is taken once, at the end.
        dh = torch.zeros_like(hiddens[0])
        outer: list[Tensor] = []  # gradients of the input side
        inner: list[Tensor] = []  # gradients of the recurrent side
        for t in range(grad.shape[0] - 1, -1, -1):
            dinput, drecurrent, dh = _gru_backward(grad[t] + dh, kept[t], ctx.fused)
            outer.append(dinput)
            inner.append(drecurrent)
            dh = dh.baddbmm_(drecurrent, back)
        dgates, recurrent = torch.stack(outer[::-1]), torch.stack(inner[::-1])  # [T, G, N, 3H]
        dweight = layout.weight_gradient(hiddens[:-1], recurrent)
        return dgates, dweight, layout.bias_gradient(recurrent), None


# The cells. A GPU's torch has each as one fused kernel, forwards and backwards, but under private
# names, which may change or go with any version.


@cache
def has_fused_cells(device: torch.device) -> bool:
    """Whether torch has its fused cells there, and they find what the plain steps find.

    They are tried once a device, before any CUDA graph is captured.
    """
    rng = torch.Generator().manual_seed(0)

    def draw(width: int) -> Tensor:
        return torch.randn(1, 2, width, generator=rng).to(device)

    cells: tuple[tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]], ...] = (
        (_lstm_forward, [draw(12), draw(12), draw(3)]),
        (_lstm_backward, [draw(3), draw(3), draw(3), draw(3), draw(12).sigmoid()]),
        (_gru_forward, [draw(9), draw(9), draw(3)]),
        (_gru_backward, [draw(3), draw(15).sigmoid()]),
    )
    try:
        return all(
            torch.allclose(ours, plain, rtol=1e-3, atol=1e-4)
            for cell, given in cells
            for ours, plain in zip(cell(*given, True), cell(*given, False), strict=True)
        )
    except (AttributeError, TypeError, ValueError, RuntimeError):  # gone, or called otherwise
        return False


def _flat(*tensors: Tensor) -> list[Tensor]:
    return [t.flatten(0, -2) for t in tensors]


def _lstm_forward(
    inputs: Tensor, recurrent: Tensor, memory: Tensor, fused: bool
) -> tuple[Tensor, ...]:
    """The new state and memory [G, B, H], and the opened gates [G, B, 4H]."""
    if fused:
        out = aten._thnn_fused_lstm_cell(*_flat(inputs, recurrent, memory))
        return tuple(v.view(*inputs.shape[:-1], -1) for v in out)
    i, f, g, o = (inputs + recurrent).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    memory = f * memory + i * g
    return o * memory.tanh(), memory, torch.cat((i, f, g, o), dim=-1)


def _lstm_backward(
    dh: Tensor, dc: Tensor, before: Tensor, after: Tensor, kept: Tensor, fused: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of the gates [G, B, 4H] and of the memory before the step [G, B, H]."""
    if fused:
        flat = _flat(dh, dc, before, after, kept)
        dgates, dmemory, _ = aten._thnn_fused_lstm_cell_backward_impl(*flat, False)
        return dgates.view_as(kept), dmemory.view_as(dh)
    i, f, g, o = kept.chunk(4, dim=-1)
    squashed = after.tanh()
    dc = dc + dh * o * (1 - squashed * squashed)
    parts = (
        dc * g * i * (1 - i),
        dc * before * f * (1 - f),
        dc * i * (1 - g * g),
        dh * squashed * o * (1 - o),
    )
    return torch.cat(parts, dim=-1), dc * f


def _gru_forward(
    inputs: Tensor, recurrent: Tensor, hidden: Tensor, fused: bool
) -> tuple[Tensor, Tensor]:
    """The new state [G, B, H] and what its gradient needs [G, B, 5H]: r, z, n, old state, R_n h."""
    if fused:
        state, kept = aten._thnn_fused_gru_cell(*_flat(inputs, recurrent, hidden))
        return state.view_as(hidden), kept.view(*inputs.shape[:-1], -1)
    ri, zi, ni = inputs.chunk(3, dim=-1)
    rh, zh, nh = recurrent.chunk(3, dim=-1)
    r, z = (ri + rh).sigmoid(), (zi + zh).sigmoid()
    n = (ni + r * nh).tanh()
    return n + z * (hidden - n), torch.cat((r, z, n, hidden, nh), dim=-1)


def _gru_backward(dh: Tensor, kept: Tensor, fused: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input side, of the recurrent side [G, B, 3H] and of the old state."""
    if fused:
        out = aten._thnn_fused_gru_cell_backward(*_flat(dh, kept), False)
        dinput, drecurrent, dold = (v.view(*dh.shape[:-1], -1) for v in out[:3])
        return dinput, drecurrent, dold
    r, z, n, old, nh = kept.chunk(5, dim=-1)
    dn = dh * (1 - z) * (1 - n * n)
    dr, dz = dn * nh * r * (1 - r), dh * (old - n) * z * (1 - z)
    return torch.cat((dr, dz, dn), dim=-1), torch.cat((dr, dz, dn * r), dim=-1), dh * z
