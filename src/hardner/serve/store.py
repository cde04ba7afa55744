"""The project file: one writer at a time, readers beside it, and every commit on the disk."""

import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from hardner.errors import FileError
from hardner.serve.schema import prepare

READERS = 4
"""Connections that stay open for reading."""

Database = sqlite3.Connection


def now() -> str:
    """The time as it is kept: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """An open project. Only one process may have it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _held(path)
        try:
            self._writer = _connected(path)
            prepare(self._writer, str(path))
        except BaseException:
            os.close(self._lock)
            raise
        self._writing = threading.Lock()
        self._readers: queue.SimpleQueue[Database] = queue.SimpleQueue()

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A transaction: all of it is on the disk when the block ends, or nothing."""
        with self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """One state of the project, whatever is written meanwhile."""
        try:
            database = self._readers.get_nowait()
        except queue.Empty:
            database = _connected(self.path)
        try:
            database.execute("BEGIN")
            try:
                yield database
            finally:
                database.execute("ROLLBACK")
        finally:
            if self._readers.qsize() < READERS:
                self._readers.put(database)
            else:
                database.close()

    def close(self) -> None:
        """Leaves one file behind, without those that SQLite keeps beside an open one."""
        with suppress(queue.Empty):
            while True:
                self._readers.get_nowait().close()
        with self._writing:
            self._writer.close()
        _lock_path(self.path).unlink(missing_ok=True)
        os.close(self._lock)


def _connected(path: Path) -> Database:
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        raise FileError(path, f"cannot be opened: {error}") from None
    except sqlite3.DatabaseError:
        raise FileError(path, "not a project of hardner; name another file") from None
    return database


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}-lock")


def _held(path: Path) -> int:
    """A lock that ends with the process, however it ends."""
    beside = _lock_path(path)
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise FileError(path, f"cannot be opened: {error.strerror}") from None
    try:
        _lock(handle)
        left = os.fstat(handle).st_nlink == 0  # by one who closed it between our two steps
    except OSError:
        os.close(handle)
        raise FileError(path, "is open in another hardner serve; use that one") from None
    if left:
        os.close(handle)
        return _held(path)
    return handle


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
