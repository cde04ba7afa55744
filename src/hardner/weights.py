"""Tensors in safetensors files, one or as many as keep each small; matrices also in 8 bits.

In 8 bits, a row (the last axis) is whole numbers from -127 to 127 and a scale: what one of them
stands for. A number is changed by half a scale at most.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from hardner.errors import FileError

_SHORTEST_ROW, _SMALLEST_MATRIX = 32, 1 << 14
"""Numbers of a row and of a matrix from which on 8 bits are worth a scale for each row."""


def cut_shards(
    tensors: Iterable[tuple[str, Tensor]], shard_bytes: int | None
) -> Iterator[dict[str, Tensor]]:
    """Fill files in the order of the tensors; a tensor larger than a file is cut."""
    shard: dict[str, Tensor] = {}
    used = 0
    for name, tensor in tensors:
        cuts: Sequence[Tensor] = (tensor,)
        if shard_bytes is not None and tensor.nbytes > shard_bytes and tensor.dim():
            cuts = torch.split(tensor.flatten(), max(1, shard_bytes // tensor.itemsize))
        for cut in cuts:
            # Two cuts of a tensor never meet in a file: a full cut leaves no room for another.
            if shard and shard_bytes is not None and used + cut.nbytes > shard_bytes:
                yield shard
                shard, used = {}, 0
            shard[name] = cut
            used += cut.nbytes
    if shard:
        yield shard


def shard_names(count: int) -> list[str]:
    """The names of this many files."""
    if count == 1:
        return ["weights.safetensors"]
    return [f"weights-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]


def read_shard(path: Path) -> dict[str, Tensor]:
    """The tensors, or cuts of them, in a file."""
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise FileError(path, f"damaged weights: {error}") from None
    # Tensors are mapped from the file, and Windows does not replace a file in use.
    return {n: t.clone() for n, t in found.items()} if sys.platform == "win32" else found


def worth_int8(shape: Sequence[int]) -> bool:
    """Whether a tensor is a matrix, and large enough; leading axes are rows too."""
    rows = prod(shape[:-1])
    return rows > 1 and shape[-1] >= _SHORTEST_ROW and prod(shape) >= _SMALLEST_MATRIX


def quantise_rows(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The whole numbers, [..., N], and the scales, [R]: not finite where a number is not."""
    rows = tensor.to(_wide(tensor.dtype)).contiguous().flatten(0, -2)  # [..., N] -> [R, N]
    scales = (rows.abs().amax(1) / 127).float()  # [R]
    scales.clamp_min_(torch.finfo(torch.float32).tiny)  # a row of zeros divides too
    numbers = (rows / scales[:, None]).round().to(torch.int8)
    return numbers.view(tensor.shape), scales


def dequantise_rows(numbers: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor that `quantise_rows` was given, nearly."""
    rows = numbers.to(_wide(dtype)).flatten(0, -2)  # [..., N] -> [R, N]
    return rows.mul_(scales[:, None]).view(numbers.shape).to(dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
