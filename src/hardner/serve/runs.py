"""The runs of a project: what was learnt from, how it ended, what came of it."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from hardner.serve import events
from hardner.serve.errors import Conflict, Missing
from hardner.serve.store import Database, now
from hardner.types import Sentence


def start(database: Database, labelled: Sequence[Sentence]) -> int:
    """Notes that a run learns from these sentences; there is one at a time."""
    types = sorted({span.label for sentence in labelled for span in sentence.spans})
    mentions = sum(len(sentence.spans) for sentence in labelled)
    try:
        made = database.execute(
            """INSERT INTO runs (state, started, sentences, mentions, types)
               VALUES ('running', ?, ?, ?, ?)""",
            (now(), len(labelled), mentions, json.dumps(types)),
        )
    except sqlite3.IntegrityError:
        raise Conflict("a run is on its way already; wait for it or cancel it") from None
    events.record(database, "run")
    assert made.lastrowid is not None
    return made.lastrowid


def end(
    database: Database,
    number: int,
    state: str,
    seconds: float = 0.0,
    message: str = "",
    result: dict[str, Any] | None = None,
) -> None:
    """Notes how a run ended."""
    kept = None if result is None else json.dumps(result)
    database.execute(
        """UPDATE runs SET state = ?, ended = ?, seconds = ?, message = ?, result = ?
           WHERE id = ? AND state = 'running'""",
        (state, now(), seconds, message, kept, number),
    )
    events.record(database, "run")


def mend(database: Database) -> None:
    """Notes of a run that no process works on any more that it was interrupted."""
    rows = database.execute("SELECT id FROM runs WHERE state = 'running'").fetchall()
    for row in rows:
        end(database, row["id"], "interrupted", message="the server stopped; adapt again")


def listed(database: Database) -> list[dict[str, Any]]:
    """The runs, newest first, without their results."""
    return [{**_shown(row), "result": None} for row in _rows(database)]


def one(database: Database, number: int) -> dict[str, Any]:
    """A run with its result."""
    for row in _rows(database, number):
        return _shown(row)
    raise Missing(f"there is no run {number}")


def newest(database: Database) -> dict[str, Any] | None:
    """The last run, without its result."""
    row = next(iter(_rows(database, most=1)), None)
    return None if row is None else {**_shown(row), "result": None}


def _rows(database: Database, number: int | None = None, most: int = -1) -> list[sqlite3.Row]:
    chosen = "" if number is None else "WHERE runs.id = :number"
    return database.execute(
        f"""SELECT runs.*, models.id AS model FROM runs LEFT JOIN models ON models.run = runs.id
            {chosen} ORDER BY runs.id DESC LIMIT :most""",
        {"number": number, "most": most},
    ).fetchall()


def _shown(row: sqlite3.Row) -> dict[str, Any]:
    return {
        **dict(row),
        "types": json.loads(row["types"]),
        "result": json.loads(row["result"]) if row["result"] else None,
        "stage": "",
        "done": 0,
        "total": 0,
    }


def curve(database: Database) -> list[dict[str, Any]]:
    """The expected F1 of each run that ended well, oldest first."""
    points = []
    for row in reversed(_rows(database)):
        result = json.loads(row["result"]) if row["result"] else {}
        held_out = result.get("held_out")
        if row["state"] == "done":
            points.append(
                {
                    "run": row["id"],
                    "model": row["model"],
                    "sentences": row["sentences"],
                    "mentions": row["mentions"],
                    "f1": result.get("f1"),
                    "low": result.get("low"),
                    "high": result.get("high"),
                    "held_out": held_out and held_out["f1"],
                    "at": row["ended"],
                }
            )
    return points
