"""Replaces a folder in one step: whoever looks finds the old one or the new one, whole."""

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardner.errors import FileError

HERE = -100
"""Linux: paths are relative to the working folder (``AT_FDCWD``)."""
EXCHANGE = 2
"""Linux: swap the two names (``RENAME_EXCHANGE``)."""


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; filled and on the disk, it takes the place of an earlier one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".hardner-", dir=path.parent) as aside:
            fresh = Path(aside, "new")
            fresh.mkdir()
            yield fresh
            for inner in (*fresh.iterdir(), fresh):
                _sync(inner)
            _put(fresh, path, Path(aside, "old"))
            _sync(path.parent)
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror or error}") from None


def _put(fresh: Path, path: Path, old: Path) -> None:
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
    """Swaps two folders at once, where the system and its file system can."""
    if sys.platform != "linux":
        return False
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    names = os.fsencode(first), os.fsencode(second)
    return swap is not None and swap(HERE, names[0], HERE, names[1], EXCHANGE) == 0


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
