"""What is to be tagged: files out of paths, folders and patterns, and what each of them holds."""

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardner.errors import FileError, HardnerError
from hardner.files import is_standard, plain_name
from hardner.formats import FORMATS, detect

_ENDINGS = tuple(ending for row in FORMATS.values() if row.read for ending in row.endings)


@dataclass(frozen=True, slots=True)
class Input:
    """A file, or a folder that is one corpus, and what identifies its content."""

    path: str
    format: str
    bytes: int
    modified: int
    """Its time of change, in nanoseconds."""


def find_inputs(
    given: Sequence[str | Path], format: str | None = None, outside: Path | None = None
) -> list[Input]:
    """The inputs that paths, folders and patterns name, each once, in the order of their names.

    Args:
        given: Of a folder, all files below it with the ending of a known format are taken, but
            for the layouts that are folders themselves.
        format: Of all of them; by default, what each ending or content shows.
        outside: A folder of which nothing is taken.
    """
    if format is not None and format not in FORMATS:
        raise HardnerError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    paths = [path.resolve() for name in given for path in _named(str(name), format)]
    kept = [path for path in dict.fromkeys(paths) if not (outside and path.is_relative_to(outside))]
    if not kept:
        raise HardnerError(f"no files of a known format in {', '.join(map(str, given))}")
    return [_input(path, format) for path in kept]


def _named(name: str, format: str | None) -> Iterable[Path]:
    if is_standard(name):
        raise HardnerError("standard input cannot be cut into shards; name files or folders")
    path = Path(name)
    if path.is_dir():
        return [path] if _is_one(path, format) else _below(path)
    if path.exists() or not glob.has_magic(name):
        return [path]
    matching = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - may be absolute
    if not matching:
        raise FileError(name, "no file matches")
    return [file for match in matching for file in _named(match, format)]


def _is_one(folder: Path, format: str | None) -> bool:
    """Whether the folder is a layout of its own rather than a place for files."""
    if format is not None:
        return FORMATS[format].folder
    try:
        return detect(folder).folder
    except FileError:
        return False


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and plain_name(path).lower().endswith(_ENDINGS):
            yield path


def _input(path: Path, format: str | None) -> Input:
    try:
        parts = [p.stat() for p in ([path] if path.is_file() else sorted(path.rglob("*")))]
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
    if not path.exists():
        raise FileError(path, "no such file or folder")
    return Input(
        str(path),
        format or detect(path).name,
        sum(part.st_size for part in parts),
        max(part.st_mtime_ns for part in parts),
    )
