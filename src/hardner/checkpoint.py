"""A model is a folder: weights in safetensors, ``config.json`` and the caller's files.

A folder is checked whole (`hardner.manifest`) before any of it is used, and written aside and
moved into place. Weights lie in one file, or in as many as keep each small; matrices also in 8
bits. Then a row (the last axis) is whole numbers from -127 to 127 and a scale: what one of them
stands for. A number is changed by half a scale at most.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import hardner
from hardner.errors import FileError, HardnerError
from hardner.files import sha256
from hardner.folders import atomic_folder
from hardner.manifest import (
    CONFIG,
    FLOATS,
    FORMAT,
    OTHERS,
    PLAIN_NAME,
    SCALES,
    VERSION,
    TensorEntry,
    checked_manifest,
    read_manifest,
)

CHECKSUM = "checksum"
_RESERVED = "__metadata__"
"""No tensor's name: safetensors headers use it."""
DTYPES = {name: getattr(torch, name) for name in (*FLOATS, *OTHERS)}
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_SHORTEST_ROW, _SMALLEST_MATRIX = 32, 1 << 14
"""Numbers of a row and of a matrix from which on 8 bits are worth a scale for each row."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a model folder holds."""

    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    files: Mapping[str, bytes]


def save_checkpoint(
    folder: str | Path,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    files: Mapping[str, bytes | str] | None = None,
    *,
    shard_bytes: int | None = None,
    dtype: torch.dtype | Mapping[str, torch.dtype] | None = None,
) -> None:
    """Writes a model folder, whole or not at all; an earlier model there is replaced.

    Args:
        folder: Must be new, empty or a hardner model without foreign files.
        tensors: Weights by name.
        config: Anything JSON can hold.
        files: More files of the folder by name, such as a vocabulary; text is stored as UTF-8.
        shard_bytes: Splits the weights into files of at most so many bytes of numbers.
        dtype: Stores wider floating-point tensors in this type; loading restores their own. With
            ``torch.int8``, matrices in 8 bits with a scale a row, others in half precision. A
            mapping names the type of each tensor that is stored in another one.
    """
    folder, files = Path(folder).resolve(), files or {}
    _check_replaceable(folder)
    for name in files:
        if not PLAIN_NAME.fullmatch(name) or name == CONFIG or name.startswith("weights"):
            raise HardnerError(f"{name!r} cannot be the name of a file in a model folder")
    types = dtype if isinstance(dtype, Mapping) else dict.fromkeys(tensors, dtype)
    entries = {name: _entry(name, tensor, types.get(name)) for name, tensor in tensors.items()}
    stored = chain.from_iterable(_stored(n, tensors[n], entry) for n, entry in entries.items())
    parts = list(cut_shards(stored, shard_bytes)) or [{}]
    shards = dict(zip(shard_names(len(parts)), parts, strict=True))
    contents = {n: c.encode() if isinstance(c, str) else c for n, c in files.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION if any(entry.in_int8 for entry in entries.values()) else 1,
        "hardner": hardner.__version__,
        "config": config,
        "tensors": {name: asdict(entry) for name, entry in entries.items()},
        "weights": {name: list(part) for name, part in shards.items()},
    }
    with atomic_folder(folder) as temporary:
        for name, part in shards.items():
            write_shard(temporary / name, part)
        for name, content in contents.items():
            (temporary / name).write_bytes(content)
        every = [temporary / name for name in (*shards, *contents)]
        manifest["sizes"] = {path.name: path.stat().st_size for path in every}
        manifest["checksums"] = {path.name: sha256(path) for path in every}
        # Last: a folder without it is no model.
        (temporary / CONFIG).write_bytes(_json(manifest))


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Reads a model folder; whatever does not agree with its ``config.json`` is an error."""
    try:
        return _load(Path(folder))
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise FileError(error.filename or folder, message) from None


def _load(folder: Path) -> Checkpoint:
    manifest = checked_manifest(folder)
    cuts: dict[str, list[Tensor]] = {name: [] for name in chain(*manifest.weights.values())}
    for name, expected in manifest.weights.items():
        found = read_shard(folder / name)
        if found.keys() != set(expected):
            odd = sorted(found.keys() ^ set(expected))[0]
            raise FileError(folder / name, f"holds other tensors than {CONFIG} says: {odd}")
        for key, tensor in found.items():
            cuts[key].append(tensor)
    tensors = {}
    for name, entry in manifest.tensors.items():
        tensor, dtype = _joined(folder, name, cuts, entry.stored, entry.shape), DTYPES[entry.dtype]
        if entry.in_int8:
            rows = (prod(entry.shape[:-1]),)
            scales = _joined(folder, name + SCALES, cuts, "float32", rows)
            tensor = dequantise_rows(tensor, scales, dtype)
        tensors[name] = tensor.to(dtype)
    extra = manifest.sizes.keys() - manifest.weights.keys()
    files = {name: (folder / name).read_bytes() for name in sorted(extra)}
    return Checkpoint(tensors, manifest.config, files)


def _entry(name: str, tensor: Tensor, dtype: torch.dtype | None) -> TensorEntry:
    foreign = name == _RESERVED or name.endswith(SCALES) or "\0" in name
    if tensor.dtype not in _DTYPE_NAMES or foreign:
        raise HardnerError(f"tensor {name}: {tensor.dtype} cannot be stored in a model folder")
    stored = tensor.dtype
    if dtype == torch.int8 and not worth_int8(tensor.shape):
        dtype = torch.float16
    if dtype is not None and stored.is_floating_point and stored.itemsize > dtype.itemsize:
        stored = dtype
    return TensorEntry(_DTYPE_NAMES[tensor.dtype], _DTYPE_NAMES[stored], tuple(tensor.shape))


def _stored(name: str, tensor: Tensor, entry: TensorEntry) -> Iterator[tuple[str, Tensor]]:
    """A contiguous tensor as it is stored, and any scales."""
    tensor = tensor.detach().cpu()
    if entry.in_int8:
        numbers, scales = quantise_rows(tensor)
        if not scales.isfinite().all():
            raise HardnerError(f"tensor {name}: a value is too large for int8, or not finite")
        yield from ((name, numbers), (name + SCALES, scales))
        return
    narrow = tensor.to(DTYPES[entry.stored])
    if entry.stored != entry.dtype and not torch.equal(narrow.isfinite(), tensor.isfinite()):
        raise HardnerError(f"tensor {name}: a value is too large for {entry.stored}")
    yield name, narrow.contiguous()


def _json(manifest: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
        return f"{text}\n".encode()
    except (TypeError, ValueError) as error:
        raise HardnerError(f"the model's configuration is not JSON: {error}") from None


def _check_replaceable(folder: Path) -> None:
    if not folder.exists():
        return
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else {CONFIG}
    if not present:
        return
    try:
        known = {CONFIG, *read_manifest(folder).sizes}
    except FileError as error:
        message = f"exists and is not a hardner model; choose another folder ({error})"
        raise FileError(folder, message) from None
    if foreign := sorted(present - known):
        raise FileError(folder, f"holds {foreign[0]}, no part of the model; move it elsewhere")


def with_checksum(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration whose values can be told from others later."""
    return {**config, CHECKSUM: _sum(config)}


def agrees_with_checksum(config: Mapping[str, Any]) -> bool:
    """Whether it holds what it was made with; older ones cannot say otherwise."""
    own = {name: value for name, value in config.items() if name != CHECKSUM}
    return CHECKSUM not in config or config[CHECKSUM] == _sum(own)


def _sum(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _joined(
    folder: Path, name: str, cuts: Mapping[str, list[Tensor]], stored: str, shape: tuple[int, ...]
) -> Tensor:
    """A tensor as it is stored, from what lies of it in each file."""
    tensor = cuts[name][0]
    if len(cuts[name]) > 1:
        tensor = torch.cat([cut.flatten() for cut in cuts[name]])
        tensor = tensor.view(shape) if tensor.numel() == prod(shape) else tensor
    found = (_DTYPE_NAMES.get(tensor.dtype), tuple(tensor.shape))
    if found != (stored, shape):
        raise FileError(folder, f"tensor {name} is {found}, {CONFIG} says {(stored, shape)}")
    return tensor


def cut_shards(
    tensors: Iterable[tuple[str, Tensor]], shard_bytes: int | None
) -> Iterator[dict[str, Tensor]]:
    """Fill files in the order of the tensors; a tensor larger than a file is cut."""
    shard: dict[str, Tensor] = {}
    used = 0
    for name, tensor in tensors:
        cuts: Sequence[Tensor] = (tensor,)
        if shard_bytes is not None and tensor.nbytes > shard_bytes and tensor.dim():
            most, flat = max(1, shard_bytes // tensor.itemsize), tensor.flatten()
            room = (shard_bytes - used) // tensor.itemsize if shard else most
            first = (flat[:room],) if 0 < room < most else ()  # fills the file that is begun
            cuts = (*first, *torch.split(flat[room:] if first else flat, most))
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


def write_shard(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file, straight from where they are; those that share memory as copies."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        held = tensor.untyped_storage()
        alone = held.nbytes() == tensor.nbytes and held.data_ptr() not in seen
        seen.add(held.data_ptr())
        apart[name] = tensor if alone else tensor.clone()
    path.touch()
    usual = path.stat().st_mode
    try:
        save_file(apart, path)
    except SafetensorError as error:  # of a full disk, say
        if code := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
        raise
    path.chmod(usual)  # safetensors lets none but the owner read it


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
