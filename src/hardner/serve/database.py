"""The project file: a SQLite database, with its tables and the log of what was done to it."""

import json
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardner.errors import FileError
from hardner.folders import FileLock
from hardner.serve.blobs import cut_files, has_waste
from hardner.serve.integrity import check_pages, check_rows, check_schema, mend_index

APPLICATION_ID = 0x68646E72
"""Marks a SQLite file as ours, in its header: the letters ``hdnr``."""
_SCHEMA = sorted(Path(__file__).with_name("schema").glob("*.sql"), key=lambda path: int(path.stem))
"""A file for each version: the tables of the first, and what takes a project to the next."""

_DAMAGED = "is damaged; go on with a copy from before"
_CUT_FILES = 4  # the first version that holds the files of models in parts

acting_name: ContextVar[str] = ContextVar("acting_name", default="")
"""The name of the annotator on whose behalf the project is used, set for each request; without
one, it is the project's first."""


class Database(sqlite3.Connection):
    """A connection to a project, on behalf of an annotator."""

    annotator = 0
    """The annotator's number; 0 who has not written anything yet."""
    alone = False
    """Whether annotators read alone, each with labels of their own."""


_IDLE_READERS = 4  # connections kept open for reading
_PATIENCE = 30  # seconds that a statement waits for a lock
_QUIET = 2.0  # seconds without a write after which all is moved into the project's own file


class ProjectDatabase:
    """An open project: one writer, any number of readers. Only one process may open it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _lock_project(path)
        try:
            self._writer = _open(path)
        except BaseException:
            self._lock.release()
            raise
        self._writing = threading.Lock()
        self._writes = 0
        self._closing = threading.Event()
        self._readers: deque[Database] = deque()
        threading.Thread(target=self._tidy, name="checkpoints", daemon=True).start()

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """A transaction: on disk as a whole when the block ends, or not at all."""
        with self._writing:
            # IMMEDIATE takes the write lock now: a lock taken halfway could fail as busy.
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if name := acting_name.get():
                    add = "INSERT OR IGNORE INTO annotators (name) VALUES (?)"
                    self._writer.execute(add, (name,))
                _act_for(self._writer, name)
                yield self._writer
                self._writer.execute("COMMIT")
                self._writes += 1
            except BaseException:
                if self._writer.in_transaction:  # a full disk has ended it already
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """A snapshot of the project, whatever is written meanwhile."""
        try:
            database = self._readers.pop()
        except IndexError:
            database = _connect(self.path)
        try:
            database.execute("BEGIN")
            _act_for(database, acting_name.get())
            yield database
        finally:
            database.execute("ROLLBACK")
            if len(self._readers) < _IDLE_READERS:
                self._readers.append(database)
            else:
                database.close()

    def copy(self, target: Path) -> None:
        """Write the project as it is now, as a whole, into another file."""
        source, copied = _connect(self.path), sqlite3.connect(target)
        with closing(source), closing(copied):
            source.backup(copied)

    def close(self) -> None:
        """Close all connections, so that SQLite removes the files beside the project."""
        self._closing.set()
        while self._readers:
            self._readers.pop().close()
        with self._writing:
            self._writer.close()
        self._lock.release()

    def _tidy(self) -> None:
        """Whenever writing pauses, move what was written from SQLite's log into the file."""
        seen = moved = 0
        while not self._closing.wait(_QUIET):
            if seen == self._writes != moved:
                with self._writing:
                    if self._closing.is_set():
                        return
                    # Without patience: who reads an old state now is not worth waiting for.
                    self._writer.execute("PRAGMA busy_timeout = 0")
                    with suppress(sqlite3.OperationalError):  # such as: the disk is full
                        found = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                        moved = moved if found["busy"] else seen
                    self._writer.execute(f"PRAGMA busy_timeout = {1000 * _PATIENCE}")
            seen = self._writes


def _act_for(database: Database, name: str) -> None:
    who = ("name = ?", name) if name else ("id = ?", 1)
    row = database.execute(f"SELECT id FROM annotators WHERE {who[0]}", who[1:]).fetchone()
    alone = database.execute("SELECT 1 FROM options WHERE name = 'alone'").fetchone()
    database.annotator, database.alone = row["id"] if row else 0, alone is not None


def _connect(path: Path) -> Database:
    try:
        # Connections move between the threads of the server, but only one uses each at a time.
        database = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            timeout=_PATIENCE,
            factory=Database,
        )
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        # "saved" in the page means on disk, also when the power fails.
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        raise FileError(path, f"cannot be opened: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise FileError(path, "not a project of hardner; name another file") from None
        raise FileError(path, _DAMAGED) from None
    return database


def _open(path: Path) -> Database:
    """A connection to a project that is whole and of this version."""
    try:
        with ExitStack() as unless_opened:
            database = unless_opened.enter_context(closing(_connect(path)))
            check_pages(database)
            if version := _version(database, path):
                check_schema(database, _tables(0, version))
                check_rows(database)
                mend_index(database)
            _update_tables(database, version)
            if has_waste(database):
                with suppress(sqlite3.OperationalError):  # such as: no room for a second file
                    database.execute("VACUUM")
            unless_opened.pop_all()
    except sqlite3.OperationalError as error:  # such as: the disk is full
        raise FileError(path, f"cannot be opened: {error}") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        raise FileError(path, _DAMAGED) from None
    return database


def _version(database: Database, path: Path) -> int:
    """Of the tables; 0 of a new file."""
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    empty = database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None
    if application != APPLICATION_ID and not (empty and not application):
        raise FileError(path, "not a project of hardner; name another file")
    if not 0 <= version <= len(_SCHEMA) or (version == 0) != empty:
        known = f"format {version}, here {len(_SCHEMA)}"
        raise FileError(path, f"made by another version of hardner ({known}); update hardner")
    return int(version)


def _update_tables(database: Database, version: int) -> None:
    """Create the tables of a new file, bring those of an earlier version up to this one."""
    if version == len(_SCHEMA):
        return
    try:
        database.executescript(
            f"BEGIN; {_tables(version, len(_SCHEMA))}"
            f" PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(_SCHEMA)};"
        )
        if version < _CUT_FILES:
            cut_files(database)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _tables(version: int, to: int) -> str:
    """What takes the tables of a version to another; of version 0, there are none."""
    return "".join(step.read_text("utf-8") for step in _SCHEMA[version:to])


def _lock_project(path: Path) -> FileLock:
    """Lock a file beside the project's, as SQLite's own locks come and go."""
    try:
        return FileLock(path.with_name(f"{path.name}-lock"))
    except BlockingIOError:
        raise FileError(path, "is open in another hardner serve; use that one") from None
    except OSError as error:
        raise FileError(path, f"cannot be opened: {error.strerror}") from None


def utc_now() -> str:
    """The time as the project keeps it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def compact_json(value: Any) -> str:
    """JSON without spaces, as columns hold it."""
    return json.dumps(value, separators=(",", ":"))


def undo_tops(database: Database, before: int = sys.maxsize) -> dict[str, int | None]:
    """The events that the annotator's next "undo" and "redo" act on, now or before an event."""
    row = database.execute(
        """SELECT undo_top AS undo, redo_top AS redo FROM events WHERE id < ? AND annotator = ?
           ORDER BY id DESC LIMIT 1""",
        (before, database.annotator),
    ).fetchone()
    return dict(row) if row else {"undo": None, "redo": None}


def last_event(database: Database) -> int:
    """The number of the last event, 0 if there is none."""
    (number,) = database.execute("SELECT max(id) FROM events").fetchone()
    return int(number or 0)


def find_event(database: Database, number: int) -> sqlite3.Row:
    event: sqlite3.Row = database.execute("SELECT * FROM events WHERE id = ?", (number,)).fetchone()
    return event


def record_event(
    database: Database,
    kind: str,
    *,
    document: int | None = None,
    sentence: int | None = None,
    before: Any = None,
    after: Any = None,
    target: int | None = None,
) -> int:
    """Append an event and move the undo stacks; returns its number.

    One that says what was before can be undone, and empties the redo stack. The target of an undo
    is the event that it takes back, that of a redo the undo.
    """
    tops, number = undo_tops(database), last_event(database) + 1
    if before is not None:
        tops = {"undo": number, "redo": None}
    elif target is not None:
        # Below an event on its stack lies what was the stack's top before that event.
        below = undo_tops(database, before=target)
        if kind == "undo":
            tops = {"undo": below["undo"], "redo": number}
        else:
            tops = {"undo": find_event(database, target)["target"], "redo": below["redo"]}
    sides = (None if side is None else compact_json(side) for side in (before, after))
    values = (number, utc_now(), kind, document, sentence, *sides, target, *tops.values())
    database.execute(
        """INSERT INTO events (id, at, kind, document, sentence, before, after, target,
                               undo_top, redo_top, annotator)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (*values, database.annotator),
    )
    return number
