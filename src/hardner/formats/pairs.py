"""Formats whose documents are pairs of files with one base name."""

from pathlib import Path

from hardner.errors import FileError
from hardner.files import PathLike, is_standard

_PACKED = ("", ".gz", ".xz")


def named(path: PathLike) -> Path:
    """The path, which must not be standard input or output."""
    if is_standard(path):
        raise FileError(path, "this format is a pair of files or a folder: it needs a name")
    return Path(path)


def beside(base: Path, ending: str) -> Path:
    """The file with this ending, compressed or not; the plain name where there is none."""
    names = [base.with_name(base.name + ending + packed) for packed in _PACKED]
    return next((name for name in names if name.exists()), names[0])
