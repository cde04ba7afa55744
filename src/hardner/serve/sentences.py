"""The sentences of a project: read from their table, and shown with labels and predictions."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardner.serve.database import Database, record_event
from hardner.serve.errors import Refused, only
from hardner.serve.loose import show_loose
from hardner.serve.mention_types import type_numbers
from hardner.serve.models import current_model_number
from hardner.serve.readings import SentenceRow, as_read
from hardner.types import STATES, Offset, Sentence, Span

_COLUMNS = """sentences.id, sentences.document, documents.name, held_out, position, version, state,
    spans, rejected, tokens, start, stop, substr(documents.text, start + 1, stop - start) AS text"""

PARTLY = "state = 'open' AND (spans <> '[]' OR rejected <> '[]')"
"""Condition on a sentence: some of its mentions were reviewed."""


def select_sentences(database: Database, where: str, *values: Any, **named: Any) -> sqlite3.Cursor:
    """The sentences that meet a condition, which may end in an order.

    The values stand for its question marks, or for its names.
    """
    return database.execute(
        f"""SELECT {_COLUMNS} FROM documents JOIN sentences ON document = documents.id
            WHERE {where}""",
        named or values,
    )


def find_sentences(database: Database, numbers: Sequence[int]) -> list[sqlite3.Row]:
    """The sentences of these numbers, in that order, as far as they exist."""
    # CROSS JOIN keeps SQLite to this order of the tables: few numbers, then look-ups by key.
    rows = database.execute(
        f"""SELECT {_COLUMNS} FROM json_each(?) CROSS JOIN sentences
            ON sentences.id = value CROSS JOIN documents ON documents.id = document
            WHERE NOT removed""",
        (json.dumps([*numbers]),),
    )
    found = {row["id"]: row for row in rows}
    return [found[number] for number in numbers if number in found]


def find_sentence(database: Database, number: int) -> sqlite3.Row:
    return only(find_sentences(database, [number]), f"sentence {number}")


def token_offsets(row: SentenceRow) -> tuple[Offset, ...]:
    """Start and end of each token, in characters of the sentence."""
    flat = json.loads(row["tokens"])
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def to_sentence(row: sqlite3.Row, types: Mapping[int, str] | None = None) -> Sentence:
    """The sentence of a row, named by its number; with labels where type names are given."""
    tokens = tuple(row["text"][start:end] for start, end in token_offsets(row))
    if not types:
        return Sentence(tokens, (), str(row["id"]))
    marks = {name: json.loads(row[name]) for name in ("spans", "rejected")}
    spans = tuple(Span(s, e, types[n]) for s, e, n in marks["spans"])
    barred = tuple(Span(s, e, types[n]) for s, e, n in marks["rejected"])
    rejected = tuple(span for span in barred if span not in spans)
    state = shown_state(row)
    known = state if state in STATES else "done"
    return Sentence(tokens, spans, str(row["id"]), None, known, rejected)


def show_sentences(database: Database, rows: Sequence[sqlite3.Row]) -> list[dict[str, Any]]:
    """Sentences as the page gets them: with labels, who read them, and what the model predicts."""
    numbers = json.dumps([row["id"] for row in rows])
    predictions = database.execute(
        """SELECT predictions.*, labels FROM predictions JOIN models ON models.id = model
           WHERE +model = ? AND sentence IN (SELECT value FROM json_each(?))""",
        (current_model_number(database), numbers),
    )
    predicted = {row["sentence"]: row for row in predictions}
    types, readers = type_numbers(database), _readers(database, numbers)
    loose = show_loose(database, rows, {row["id"]: json.loads(row["tokens"]) for row in rows})
    notes = _notes(database, rows)
    shown, stops = [], {row["id"]: row["stop"] for row in rows}
    for row in as_read(database, rows):
        own, text, offsets = predicted.get(row["id"]), row["text"], token_offsets(row)
        flags = compare_row(row, own["spans"], own["labels"], types) if own else (False, False)
        nexts = [start for start, _ in offsets[1:]] + [len(text)]
        shown.append(
            {
                **{name: row[name] for name in ("id", "document", "position", "version")},
                "state": shown_state(row),
                "lead": _text_before(database, row, stops),
                "tokens": [text[start:end] for start, end in offsets],
                "gaps": [text[end:start] for (_, end), start in zip(offsets, nexts, strict=True)],
                "spans": show_marks(json.loads(row["spans"])),
                "rejected": show_marks(json.loads(row["rejected"])),
                "predicted": _show_predicted(own["spans"], types) if own else None,
                "suggested": flags[0],
                "disagrees": flags[1],
                "readers": readers.get(row["id"], []),
                "hardness": own["hardness"] if own else None,
                "loose": loose.get(row["id"], []),
                "notes": notes.get(row["id"], []),
            }
        )
    return shown


def _notes(database: Database, rows: Sequence[sqlite3.Row]) -> dict[int, list[dict[str, Any]]]:
    """The notes on words, by sentence."""
    notes = database.execute(
        """SELECT sentence, start, stop AS "end", text FROM json_each(?)
           CROSS JOIN notes ON sentence = value ORDER BY sentence, start, stop""",
        (json.dumps([row["id"] for row in rows]),),
    )
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in notes:
        found[note["sentence"]].append({name: note[name] for name in ("start", "end", "text")})
    return found


def _readers(database: Database, numbers: str) -> dict[int, list[str]]:
    """The names of those who have read each of some sentences to its end."""
    rows = database.execute(
        """SELECT sentence, name FROM readings JOIN annotators ON annotators.id = annotator
           WHERE state <> 'open' AND sentence IN (SELECT value FROM json_each(?))
           ORDER BY annotator""",
        (numbers,),
    )
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(row["sentence"], []).append(row["name"])
    return found


def compare_row(
    row: SentenceRow, found: str, labels: str, types: Mapping[str, int]
) -> tuple[bool, bool]:
    """Whether the model suggests something in a sentence, and whether it disagrees.

    An open sentence has suggestions if the model finds a mention that was not answered. A labelled
    one disagrees if the model finds other mentions, of the types that it knows, than those that
    were labelled or rejected.
    """
    marks = {(s, e, types[label]) for s, e, label, _ in json.loads(found) if label in types}
    if row["state"] == "open":
        answered = json.loads(row["rejected"]) + json.loads(row["spans"])
        return bool(marks - set(map(tuple, answered))), False
    known = {types[label] for label in json.loads(labels) if label in types}
    gold = {tuple(mark) for mark in json.loads(row["spans"]) if mark[2] in known}
    return False, marks - set(map(tuple, json.loads(row["rejected"]))) != gold


def shown_state(row: SentenceRow) -> str:
    """The state of a sentence, where partly reviewed ones are told from untouched ones."""
    touched = row["spans"] != "[]" or row["rejected"] != "[]"
    return "partial" if row["state"] == "open" and touched else str(row["state"])


def _text_before(database: Database, row: SentenceRow, stops: Mapping[int, int]) -> str:
    """The text between the sentence before, whose number is one less, and this one."""
    stop = stops.get(row["id"] - 1) if row["position"] else 0
    if stop is None:
        (stop,) = database.execute(
            "SELECT stop FROM sentences WHERE document = ? AND position = ?",
            (row["document"], row["position"] - 1),
        ).fetchone()
    if stop == row["start"]:
        return ""
    (text,) = database.execute(
        "SELECT substr(text, ?, ?) FROM documents WHERE id = ?",
        (stop + 1, row["start"] - stop, row["document"]),
    ).fetchone()
    return str(text)


def show_marks(marks: Iterable[Sequence[int]]) -> list[dict[str, int]]:
    return [{"start": start, "end": end, "type": number} for start, end, number in marks]


def _show_predicted(spans: str, types: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {"start": start, "end": end, "type": types[label], "score": score}
        for start, end, label, score in json.loads(spans)
        if label in types
    ]


def show_sentence(database: Database, number: int) -> dict[str, Any]:
    return show_sentences(database, [find_sentence(database, number)])[0]


def set_note(database: Database, sentence: int, start: int, end: int, text: str) -> None:
    """Write a note on words of a sentence, in place of the one that is there; none where empty."""
    row = find_sentence(database, sentence)
    if not 0 <= start < end <= (tokens := len(token_offsets(row))):
        raise Refused(f"words {start} to {end} are not within the {tokens} of the sentence")
    found = database.execute(
        "SELECT text FROM notes WHERE sentence = ? AND start = ? AND stop = ?",
        (sentence, start, end),
    ).fetchone()
    before = found["text"] if found else ""
    if before != text:
        write_note(database, sentence, start, end, text)
        then, now = ({"start": start, "end": end, "text": said} for said in (before, text))
        whose = {"document": row["document"], "sentence": sentence}
        record_event(database, "note", **whose, before=then, after=now)


def write_note(database: Database, sentence: int, start: int, end: int, text: str) -> None:
    """Set a note without an event of its own."""
    place = (sentence, start, end)
    if text:
        database.execute("REPLACE INTO notes VALUES (?, ?, ?, ?)", (*place, text))
    else:
        database.execute("DELETE FROM notes WHERE (sentence, start, stop) = (?, ?, ?)", place)
