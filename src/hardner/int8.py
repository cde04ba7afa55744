"""Matrices in 8 bits: whole numbers from -127 to 127, and for each row what one of them stands for.

A row is the last axis. Half a scale is the most by which a number is changed.
"""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

SCALES = "@scales"
"""How the names of scales end, behind the name of their matrix; no other tensor's may."""
HIGHEST = 127
SHORTEST, FEWEST = 32, 1 << 14
"""Numbers of a row and of a whole matrix from which on 8 bits are worth a scale for each row."""


def worth_int8(shape: Sequence[int]) -> bool:
    """Whether a tensor is a matrix, and large enough; leading axes are rows too."""
    return prod(shape) >= FEWEST and shape[-1] >= SHORTEST and prod(shape[:-1]) > 1


def quantise(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The whole numbers, [..., N], and the scales of all rows, [R]; not finite if a number is not.

    A row of zeros, or of numbers next to none, has the smallest scale that divides well.
    """
    rows = tensor.to(_wide(tensor.dtype)).contiguous().flatten(0, -2)  # [..., N] -> [R, N]
    scales = (rows.abs().amax(1) / HIGHEST).float()  # [R]
    scales.clamp_min_(torch.finfo(torch.float32).tiny)
    numbers = (rows / scales[:, None]).round().to(torch.int8)
    return numbers.view(tensor.shape), scales


def dequantise(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """What `quantise` was given, nearly."""
    rows = numbers.to(_wide(dtype)).flatten(0, -2)  # [..., N] -> [R, N]
    return rows.mul_(scales[:, None]).view(numbers.shape).to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
