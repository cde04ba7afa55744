"""Rows of the tables as the interface shows them."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from hardner.serve import documents, events, labels, mention_types
from hardner.serve.flags import current
from hardner.serve.store import Database

MENTION = 60
"""Characters of a mention that the description of an event shows."""


def sentences(database: Database, rows: Sequence[sqlite3.Row]) -> list[dict[str, Any]]:
    """Sentences with their labels and what the current model finds in them."""
    types = mention_types.numbers(database)
    found = _predictions(database, [row["id"] for row in rows])
    ends = {row["id"]: row["stop"] for row in rows}
    return [_sentence(database, row, found.get(row["id"]), types, ends) for row in rows]


def sentence(database: Database, number: int) -> dict[str, Any]:
    """The sentence of that number."""
    return sentences(database, [documents.sentence_row(database, number)])[0]


def _predictions(database: Database, numbers: Sequence[int]) -> dict[int, sqlite3.Row]:
    rows = database.execute(
        """SELECT predictions.* FROM predictions WHERE +model = ?
           AND sentence IN (SELECT value FROM json_each(?))""",
        (current(database), json.dumps([*numbers])),
    )
    return {row["sentence"]: row for row in rows}


def _sentence(
    database: Database,
    row: sqlite3.Row,
    found: sqlite3.Row | None,
    types: dict[str, int],
    ends: dict[int, int],
) -> dict[str, Any]:
    text, flat = row["text"], json.loads(row["tokens"])
    starts, stops = flat[::2], flat[1::2]
    return {
        "id": row["id"],
        "document": row["document"],
        "position": row["position"],
        "version": row["version"],
        "lead": _lead(database, row, ends),
        "tokens": [text[a:b] for a, b in zip(starts, stops, strict=True)],
        "gaps": [text[a:b] for a, b in zip(stops, [*starts[1:], len(text)], strict=True)],
        "state": row["state"],
        "spans": spans(json.loads(row["spans"])),
        "rejected": spans(json.loads(row["rejected"])),
        "predicted": _predicted(found["spans"], types) if found else None,
        "suggested": bool(found and found["suggested"]),
        "disagrees": bool(found and found["disagrees"]),
        "hardness": found["hardness"] if found else None,
    }


def _lead(database: Database, row: sqlite3.Row, ends: dict[int, int]) -> str:
    """The text between the sentence before and this one; numbers follow one another."""
    before = ends.get(row["id"] - 1) if row["position"] else 0
    if before is None:
        (before,) = database.execute(
            "SELECT stop FROM sentences WHERE document = ? AND position = ?",
            (row["document"], row["position"] - 1),
        ).fetchone()
    if before == row["start"]:
        return ""
    (lead,) = database.execute(
        "SELECT substr(text, ?, ?) FROM documents WHERE id = ?",
        (before + 1, row["start"] - before, row["document"]),
    ).fetchone()
    return str(lead)


def spans(marks: Iterable[Sequence[int]]) -> list[dict[str, int]]:
    """Marks over the tokens of a sentence."""
    return [{"start": start, "end": end, "type": number} for start, end, number in marks]


def _predicted(found: str, types: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {"start": start, "end": end, "type": types[label], "score": score}
        for start, end, label, score in json.loads(found)
        if label in types
    ]


def event(database: Database, row: sqlite3.Row | None) -> dict[str, Any] | None:
    """An event, and in words what it did."""
    if row is None:
        return None
    shown = {name: row[name] for name in ("id", "at", "kind", "document", "sentence")}
    return {**shown, "what": _what(database, labels.origin(database, row))}


def undoable(database: Database) -> dict[str, Any]:
    """What the next undo and redo act on."""
    tops = events.tops(database)
    return {
        "undo": event(database, events.event(database, tops.undo)),
        "redo": event(database, events.event(database, tops.redo)),
    }


def _what(database: Database, row: sqlite3.Row) -> str:
    if row["kind"] == "remove":
        name = database.execute(
            "SELECT name FROM documents WHERE id = ?", (row["document"],)
        ).fetchone()["name"]
        return f"remove the document {name}"
    if row["kind"] != "label":
        return str(row["kind"])
    before, after = labels.Labels.read(row["before"]), labels.Labels.read(row["after"])
    if before.none != after.none and not before.spans:
        return "mark as no entity" if after.none else "unmark no entity"
    rows = database.execute(
        f"""SELECT {documents.SENTENCE} FROM sentences JOIN documents ON documents.id = document
            WHERE sentences.id = ?""",
        (row["sentence"],),
    ).fetchone()
    text, flat = rows["text"], json.loads(rows["tokens"])
    names = mention_types.names(database)
    for verb, one, other in (
        ("label", after.spans, before.spans),
        ("unlabel", before.spans, after.spans),
        ("reject", after.rejected, before.rejected),
        ("take back the rejection of", before.rejected, after.rejected),
    ):
        if new := sorted(set(one) - set(other)):
            start, end, number = new[0]
            mention = text[flat[2 * start] : flat[2 * end - 1]][:MENTION]
            more = f" and {len(new) - 1} more" if len(new) > 1 else ""
            return f'{verb} "{mention}" {names[number]}{more}'
    return "label"
