"""The documents of a project: added, listed, searched, read sentence by sentence, removed."""

import json
import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from hardner.serve import events, mention_types
from hardner.serve.errors import Missing, Refused
from hardner.serve.prepared import Prepared
from hardner.serve.store import Database
from hardner.types import Sentence

OPENING = 120
"""Characters of a document that a list shows."""
SENTENCE = """sentences.id, sentences.document, position, version, state, spans, rejected, tokens,
    start, stop, substr(documents.text, start + 1, stop - start) AS text"""
"""Columns of a sentence, joined with its document."""
LABELLED = "EXISTS (SELECT 1 FROM sentences WHERE document = documents.id AND state <> 'open')"
FOUND = """id IN (SELECT document FROM predictions CROSS JOIN sentences ON sentences.id = sentence
           WHERE model = :model AND {})"""
FILTERS = {
    "all": "1",
    "labelled": LABELLED,
    "unlabelled": f"NOT {LABELLED}",
    "suggested": FOUND.format("suggested"),
    "disagreeing": FOUND.format("disagrees"),
    "held_out": "held_out",
}
ROW = f"""SELECT id, name, substr(text, 1, {OPENING}) AS opening, held_out,
    (SELECT count(*) FROM sentences WHERE document = documents.id) AS sentences,
    (SELECT count(*) FROM sentences WHERE document = documents.id AND state <> 'open') AS labelled,
    (SELECT count(*) FROM sentences CROSS JOIN predictions ON sentence = sentences.id
     WHERE document = documents.id AND model = :model AND suggested) AS suggested,
    (SELECT count(*) FROM sentences CROSS JOIN predictions ON sentence = sentences.id
     WHERE document = documents.id AND model = :model AND disagrees) AS disagreeing
    FROM documents"""
_WORD = re.compile(r"\w+")


def add(database: Database, prepared: Sequence[Prepared], held_out: bool) -> dict[str, Any]:
    """Adds documents with their labels; returns what was added."""
    labels = {span.label for document in prepared for row in document.rows for span in row.spans}
    made = mention_types.ensure(database, sorted(labels))
    numbers = mention_types.numbers(database)
    first = _next(database, "documents")
    row_number = _next(database, "sentences")
    sentences = labelled = mentions = 0
    for number, document in enumerate(prepared, first):
        name = document.name or f"document-{number}"
        database.execute(
            "INSERT INTO documents (id, name, text, held_out) VALUES (?, ?, ?, ?)",
            (number, name, document.text, held_out),
        )
        database.execute(
            "INSERT INTO words (rowid, name, text) VALUES (?, ?, ?)", (number, name, document.text)
        )
        database.executemany(
            """INSERT INTO sentences (id, document, position, start, stop, tokens, state, spans)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                (row_number + place, number, place, *row.values(document.labelled, numbers))
                for place, row in enumerate(document.rows)
            ),
        )
        row_number += len(document.rows)
        sentences += len(document.rows)
        labelled += len(document.rows) * document.labelled
        mentions += sum(len(row.spans) for row in document.rows)
    if prepared:
        events.record(database, "add", document=first, after={"documents": len(prepared)})
    return {
        "added": len(prepared),
        "first": first if prepared else None,
        "last": first + len(prepared) - 1 if prepared else None,
        "sentences": sentences,
        "labelled": labelled,
        "mentions": mentions,
        "types": made,
    }


def _next(database: Database, table: str) -> int:
    (highest,) = database.execute(f"SELECT max(id) FROM {table}").fetchone()
    return int(highest or 0) + 1


def listed(
    database: Database,
    model: int | None,
    query: str,
    which: str,
    after: int,
    offset: int,
    limit: int,
) -> dict[str, Any]:
    """A page of the documents, in the order they were added, and how many there are."""
    where = f"NOT removed AND {FILTERS[which]}"
    values: dict[str, Any] = {"model": model, "after": after, "offset": offset, "limit": limit}
    if query.strip():
        values["words"] = " ".join(f'"{word}"*' for word in _WORD.findall(query))
        if not values["words"]:
            return {"total": 0, "documents": [], "next": None}
        where += " AND id IN (SELECT rowid FROM words WHERE words MATCH :words)"
    (total,) = database.execute(f"SELECT count(*) FROM documents WHERE {where}", values).fetchone()
    rows = database.execute(
        f"{ROW} WHERE {where} AND id > :after ORDER BY id LIMIT :limit OFFSET :offset", values
    ).fetchall()
    found = [_row(row) for row in rows]
    return {
        "total": total,
        "documents": found,
        "next": found[-1]["id"] if len(found) == limit else None,
    }


def _row(row: sqlite3.Row) -> dict[str, Any]:
    return {**dict(row), "held_out": bool(row["held_out"])}


def one(database: Database, model: int | None, number: int) -> dict[str, Any]:
    """A document as a list shows it."""
    values = {"model": model, "id": number}
    row = database.execute(f"{ROW} WHERE NOT removed AND id = :id", values).fetchone()
    if row is None:
        raise Missing(f"there is no document {number}")
    return _row(row)


def text_of(database: Database, number: int) -> str:
    """The text of a document."""
    row = database.execute(
        "SELECT text FROM documents WHERE NOT removed AND id = ?", (number,)
    ).fetchone()
    if row is None:
        raise Missing(f"there is no document {number}")
    return str(row["text"])


def sentence_rows(database: Database, number: int, start: int, limit: int) -> list[sqlite3.Row]:
    """Sentences of a document, from the one at place ``start`` on."""
    return database.execute(
        f"""SELECT {SENTENCE} FROM sentences JOIN documents ON documents.id = document
            WHERE document = ? AND position >= ? ORDER BY position LIMIT ?""",
        (number, start, limit),
    ).fetchall()


def sentences_of(database: Database, numbers: Sequence[int]) -> list[sqlite3.Row]:
    """The sentences of these numbers that are there, in their order."""
    wanted = json.dumps([*numbers])
    rows = database.execute(
        f"""SELECT {SENTENCE} FROM json_each(?) CROSS JOIN sentences ON sentences.id = value
            CROSS JOIN documents ON documents.id = document WHERE NOT removed""",
        (wanted,),
    )
    found = {row["id"]: row for row in rows}
    return [found[number] for number in numbers if number in found]


def sentence_row(database: Database, number: int) -> sqlite3.Row:
    """The sentence of that number."""
    rows = sentences_of(database, [number])
    if not rows:
        raise Missing(f"there is no sentence {number}")
    return rows[0]


def tokens_of(row: sqlite3.Row) -> tuple[str, ...]:
    """The words of a sentence."""
    text, flat = row["text"], json.loads(row["tokens"])
    return tuple(text[a:b] for a, b in zip(flat[::2], flat[1::2], strict=True))


def bare(database: Database, numbers: Sequence[int]) -> list[Sentence]:
    """The sentences of these numbers without their labels, named by their numbers."""
    rows = sentences_of(database, numbers)
    return [Sentence(tokens_of(row), id=str(row["id"])) for row in rows]


def change(database: Database, number: int, name: str | None, held_out: bool | None) -> None:
    """Gives a document another name, or moves it in or out of the held-out part."""
    text = text_of(database, number)
    if name is not None:
        if not name.strip():
            raise Refused("a document needs a name")
        (old,) = database.execute("SELECT name FROM documents WHERE id = ?", (number,)).fetchone()
        database.execute(
            "INSERT INTO words (words, rowid, name, text) VALUES ('delete', ?, ?, ?)",
            (number, old, text),
        )
        database.execute("UPDATE documents SET name = ? WHERE id = ?", (name, number))
        database.execute(
            "INSERT INTO words (rowid, name, text) VALUES (?, ?, ?)", (number, name, text)
        )
    if held_out is not None:
        database.execute("UPDATE documents SET held_out = ? WHERE id = ?", (held_out, number))
    events.record(database, "document", document=number)


def remove(database: Database, number: int) -> int:
    """Takes a document out of the project; an undo brings it back. Returns the event."""
    text_of(database, number)
    database.execute("UPDATE documents SET removed = 1 WHERE id = ?", (number,))
    return events.record(
        database, "remove", document=number, before={"removed": False}, after={"removed": True}
    )
