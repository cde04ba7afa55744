"""The smallest pieces: linear maps, look-ups, norms, how parameters start; device and precision."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError

_BLOCK, _PADDED_ROWS = 512, 32
"""Rows of a product in blocks: of a block, and a divisor of those of the last one."""

Precision = Literal["float32", "bfloat16"]
Params = dict[str, Tensor]
"""Parameters by dotted name; the first word is the part they belong to (encoder, decoder, …)."""


@dataclass(frozen=True)
class Mode:
    """How a forward pass is to be computed."""

    dropout: float = 0.0
    """Share of the features dropped at random; 0 when scoring."""
    twice: bool = False
    """Whether its gradient will be differentiated again: fused kernels cannot do that."""
    among: tuple[int, int] | None = None
    """The first of these tasks and how many there are in all, where others are computed elsewhere:
    random numbers are drawn for all, so that they do not depend on where."""
    generator: torch.Generator | None = None
    """Of the random numbers, where several threads draw some at once; None: torch's own."""


SCORING = Mode()


def part_of(name: str) -> str:
    """The part a parameter belongs to."""
    return name.split(".", 1)[0]


def scoped(params: Mapping[str, Tensor], scope: str) -> Params:
    """The parameters below a dotted name, by the rest of their names."""
    start = scope + "."
    return {name[len(start) :]: value for name, value in params.items() if name.startswith(start)}


def prefixed(scope: str, params: Mapping[str, Tensor]) -> Params:
    """The inverse of `scoped`."""
    return {f"{scope}.{name}": value for name, value in params.items()}


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias`` per task: x [M, ..., I], weight [M|1, O, I], bias [M|1, O]."""
    if weight.shape[0] == 1:  # shared weights: all tasks' rows in one product
        # Not weight[0], whose gradient is written into a tensor of zeros.
        return functional.linear(x, weight.squeeze(0), None if bias is None else bias.squeeze(0))
    if x.shape[0] == 1:
        x = x.expand(weight.shape[0], *x.shape[1:])
    flat = x.reshape(x.shape[0], -1, x.shape[-1])  # [M, N, I]
    out = (
        torch.bmm(flat, weight.transpose(1, 2))
        if bias is None
        else torch.baddbmm(bias.unsqueeze(1), flat, weight.transpose(1, 2))
    )  # [M, N, O]
    return out.view(*x.shape[:-1], weight.shape[1])


def linear_in_blocks(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `linear` with shared weights and no gradient, in the precision of the weights.

    oneDNN keeps a kernel for each number of rows that it has ever met, and batches of text are of
    all sizes: hundreds of megabytes. Blocks are of a few sizes, and as fast.
    """
    rows = x[..., 0].numel()
    flat = x.new_zeros(rows + -rows % _PADDED_ROWS, x.shape[-1], dtype=weight.dtype)
    flat[:rows] = x.reshape(rows, -1)
    out = flat.new_empty(len(flat), weight.shape[1])
    for block, into in zip(flat.split(_BLOCK), out.split(_BLOCK), strict=True):
        torch.addmm(bias[0], block, weight[0].T, out=into)
    return out[:rows].view(*x.shape[:-1], -1)


def embed(ids: Tensor, table: Tensor) -> Tensor:
    """Rows of a table per task: ids [M, ...], table [M|1, V, D] -> [M, ..., D]."""
    if table.shape[0] == 1:
        return functional.embedding(ids, table.squeeze(0))
    # All tables as one, each task's ids shifted to its own: one kernel instead of M.
    tasks, rows, _ = table.shape
    shift = torch.arange(tasks, device=ids.device).mul(rows).view(-1, *[1] * (ids.dim() - 1))
    return functional.embedding(ids + shift, table.flatten(0, 1))


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalise the last axis: x [M, ..., D], weight and bias [M|1, D]."""
    shape = (weight.shape[0], *[1] * (x.dim() - 2), weight.shape[1])
    if weight.shape[0] == 1:
        return functional.layer_norm(x, weight.shape[1:], weight.squeeze(0), bias.squeeze(0))
    return functional.layer_norm(x, weight.shape[1:]) * weight.view(shape) + bias.view(shape)


def dropout(x: Tensor, mode: Mode) -> Tensor:
    """Drop features at random where the mode asks for it."""
    if not mode.dropout:
        return x
    if mode.generator is not None:
        return x * _kept(x, mode.dropout, mode.generator).div_(1 - mode.dropout)
    if mode.among is None:
        return functional.dropout(x.contiguous(), mode.dropout)
    # The mask of all tasks, of which this rank applies its own part.
    first, tasks = mode.among
    scale = functional.dropout(x.new_ones(tasks, *x.shape[1:]), mode.dropout)  # [all M, ...]
    return x * scale[first : first + x.shape[0]]


def _kept(x: Tensor, dropped: float, rng: torch.Generator) -> Tensor:
    """Ones, and zeros for what is dropped: four 16-bit numbers of each draw, as draws are slow."""
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64)
    bits = draws.random_(-(1 << 63), None, generator=rng).view(torch.int16)[: x.numel()]
    return (bits >= round(dropped * (1 << 16)) - (1 << 15)).view(x.shape).to(x.dtype)


def mask_of(lengths: Tensor, width: int) -> Tensor:
    """Which positions are filled: lengths [...] -> bool [..., width]."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(-1)


def mean_of_words(words: Tensor, lengths: Tensor) -> Tensor:
    """The mean vector of each sentence: words [..., T, H], lengths [...] -> [..., H]."""
    there = mask_of(lengths, words.shape[-2]).unsqueeze(-1)
    return (words * there).sum(-2) / lengths.clamp(min=1).unsqueeze(-1)


def uniform(shape: tuple[int, ...], bound: float, rng: torch.Generator) -> Tensor:
    """Uniform in ``[-bound, bound]``, shared by all tasks: [1, *shape]."""
    made = torch.empty(1, *shape)  # where only shapes are asked for, a draw would take seconds
    return made if made.is_meta else made.uniform_(-bound, bound, generator=rng)


def normal(shape: tuple[int, ...], deviation: float, rng: torch.Generator) -> Tensor:
    """Normal around zero, shared by all tasks: [1, *shape]."""
    made = torch.empty(1, *shape)
    return made if made.is_meta else made.normal_(0.0, deviation, generator=rng)


def init_linear(inputs: int, outputs: int, rng: torch.Generator) -> Params:
    """A linear map as `torch.nn.Linear` starts it."""
    bound = 1 / math.sqrt(inputs)
    return {
        "weight": uniform((outputs, inputs), bound, rng),
        "bias": uniform((outputs,), bound, rng),
    }


def mean_over(values: Tensor, there: Tensor) -> Tensor:
    """The mean of what is there, per task: two of [M, ...] -> [M]."""
    weights = there.to(values.dtype).flatten(1)
    return (values.flatten(1) * weights).sum(1) / weights.sum(1).clamp(min=1)


def resolve_device(name: str) -> str:
    """The device to compute on: ``auto`` is ``cuda`` where torch finds a GPU, else ``cpu``.

    ``cpu``, ``cuda`` and ``cuda:1`` and so on stay as they are; what torch does not find here is an
    error.
    """
    gpus = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if gpus else "cpu"
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise HardnerError(f"unknown device {name!r}; it is auto, cpu or cuda")
    if kind == "cuda" and not gpus:
        raise HardnerError(f"device {name}: torch finds no GPU here; choose cpu or auto")
    if number and int(number) >= gpus:
        raise HardnerError(f"device {name}: the GPUs here are cuda:0 to cuda:{gpus - 1}")
    return name


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """What a network's arithmetic is done under; always single precision on a CPU."""
    if precision == "bfloat16" and device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


@cache
def cpu_has_bfloat16() -> bool:
    """Whether this CPU has instructions for products of bfloat16; else they would be slow."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # an older torch cannot say
    known: dict[str, object] = ask() if ask else {}
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def fit_autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """As `autocast`, for fits that a user waits for: on a CPU too, where it is made for it."""
    if precision == "bfloat16" and device.type == "cpu" and cpu_has_bfloat16():
        return torch.autocast("cpu", torch.bfloat16)
    return autocast(precision, device)
