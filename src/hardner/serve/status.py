"""Where a project stands: what the page asks for every few seconds."""

from typing import Any

from hardner.serve import events, models, runs, views
from hardner.serve.flags import current
from hardner.serve.store import Database

CHANGED = 500
"""Sentences that are named as changed."""
GONE = "SELECT id FROM documents WHERE removed"
"""Few: what they hold is counted and taken off, so that the rest need not be looked at."""


def status(database: Database, since: int | None) -> dict[str, Any]:
    """The state of a project, and what has changed since an event."""
    last = events.last(database)
    after = last if since is None else since
    return {
        "event": last,
        "changed": _changed(database, after),
        "documents_changed": _any(database, after, events.CHANGES_DOCUMENTS, "sentence IS NULL"),
        "types_changed": _any(database, after, ("type", "add")),
        **views.undoable(database),
        "run": runs.newest(database),
        "model": models.current(database),
        "sweep": _sweep(database),
        "counts": counts(database),
    }


def _changed(database: Database, after: int) -> list[int]:
    rows = database.execute(
        """SELECT sentence FROM events WHERE id > ? AND +sentence IS NOT NULL
           ORDER BY id DESC LIMIT ?""",
        (after, CHANGED),
    )
    return sorted({row["sentence"] for row in rows})


def _any(database: Database, after: int, kinds: tuple[str, ...], also: str = "1") -> bool:
    wanted = ", ".join(f"'{kind}'" for kind in kinds)
    found = database.execute(
        f"SELECT 1 FROM events WHERE id > ? AND kind IN ({wanted}) AND {also} LIMIT 1", (after,)
    )
    return found.fetchone() is not None


def _sweep(database: Database) -> dict[str, int]:
    return {"done": _looked_at(database, "1"), "total": _sentences(database)}


def counts(database: Database) -> dict[str, int]:
    """How many there are of what."""
    told = database.execute(
        "SELECT count(*) AS documents, coalesce(sum(held_out), 0) AS held_out FROM documents "
        "WHERE NOT removed"
    ).fetchone()
    states = database.execute(
        f"""SELECT state, count(*) AS sentences, sum(json_array_length(spans)) AS mentions
            FROM sentences WHERE state <> 'open' AND document NOT IN ({GONE}) GROUP BY state"""
    ).fetchall()
    labelled = {"labelled": 0, "none": 0} | {row["state"]: row["sentences"] for row in states}
    total = _sentences(database)
    return {
        **dict(told),
        "sentences": total,
        "open": total - sum(labelled.values()),
        **labelled,
        "mentions": sum(row["mentions"] for row in states),
        "suggested": _looked_at(database, "suggested"),
        "disagreeing": _looked_at(database, "disagrees"),
    }


def _sentences(database: Database) -> int:
    (count,) = database.execute(
        f"""SELECT (SELECT count(*) FROM sentences)
                 - (SELECT count(*) FROM sentences WHERE document IN ({GONE}))"""
    ).fetchone()
    return int(count)


def _looked_at(database: Database, flag: str) -> int:
    (count,) = database.execute(
        f"""SELECT (SELECT count(*) FROM predictions WHERE model = :model AND {flag})
                 - (SELECT count(*) FROM documents CROSS JOIN sentences ON document = documents.id
                    CROSS JOIN predictions ON sentence = sentences.id
                    WHERE removed AND model = :model AND {flag})""",
        {"model": current(database)},
    ).fetchone()
    return int(count)
