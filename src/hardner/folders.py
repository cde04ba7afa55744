"""Folders written whole: whoever looks finds the old one or the new one, never half of either."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardner.errors import FileError
from hardner.unfinished import unfinished

_AT_FDCWD = -100
"""Linux: paths are relative to the working folder."""
_RENAME_EXCHANGE = 2
"""Linux: swap the two names."""


@contextmanager
def atomic_folder(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A folder to fill; it replaces the one there when the block ends well, else leaves no trace.

    The caller makes sure that nothing of value is replaced.

    Args:
        path: Where it goes; parents are made.
        durable: Whether to wait until all is on the disk; slow where the files are very many.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(path.parent, is_dir=True) as aside:
            fresh = aside / "new"
            fresh.mkdir()
            yield fresh
            # Files before the folder that names them, and both before the folder is in its place.
            for inner in (*fresh.iterdir(), fresh) if durable else ():
                _sync(inner)
            _replace(fresh, path, aside / "old")
            if durable:
                _sync(path.parent)
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None


def _replace(fresh: Path, path: Path, old: Path) -> None:
    if not path.exists():
        fresh.rename(path)
    elif not _exchange(fresh, path):
        path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            old.rename(path)
            raise


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step; False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    one, other = os.fsencode(first), os.fsencode(second)
    return bool(rename(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE) == 0)


def _sync(path: Path) -> None:
    windows = os.name == "nt"
    if windows and path.is_dir():  # it has no way to flush one
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
