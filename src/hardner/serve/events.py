"""What happened in a project, in order: the history of every label, and the undo stack."""

import json
import sqlite3
from typing import Any, NamedTuple

from hardner.serve.store import Database, now

UNDOABLE = ("label", "remove")
"""Kinds of events that an undo takes back."""
CHANGES_LABELS = ("label", "undo", "redo")
CHANGES_DOCUMENTS = ("add", "document", "remove", "undo", "redo")

Row = sqlite3.Row


class Tops(NamedTuple):
    """What the next undo and the next redo act on."""

    undo: int | None
    redo: int | None


def tops(database: Database) -> Tops:
    """As the last event left them."""
    row = database.execute(
        "SELECT undo_top, redo_top FROM events ORDER BY id DESC LIMIT 1"
    ).fetchone()
    return Tops(*row) if row else Tops(None, None)


def last(database: Database) -> int:
    """The number of the last event, 0 where there is none."""
    row = database.execute("SELECT max(id) FROM events").fetchone()
    return int(row[0] or 0)


def event(database: Database, number: int | None) -> Row | None:
    """The event of that number."""
    found: Row | None = database.execute("SELECT * FROM events WHERE id = ?", (number,)).fetchone()
    return found


def record(
    database: Database,
    kind: str,
    *,
    document: int | None = None,
    sentence: int | None = None,
    before: Any = None,
    after: Any = None,
    target: int | None = None,
) -> int:
    """Writes an event down and moves the stacks; returns its number.

    Args:
        kind: Of what happened; one of `UNDOABLE` starts the redo stack anew.
        document: What it happened to.
        sentence: The same, more closely.
        before: What was, as far as an undo needs to know.
        after: What is now.
        target: The event that an undo takes back, or the undo that a redo does.
    """
    undo, redo = tops(database)
    number = last(database) + 1
    if kind in UNDOABLE:
        undo, redo = number, None
    elif kind == "undo":
        undo, redo = _below(database, target), number
    elif kind == "redo":
        undone = event(database, target)
        assert undone is not None
        undo = undone["target"]
        redo = _top_before(database, undone["id"]).redo
    values = (now(), kind, document, sentence, _json(before), _json(after), target, undo, redo)
    database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (number, *values))
    return number


def _below(database: Database, number: int | None) -> int | None:
    """What an undo finds once this undoable event has been taken back."""
    assert number is not None
    return _top_before(database, number).undo


def _top_before(database: Database, number: int) -> Tops:
    row = database.execute(
        "SELECT undo_top, redo_top FROM events WHERE id < ? ORDER BY id DESC LIMIT 1", (number,)
    ).fetchone()
    return Tops(*row) if row else Tops(None, None)


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, separators=(",", ":"))
