"""What a model folder says of itself in ``config.json``, and whether its files agree.

It names every other file with its size and checksum and every tensor with its shape, so that a
folder is checked whole before any of it is used. Nothing here needs torch.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from hardner.config import Whole, keys, make
from hardner.errors import FileError, HardnerError
from hardner.files import sha256

CONFIG = "config.json"
FORMAT = "hardner model"
VERSION = 2
"""Of folders with matrices in 8 bits, which the readers of version 1 would misread."""
_LARGEST_CONFIG = _LARGEST_HEADER = 100_000_000
"""Bytes of ``config.json``; of a header it is the safetensors format's own limit."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
FLOATS = ("float64", "float32", "float16", "bfloat16")
OTHERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
SCALES = "@scales"
"""How the names of scales end, behind the name of their matrix; no other tensor's may."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor as it was given and as it is stored."""

    dtype: str
    stored: str
    shape: tuple[Whole, ...]

    @property
    def in_int8(self) -> bool:
        """Whether it is stored in 8 bits, and the scales of its rows beside it."""
        return self.stored == "int8" and self.dtype in FLOATS

    def check(self) -> None:
        """Refuse what no tensor is stored as."""
        if unknown := sorted({self.dtype, self.stored} - {*FLOATS, *OTHERS}):
            raise HardnerError(f"unknown dtype {unknown[0]:.40}")
        floats = {self.dtype, self.stored} <= set(FLOATS)
        if not (self.stored == self.dtype or floats or (self.in_int8 and len(self.shape) > 1)):
            raise HardnerError(f"{self.dtype} of {list(self.shape)} stored as {self.stored}")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ``config.json`` says about the folder."""

    config: Mapping[str, Any]
    tensors: Mapping[str, TensorEntry]
    weights: Mapping[str, tuple[str, ...]]
    """What each weight file holds; a tensor spread over many is their numbers in this order."""
    sizes: Mapping[str, Whole]
    """Bytes of every file but ``config.json``."""
    checksums: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the same files; older folders have none."""


def read_manifest(folder: Path) -> Manifest:
    """What a model folder says of itself."""
    path = folder / CONFIG
    raw = read_config(path)
    if raw.get("format") != FORMAT:
        raise FileError(path, "not the configuration of a hardner model")
    version = raw.get("version")
    if not isinstance(version, int) or version > VERSION:
        message = f"format version {version!r:.40} is newer than {VERSION}"
        raise FileError(path, f"{message}: upgrade hardner to read it")
    try:
        manifest = make(Manifest, {key: raw[key] for key in keys(Manifest) if key in raw})
        for entry in manifest.tensors.values():
            entry.check()
    except HardnerError as error:
        raise FileError(path, f"damaged: {error}") from None
    for name in (*manifest.sizes, *manifest.weights):
        if not PLAIN_NAME.fullmatch(name):
            raise FileError(path, f"unsafe file name {name!r}")
    listed, held = set(chain(*manifest.weights.values())), manifest.tensors.items()
    scales = {name + SCALES for name, entry in held if entry.in_int8}
    if (
        listed != manifest.tensors.keys() | scales
        or not manifest.weights.keys() <= manifest.sizes.keys()
    ):
        raise FileError(path, "damaged: its lists of tensors and files disagree")
    return manifest


def read_config(path: Path) -> dict[str, Any]:
    """The table in a folder's ``config.json``, hardner's or another's."""
    if not path.is_file():  # a pipe or a device might never end
        raise FileError(path.parent, f"not a hardner model: no {CONFIG} in it")
    if path.stat().st_size > _LARGEST_CONFIG:
        raise FileError(path, f"damaged: larger than {_LARGEST_CONFIG:,} bytes")
    try:
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"damaged, not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise FileError(path, "not the configuration of a hardner model")
    return raw


def checked_manifest(folder: Path) -> Manifest:
    """As `read_manifest`, once every file has been found to be the one it speaks of."""
    manifest = read_manifest(folder)
    for name in manifest.sizes:
        _check_file(folder / name, name, manifest)
    return manifest


def _check_file(path: Path, name: str, manifest: Manifest) -> None:
    if not path.is_file():
        raise FileError(path, "missing from the model folder")
    actual, size = path.stat().st_size, manifest.sizes[name]
    if name in manifest.weights:
        _check_header(path, actual)
    if actual != size:
        state = "truncated" if actual < size else "damaged"
        raise FileError(path, f"{state}: {actual} bytes, expected {size}")
    if name in manifest.checksums and manifest.checksums[name] != sha256(path):
        raise FileError(path, f"damaged: its checksum is not the one in {CONFIG}")


def _check_header(path: Path, size: int) -> None:
    """Refuse what is not safetensors: the length of a JSON header, then the header."""
    with path.open("rb") as stream:
        start = stream.read(9)
    length = int.from_bytes(start[:8], "little")
    if start[8:] == b"{" and length <= min(size - 8, _LARGEST_HEADER):
        return
    if start.startswith((b"PK", b"\x80")):
        raise FileError(path, "a pickle, not safetensors; it could run code and is not read")
    raise FileError(path, f"damaged weights: a header of {length} bytes in a file of {size}")
