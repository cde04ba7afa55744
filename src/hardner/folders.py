"""Folders written whole: whoever looks finds the old one or the new one, never half of either.

What is not finished, file or folder, is marked, so that what a kill left is told from it.
"""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from hardner.errors import FileError

TEMPORARY = ".hardner-"
"""How the names of unfinished files and folders begin; those of files end in ``.tmp``."""
_AT_FDCWD = -100
"""Linux: paths are relative to the working folder."""
_RENAME_EXCHANGE = 2
"""Linux: swap the two names."""


@contextmanager
def unfinished(folder: Path, *, is_dir: bool = False) -> Iterator[Path]:
    """A new file or folder to fill, which the caller renames; what is left of it goes at the end.

    While it is there it is locked, as the system frees a lock however its holder ends. What others
    have left in ``folder`` without a lock is removed first, once a process.
    """
    _remove_stale_once(folder)
    path, lock = _made(folder, is_dir)
    try:
        yield path
    finally:
        if lock is not None:
            os.close(lock)
        _remove(path)


def _made(folder: Path, is_dir: bool) -> tuple[Path, int | None]:
    while True:
        path = folder / f"{TEMPORARY}{secrets.token_hex(6)}{'' if is_dir else '.tmp'}"
        if is_dir:
            path.mkdir(0o700)
        else:
            path.touch(exist_ok=False)
        try:
            return path, _locked(path)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process took it for a stale one before it was locked


def _locked(path: Path) -> int | None:
    """A handle that holds the path's lock; None where the system has no such locks.

    Raises:
        BlockingIOError: Another process holds it.
        FileNotFoundError: Another process has removed the path meanwhile.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.lstat()
    except (BlockingIOError, FileNotFoundError):
        os.close(handle)
        raise
    except OSError:  # the file system has no locks
        os.close(handle)
        return None
    return handle


def remove_stale(folder: Path) -> None:
    """Remove the unfinished files and folders that nobody is at work on."""
    for path in (*folder.glob(f"{TEMPORARY}*.tmp"), *folder.glob(f"{TEMPORARY}*/")):
        # Where folders cannot be swapped in one step, `old` is what the new one was to replace: a
        # process that was killed just then has left the only copy here.
        if (path / "old").exists():
            continue
        with suppress(OSError):
            if (lock := _locked(path)) is not None:
                _remove(path)
                os.close(lock)


_remove_stale_once = cache(remove_stale)  # a look at each file of the folder


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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


class FileLock:
    """Held from when it is made until `release`, which removes the file."""

    def __init__(self, path: Path) -> None:
        """Create and lock the file; a `BlockingIOError` says that another process holds it."""
        self.path = path
        self._handle = _sole(path)

    def release(self) -> None:
        """Let the next one in."""
        # Unlinked while still held, so that no other process locks a file about to disappear.
        # Windows does not delete open files: there it goes last, unless someone was faster.
        if sys.platform != "win32":
            self.path.unlink(missing_ok=True)
        os.close(self._handle)
        if sys.platform == "win32":
            with suppress(OSError):
                self.path.unlink()


def _sole(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            raise BlockingIOError(f"{path} is locked") from None
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # its last holder removed it between our open and our lock


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
