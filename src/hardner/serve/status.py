"""The state of a project, which the page asks for every few seconds."""

from typing import Any

from hardner.serve.database import Database, last_event
from hardner.serve.history import show_undo
from hardner.serve.loose import count_loose
from hardner.serve.models import current_model
from hardner.serve.runs import newest_run

_OF_DOCUMENTS = "'add', 'document', 'remove', 'untype', 'labels', 'loose'"
_MOST_CHANGED = 500  # sentences that are named as changed


def project_status(database: Database, since: int | None) -> dict[str, Any]:
    """The state of a project, and what has changed since an event."""
    last = last_event(database)
    after = last if since is None else since
    counts = count_labels(database)
    return {
        "event": last,
        "changed": _changed_sentences(database, after),
        "documents_changed": _has_event(database, after, _OF_DOCUMENTS),
        "types_changed": _has_event(database, after, "'add', 'type', 'untype'"),
        "people_changed": _has_event(database, after, "'people'"),
        "alone": database.alone,
        **show_undo(database),
        "run": newest_run(database),
        "model": current_model(database),
        "sweep": {"done": counts["predicted"], "total": counts["sentences"]},
        "counts": counts,
        "loose": count_loose(database),
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

    What is held out is part of them, and counted apart as well: nothing is learnt from it.
    """
    held = database.execute(
        """SELECT count(*) AS held_out_labelled,
                  coalesce(sum(json_array_length(spans)), 0) AS held_out_mentions
           FROM documents JOIN sentences ON document = documents.id
           WHERE held_out AND NOT removed AND state <> 'open'"""
    )
    counts = database.execute("SELECT * FROM counts").fetchone()
    return {**dict(counts), **dict(held.fetchone())}
