"""Chains of small operations as one kernel each, where many models are computed at once on a GPU.

Each operation of such a chain reads and writes all vectors of all models, and that, not the
products, is then most of the work. `torch.compile` makes one kernel of a chain. It takes seconds,
which pays where many models are fitted and examined and not for one, and its gradient cannot be
differentiated again.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

MANY = 16
"""Models from which on it pays."""


def normed(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """A layer's norm: x [M, N, D], weight and bias [M, D]."""
    plain = functional.layer_norm(x, x.shape[-1:])
    return (plain * weight.unsqueeze(1) + bias.unsqueeze(1)).to(dtype)


def turned(
    mixed: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys turned by their positions, and values.

    mixed [R, P, 3, heads, d], cos and sin [P, d / 2] -> three of [R, heads, P, d]
    """
    q, k, v = mixed.to(cos.dtype).permute(2, 0, 3, 1, 4).unbind()
    return _turn(q, cos, sin).to(dtype), _turn(k, cos, sin).to(dtype), v.to(dtype)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair of features by its position's angle: x [..., P, d]."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


def worth_fusing(x: Tensor, models: int, twice: bool) -> bool:
    """Whether a chain over the vectors of so many models is to be one kernel."""
    return x.is_cuda and models >= MANY and not twice


def products_in(x: Tensor) -> torch.dtype:
    """What the products of vectors are computed in here."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


@cache
def fused(chain: Callable[..., Any]) -> Callable[..., Any]:
    """A chain as one kernel; made when it is first called, for vectors of any sizes."""
    return torch.compile(chain, dynamic=True)
