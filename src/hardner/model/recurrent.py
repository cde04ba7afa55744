"""LSTM and GRU in both directions, in three kernels that compute the same.

* ``torch``: torch's fused layer, one task after another: the fastest on a CPU;
* ``scan``: all tasks and both directions as one batched product a step, with a gradient whose
  weight part is a single product over all steps: the fastest on a GPU, and capturable there;
* ``plain``: the same steps left to autograd, so that the gradient has a gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hardner.model.layers import Mode, Params, mask_of, uniform
from hardner.model.scan import scan_gru, scan_lstm

CellKind = Literal["lstm", "gru"]
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
SHUT = -1e4
"""Added to a gate, it closes it whatever else is added."""
_GATES: dict[str, int] = {"lstm": 4, "gru": 3}


@dataclass(frozen=True)
class BiRecurrent:
    """A recurrent layer read in both directions; weights as in `torch.nn.LSTM` and `GRU`."""

    cell: CellKind
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
        return KERNELS[choose_kernel(params, x, mode)](self.cell, params, x, lengths)


def ends_of(states: Tensor, lengths: Tensor) -> Tensor:
    """Each direction's state where it has read all: [M, B, T, 2H] and [M, B] -> [M, B, 2H]."""
    size = states.shape[-1] // 2
    last = (lengths - 1).clamp(min=0)[..., None, None].expand(-1, -1, 1, size)
    return torch.cat((states[..., :size].gather(2, last).squeeze(2), states[:, :, 0, size:]), -1)


def choose_kernel(params: Params, x: Tensor, mode: Mode) -> str:
    """The fastest kernel that can give what is asked, on the device at hand."""
    if mode.twice:
        return "plain"
    on_cpu = x.device.type == "cpu" and hasattr(torch, "lstm") and hasattr(torch, "gru")
    return "torch" if on_cpu else "scan"  # the scan is right anywhere


def _torch(cell: CellKind, params: Params, x: Tensor, lengths: Tensor) -> Tensor:
    run: Callable[..., Any] = torch.lstm if cell == "lstm" else torch.gru
    size = params["weight_hh"].shape[-1]
    # Padding is one more input feature, whose weight shuts the gates.
    padding = ~mask_of(lengths, x.shape[2]).unsqueeze(-1)
    x = torch.cat((x, padding.to(x.dtype)), dim=-1)  # [M, B, T, I + 1]
    shut = _shut(cell, size, x)[:, None].expand(*params["weight_ih"].shape[:-1], 1)
    weights = [torch.cat((params["weight_ih"], shut), dim=-1), *(params[n] for n in WEIGHTS[1:])]
    shape = x.shape[:-1]
    if weights[0].shape[0] == 1:  # shared weights: all tasks are one
        x = x.flatten(0, 1).unsqueeze(0)
    zero = x.new_zeros(2, x.shape[1], size)
    state = (zero, zero) if cell == "lstm" else zero
    # Taking all slices at once: the gradient of a single one would be as large as the whole.
    slices = [w.flatten(0, 1).unbind(0) for w in weights]
    outs = []
    for task, inputs in enumerate(x.unbind(0)):
        flat = [w[2 * task + direction] for direction in range(2) for w in slices]
        outs.append(run(inputs, state, flat, True, 1, 0.0, True, True, True)[0])
    return torch.stack(outs).view(*shape, -1)  # [M, B, T, 2H]


def _shut(cell: CellKind, size: int, like: Tensor) -> Tensor:
    """What, added to the gates, lets a state of zero stay zero: [R].

    LSTM: the input gate lets nothing in. GRU: the update gate keeps the old state. With the gates
    shut at the padding, the second direction arrives at a row's last word as if it began there.
    """
    shut = like.new_zeros(_GATES[cell] * size)
    if cell == "lstm":
        shut[:size] = SHUT
    else:
        shut[size : 2 * size] = -SHUT
    return shut


def _gates(cell: CellKind, params: Params, x: Tensor, lengths: Tensor) -> Tensor:
    """The inputs' share of all gates, step first: [T, M, 2, B, R].

    The second direction is read from the end of the row, where the padding shuts its gates.
    """
    tasks, rows, width, inputs = x.shape
    # A GRU's recurrent bias stands inside the reset gate and cannot be added here.
    bias = params["bias_ih"] + (params["bias_hh"] if cell == "lstm" else 0)  # [M|1, 2, R]
    weight = params["weight_ih"].expand(tasks, *params["weight_ih"].shape[1:])
    flat = x.transpose(1, 2).reshape(tasks, width * rows, inputs)  # [M, T*B, I]
    bias = bias.flatten(1).unsqueeze(1).expand(tasks, -1, -1)
    out = torch.baddbmm(bias, flat, weight.flatten(1, 2).transpose(1, 2))  # [M, T*B, 2R]
    there, back = out.view(tasks, width, rows, 2, -1).unbind(3)  # [M, T, B, R] each
    padding = ~mask_of(lengths, width).transpose(1, 2).unsqueeze(-1)  # [M, T, B, 1]
    back = (back + padding * _shut(cell, params["weight_hh"].shape[-1], x)).flip(1)
    return torch.stack((there.transpose(0, 1), back.transpose(0, 1)), dim=2)


def _forwards(states: Tensor) -> Tensor:
    """The states of both directions side by side: [T, M, 2, B, H] -> [M, B, T, 2H]."""
    there, back = states[:, :, 0], states[:, :, 1].flip(0)
    return torch.cat((there, back), dim=-1).permute(1, 2, 0, 3)


def _plain(cell: CellKind, params: Params, x: Tensor, lengths: Tensor) -> Tensor:
    gates = _gates(cell, params, x, lengths).flatten(1, 2)  # [T, G, B, R] for G = 2M
    weight, bias = (
        params[n].expand(x.shape[0], *params[n].shape[1:]).flatten(0, 1)
        for n in ("weight_hh", "bias_hh")
    )
    weight, bias = weight.transpose(1, 2), bias.unsqueeze(1)  # [G, H, R], [G, 1, R]
    hidden = gates.new_zeros(*gates.shape[1:3], weight.shape[1])  # [G, B, H]
    memory, states = hidden, []
    for step in gates.unbind(0):
        if cell == "lstm":
            hidden, memory = _lstm_cell(torch.baddbmm(step, hidden, weight), memory)
        else:
            hidden = _gru_cell(step, torch.baddbmm(bias, hidden, weight), hidden)
        states.append(hidden)
    return _forwards(torch.stack(states).unflatten(1, (x.shape[0], 2)))


def _lstm_cell(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, dim=-1)
    memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    return o.sigmoid() * memory.tanh(), memory


def _gru_cell(inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    ri, zi, ni = inputs.chunk(3, dim=-1)
    rh, zh, nh = recurrent.chunk(3, dim=-1)
    n = (ni + (ri + rh).sigmoid() * nh).tanh()
    return n + (zi + zh).sigmoid() * (hidden - n)


def _scan(cell: CellKind, params: Params, x: Tensor, lengths: Tensor) -> Tensor:
    gates = _gates(cell, params, x, lengths)
    if cell == "lstm":
        return _forwards(scan_lstm(gates, params["weight_hh"]))
    return _forwards(scan_gru(gates, params["weight_hh"], params["bias_hh"]))


KERNELS: dict[str, Callable[[CellKind, Params, Tensor, Tensor], Tensor]] = {
    "torch": _torch,
    "scan": _scan,
    "plain": _plain,
}
