"""Damage to files: to their bytes, their lines, and the values of the structure they are in."""

import gzip
import lzma
import zlib
from collections.abc import Mapping, Sequence
from random import Random

from fuzz.byte_changes import BYTE_CHANGES
from fuzz.structures import CHANGES_BY_ENDING

Files = Mapping[str, bytes]
"""An input: the files of a folder by name, or the one file that it is."""


def damaged(rng: Random, files: Files, seeds: Sequence[Files]) -> dict[str, bytes]:
    """One of the seeds with a few changes; the others are there to be spliced in."""
    made = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        names = sorted(made)
        name = rng.choice(names if rng.random() < 0.5 else [*filter(_small, names)] or names)
        donor = rng.choice(seeds)
        other = donor.get(name) or rng.choice(sorted(donor.values()))
        made[name] = _changed(rng, name, made[name], other)
    if len(made) > 1 and rng.random() < 0.03:
        del made[rng.choice(sorted(made))]
    return made


def _small(name: str) -> bool:
    """Whether a file is not one of numbers, which are many and checked by their sum."""
    return not name.endswith((".safetensors", ".npy"))


def _changed(rng: Random, name: str, content: bytes, other: bytes) -> bytes:
    if name.endswith((".gz", ".xz")) and rng.random() < 0.8:
        pack, unpack = (gzip.compress, gzip.decompress) if name.endswith(".gz") else _XZ
        try:
            plain = _changed(rng, name[:-3], unpack(content), other)
            return pack(_swollen(rng, plain) if rng.random() < 0.01 else plain)
        except (EOFError, OSError, lzma.LZMAError, zlib.error):
            pass  # damaged before
    structural = next(
        (by for ending, by in CHANGES_BY_ENDING.items() if name.endswith(ending)), None
    )
    if structural is not None and rng.random() < 0.7:
        try:
            return structural(rng, content)
        except Exception:
            pass
    return rng.choice(BYTE_CHANGES)(rng, content, other)


def _swollen(rng: Random, content: bytes) -> bytes:
    """Much from little: a block many times over, which packs to a few kilobytes."""
    at = rng.randrange(len(content) + 1)
    block = content[at : at + rng.choice((1, 20, 200))] or b" "
    return content[:at] + block * (8_000_000 // len(block)) + content[at:]


def _lzma(content: bytes) -> bytes:
    return lzma.compress(content, preset=0)


_XZ = (_lzma, lzma.decompress)
