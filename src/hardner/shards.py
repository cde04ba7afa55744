"""Weight files: safetensors, one or as many as it takes to keep each small."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from hardner.errors import FileError

LARGEST_HEADER = 100_000_000
"""The safetensors format's own limit, in bytes."""


def cut(
    tensors: Iterable[tuple[str, Tensor]], shard_bytes: int | None
) -> Iterator[dict[str, Tensor]]:
    """Fills files in the order of the tensors; one larger than a file is cut.

    Two cuts of a tensor never meet in a file: a full cut leaves no room for another.
    """
    shard: dict[str, Tensor] = {}
    used = 0
    for name, tensor in tensors:
        for piece in _pieces(tensor, shard_bytes):
            if shard and shard_bytes is not None and used + piece.nbytes > shard_bytes:
                yield shard
                shard, used = {}, 0
            shard[name] = piece
            used += piece.nbytes
    if shard:
        yield shard


def _pieces(tensor: Tensor, shard_bytes: int | None) -> tuple[Tensor, ...]:
    if shard_bytes is None or tensor.nbytes <= shard_bytes or not tensor.dim():
        return (tensor,)
    return torch.split(tensor.flatten(), max(1, shard_bytes // tensor.itemsize))


def shard_names(count: int) -> list[str]:
    """Of so many files."""
    if count == 1:
        return ["weights.safetensors"]
    return [f"weights-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]


def read_shard(path: Path) -> dict[str, Tensor]:
    """The tensors, or cuts of them, in a file."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise FileError(path, f"damaged weights: {error}") from None


def check_header(path: Path, size: int) -> None:
    """A safetensors file opens with the length of its JSON header, then the header."""
    with path.open("rb") as stream:
        start = stream.read(9)
    length = int.from_bytes(start[:8], "little")
    if start[8:] == b"{" and length <= min(size - 8, LARGEST_HEADER):
        return
    if start.startswith((b"PK", b"\x80")):
        raise FileError(path, "a pickle, not safetensors; it could run code and is not read")
    raise FileError(path, f"damaged weights: a header of {length} bytes in a file of {size}")
