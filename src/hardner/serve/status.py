"""The state of a project, which the page asks for every few seconds."""

from typing import Any

from hardner.serve.database import Database, last_event
from hardner.serve.labels import show_undo
from hardner.serve.models import current_model, current_model_number
from hardner.serve.runs import newest_run
from hardner.serve.sentences import PARTLY

_MOST_CHANGED = 500  # sentences that are named as changed
_REMOVED = "SELECT id FROM documents WHERE removed"


def project_status(database: Database, since: int | None) -> dict[str, Any]:
    """The state of a project, and what has changed since an event."""
    last = last_event(database)
    after = last if since is None else since
    counts = count_labels(database)
    return {
        "event": last,
        "changed": _changed_sentences(database, after),
        "documents_changed": _has_event(database, after, "'add', 'document', 'remove', 'untype'"),
        "types_changed": _has_event(database, after, "'add', 'type', 'untype'"),
        **show_undo(database),
        "run": newest_run(database),
        "model": current_model(database),
        "sweep": {"done": _predicted(database, "1"), "total": counts["sentences"]},
        "counts": counts,
    }


def _changed_sentences(database: Database, after: int) -> list[int]:
    # The plus sign keeps SQLite from the index on sentences: it is to walk the log from its end.
    rows = database.execute(
        """SELECT sentence FROM events WHERE id > ? AND +sentence IS NOT NULL
           ORDER BY id DESC LIMIT ?""",
        (after, _MOST_CHANGED),
    )
    return sorted({row["sentence"] for row in rows})


def _has_event(database: Database, after: int, kinds: str) -> bool:
    """Whether one of these kinds, or a step back or on that may be of them, has happened."""
    found = database.execute(
        f"""SELECT 1 FROM events WHERE id > ? AND +sentence IS NULL
            AND kind IN ({kinds}, 'undo', 'redo') LIMIT 1""",
        (after,),
    )
    return found.fetchone() is not None


def count_labels(database: Database) -> dict[str, int]:
    """The numbers of documents, sentences by state, mentions and predictions.

    Of the open sentences, some are partly reviewed.
    """
    documents, held_out = database.execute(
        "SELECT count(*), coalesce(sum(held_out), 0) FROM documents WHERE NOT removed"
    ).fetchone()
    states = database.execute(
        f"""SELECT state, count(*) AS sentences, sum(json_array_length(spans)) AS mentions
            FROM sentences WHERE state <> 'open' AND document NOT IN ({_REMOVED}) GROUP BY state"""
    ).fetchall()
    labelled = {"labelled": 0, "none": 0} | {row["state"]: row["sentences"] for row in states}
    partial, more = database.execute(
        f"""SELECT count(*), coalesce(sum(json_array_length(spans)), 0) FROM sentences
            WHERE {PARTLY} AND document NOT IN ({_REMOVED})"""
    ).fetchone()
    # Few documents are removed: counting their sentences is faster than leaving them out.
    (total,) = database.execute(
        f"""SELECT (SELECT count(*) FROM sentences)
                 - (SELECT count(*) FROM sentences WHERE document IN ({_REMOVED}))"""
    ).fetchone()
    return {
        "documents": documents,
        "held_out": held_out,
        "sentences": total,
        "open": total - sum(labelled.values()),
        "partial": partial,
        **labelled,
        "mentions": more + sum(row["mentions"] for row in states),
        "suggested": _predicted(database, "suggested"),
        "disagreeing": _predicted(database, "disagrees"),
    }


def _predicted(database: Database, flag: str) -> int:
    """The sentences whose prediction by the current model has a flag."""
    (count,) = database.execute(
        f"""SELECT (SELECT count(*) FROM predictions WHERE model = :model AND {flag})
                 - (SELECT count(*) FROM documents CROSS JOIN sentences ON document = documents.id
                    CROSS JOIN predictions ON sentence = sentences.id
                    WHERE removed AND model = :model AND {flag})""",
        {"model": current_model_number(database)},
    ).fetchone()
    return int(count)
