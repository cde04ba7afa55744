"""LSTM and GRU in both directions, in three kernels that compute the same.

* ``torch``: torch's fused layer, one task after another: the fastest for one model on a CPU;
* ``scan``: all tasks and both directions as one batched product a step, with a gradient whose
  weight part is a single product over all steps: the fastest otherwise, and capturable on a GPU;
* ``plain``: the same steps left to autograd, so that the gradient has a gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hardner.model.layers import Mode, Params, uniform
from hardner.model.scan import scan_gru, scan_lstm

Cell = Literal["lstm", "gru"]
_GATES: dict[str, int] = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class BiRecurrent:
    """A recurrent layer read in both directions; weights as in `torch.nn.LSTM` and `GRU`."""

    cell: Cell
    inputs: int
    size: int
    """Of one direction; the output is twice as wide."""

    def init(self, rng: torch.Generator) -> Params:
        """Both directions' weights, with a direction axis after the task axis."""
        rows, bound = _GATES[self.cell] * self.size, self.size**-0.5
        return {
            "weight_ih": uniform((2, rows, self.inputs), bound, rng),
            "weight_hh": uniform((2, rows, self.size), bound, rng),
            "bias_ih": uniform((2, rows), bound, rng),
            "bias_hh": uniform((2, rows), bound, rng),
        }

    def __call__(self, params: Params, x: Tensor, lengths: Tensor, mode: Mode) -> Tensor:
        """The states of both directions: x [M, B, T, I], lengths [M, B] -> [M, B, T, 2H]."""
        turn = reversal(lengths, x.shape[2])  # [M, B, T]
        both = torch.stack((x, flip(x, turn)), dim=1)  # [M, 2, B, T, I]
        states = KERNELS[choose_kernel(params, x, mode)](self.cell, params, both)  # [M, 2, B, T, H]
        return torch.cat((states[:, 0], flip(states[:, 1], turn)), dim=-1)


def choose_kernel(params: Params, x: Tensor, mode: Mode) -> str:
    """The fastest kernel that can give what is asked, on the device at hand."""
    if mode.twice:
        return "plain"
    shared = params["weight_hh"].shape[0] == 1
    return "torch" if shared and x.device.type == "cpu" else "scan"


def reversal(lengths: Tensor, width: int) -> Tensor:
    """Positions that turn the filled part of each row round and leave the padding: [..., T]."""
    position = torch.arange(width, device=lengths.device)
    turned = lengths.unsqueeze(-1) - 1 - position
    return torch.where(turned >= 0, turned, position)


def flip(x: Tensor, turn: Tensor) -> Tensor:
    """Reorder the time axis: x [M, B, T, D], turn [M, B, T]."""
    return x.gather(2, turn.unsqueeze(-1).expand_as(x))


def _torch(cell: Cell, params: Params, x: Tensor) -> Tensor:
    run: Callable[..., Any] = torch.lstm if cell == "lstm" else torch.gru
    tasks, _, rows = x.shape[:3]
    weights = [params[name] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    shared = weights[0].shape[0] == 1
    if shared:
        x = x.transpose(0, 1).reshape(1, 2, tasks * rows, *x.shape[3:])
    # Taking all slices at once: the gradient of a single one would be as large as the whole.
    slices = [w.flatten(0, 1).unbind(0) for w in weights]
    zero = x.new_zeros(1, x.shape[2], weights[1].shape[-1])
    state = (zero, zero) if cell == "lstm" else zero
    outs = [
        run(inputs, state, list(flat), True, 1, 0.0, True, False, True)[0]
        for inputs, *flat in zip(x.flatten(0, 1).unbind(0), *slices, strict=True)
    ]
    out = torch.stack(outs).view(x.shape[0], 2, *outs[0].shape)  # [M|1, 2, N, T, H]
    if shared:
        out = out.view(2, tasks, rows, *out.shape[3:]).transpose(0, 1)
    return out


def _steps(cell: Cell, params: Params, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs of all gates, step first, and the recurrent weights: task and direction as one axis.

    Returns ``gates [T, G, B, R]``, ``weight [G, H, R]``, ``bias [G, 1, R]`` for ``G = 2M``; the
    bias is the recurrent one where it must stay apart (GRU), else it is zero and already added.
    """
    tasks, _, rows, width, inputs = x.shape
    axis = params["weight_hh"].shape[0]
    weight_ih, weight_hh, bias_ih, bias_hh = (
        params[n].expand(tasks, *params[n].shape[1:]).flatten(0, 1)
        if axis < tasks
        else params[n].flatten(0, 1)
        for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )  # [G, R, I], [G, R, H], [G, R], [G, R]
    bias = bias_ih + bias_hh if cell == "lstm" else bias_ih
    flat = x.permute(0, 1, 3, 2, 4).reshape(2 * tasks, width * rows, inputs)  # [G, T*B, I]
    gates = torch.baddbmm(bias.unsqueeze(1), flat, weight_ih.transpose(1, 2))
    gates = gates.view(2 * tasks, width, rows, -1).transpose(0, 1)  # [T, G, B, R]
    return gates, weight_hh.transpose(1, 2), bias_hh.unsqueeze(1)


def _unstep(states: Tensor, tasks: int) -> Tensor:
    """[T, G, B, H] -> [M, 2, B, T, H]."""
    steps, _, rows, size = states.shape
    return states.view(steps, tasks, 2, rows, size).permute(1, 2, 3, 0, 4)


def _plain(cell: Cell, params: Params, x: Tensor) -> Tensor:
    gates, weight, bias = _steps(cell, params, x)
    hidden = gates.new_zeros(*gates.shape[1:3], weight.shape[1])  # [G, B, H]
    memory, states = hidden, []
    for step in gates.unbind(0):
        if cell == "lstm":
            hidden, memory = _lstm_cell(torch.baddbmm(step, hidden, weight), memory)
        else:
            hidden = _gru_cell(step, torch.baddbmm(bias, hidden, weight), hidden)
        states.append(hidden)
    return _unstep(torch.stack(states), x.shape[0])


def _lstm_cell(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, dim=-1)
    memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    return o.sigmoid() * memory.tanh(), memory


def _gru_cell(inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    ri, zi, ni = inputs.chunk(3, dim=-1)
    rh, zh, nh = recurrent.chunk(3, dim=-1)
    n = (ni + (ri + rh).sigmoid() * nh).tanh()
    return n + (zi + zh).sigmoid() * (hidden - n)


def _scan(cell: Cell, params: Params, x: Tensor) -> Tensor:
    gates, weight, bias = _steps(cell, params, x)
    states = scan_lstm(gates, weight) if cell == "lstm" else scan_gru(gates, weight, bias)
    return _unstep(states, x.shape[0])


KERNELS: dict[str, Callable[[Cell, Params, Tensor], Tensor]] = {
    "torch": _torch,
    "scan": _scan,
    "plain": _plain,
}
