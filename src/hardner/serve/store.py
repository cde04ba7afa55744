"""The project file: one writer at a time, readers beside it, and every commit on the disk."""

import queue
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from hardner.errors import FileError
from hardner.jobs.lock import FileLock
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
        self._lock = _locked(path)
        try:
            self._writer = _connected(path)
            prepare(self._writer, str(path))
        except BaseException:
            self._lock.release()
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
        self._lock.release()


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


def _locked(path: Path) -> FileLock:
    """A lock beside the project file."""
    try:
        return FileLock(path.with_name(f"{path.name}-lock"))
    except BlockingIOError:
        raise FileError(path, "is open in another hardner serve; use that one") from None
    except OSError as error:
        raise FileError(path, f"cannot be opened: {error.strerror}") from None
