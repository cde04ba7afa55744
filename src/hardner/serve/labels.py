"""The labels of a sentence: set with a version check, undone and redone, and their history."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from hardner.serve.database import Database, compact_json, find_event, record_event, undo_tops
from hardner.serve.errors import Conflict, Refused
from hardner.serve.mention_types import restore_types, type_names, type_numbers
from hardner.serve.predictions import compare_sentences
from hardner.serve.sentences import (
    Mark,
    find_sentence,
    select_sentences,
    show_marks,
    to_sentence,
    token_offsets,
)
from hardner.types import Sentence

_MENTION = 60  # characters of a mention in the description of an event


class SentenceLabels(NamedTuple):
    """What the user has said of a sentence."""

    spans: tuple[Mark, ...]
    none: bool
    """Marked as holding no mention."""
    rejected: tuple[Mark, ...]
    """Predicted mentions that the user does not want."""

    @classmethod
    def of_event(cls, side: str) -> "SentenceLabels":
        """From the column ``before`` or ``after`` of an event."""
        held = json.loads(side)
        return cls(_marks(held["spans"]), held["none"], _marks(held["rejected"]))

    @property
    def state(self) -> str:
        """The sentence's state, as the table has it."""
        return "none" if self.none else "labelled" if self.spans else "open"


def _marks(held: Iterable[Sequence[int]]) -> tuple[Mark, ...]:
    return tuple(sorted({(start, end, number) for start, end, number in held}))


def _check(labels: SentenceLabels, tokens: int, types: dict[int, str]) -> None:
    if labels.none and labels.spans:
        raise Refused("a sentence with labels cannot be marked as holding none")
    for start, end, number in (*labels.spans, *labels.rejected):
        if not 0 <= start < end <= tokens:
            raise Refused(f"span {start} to {end} is not within the {tokens} tokens")
        if number not in types:
            raise Refused(f"there is no type {number}")
    by_type = sorted(labels.spans, key=lambda mark: (mark[2], mark[0]))
    for one, other in pairwise(by_type):
        if one[2] == other[2] and other[0] < one[1]:
            raise Refused(f"two {types[one[2]]} spans overlap at token {other[0]}")


def set_labels(database: Database, number: int, version: int, labels: SentenceLabels) -> None:
    """Set the labels of a sentence, if it still has the version that the user saw."""
    row = find_sentence(database, number)
    if row["version"] != version:
        raise Conflict("the sentence was changed elsewhere; this is how it is now")
    types = {number: name for name, number in type_numbers(database).items()}
    _check(labels, len(token_offsets(row)), types)
    spans, rejected = (_marks(json.loads(row[name])) for name in ("spans", "rejected"))
    before = SentenceLabels(spans, row["state"] == "none", rejected)
    if before != labels:
        _write(database, number, labels)
        record_event(
            database,
            "label",
            document=row["document"],
            sentence=number,
            before=before._asdict(),
            after=labels._asdict(),
        )


def _write(database: Database, number: int, labels: SentenceLabels) -> None:
    database.execute(
        """UPDATE sentences SET state = ?, spans = ?, rejected = ?, version = version + 1
           WHERE id = ?""",
        (labels.state, compact_json(labels.spans), compact_json(labels.rejected), number),
    )
    restore_types(database, (mark[2] for mark in (*labels.spans, *labels.rejected)))
    compare_sentences(database, [number])


def take_step(
    database: Database, kind: Literal["undo", "redo"], expected: int | None
) -> sqlite3.Row:
    """Undo the last change, or redo what was undone last; returns the new event.

    ``expected`` is the event that the user wants to undo or redo, if known.
    """
    top = undo_tops(database)[kind]
    if top is None:
        raise Conflict(f"there is nothing to {kind}")
    if expected not in (None, top):
        raise Conflict(f"something else would be the next {kind} now")
    change = _change_of(database, find_event(database, top))
    side = change["before" if kind == "undo" else "after"]
    if change["kind"] == "remove":
        values = (int(json.loads(side)["removed"]), change["document"])
        database.execute("UPDATE documents SET removed = ? WHERE id = ?", values)
    else:
        _write(database, change["sentence"], SentenceLabels.of_event(side))
    document, sentence = change["document"], change["sentence"]
    event = record_event(database, kind, document=document, sentence=sentence, target=top)
    return find_event(database, event)


def _change_of(database: Database, event: sqlite3.Row) -> sqlite3.Row:
    """The change that an event makes, takes back or makes again."""
    while event["target"] is not None:
        event = find_event(database, event["target"])
    return event


def label_history(database: Database, number: int) -> list[dict[str, Any]]:
    """The events of a sentence, newest first, with its labels after each."""
    find_sentence(database, number)
    rows = database.execute("SELECT * FROM events WHERE sentence = ? ORDER BY id DESC", (number,))
    events = []
    for row in rows:
        side = "before" if row["kind"] == "undo" else "after"
        spans, none, rejected = SentenceLabels.of_event(_change_of(database, row)[side])
        then = {"spans": show_marks(spans), "none": none, "rejected": show_marks(rejected)}
        events.append(show_event(database, row) | then)
    return events


def labelled_sentences(database: Database, held_out: bool) -> list[Sentence]:
    """The labelled sentences to learn from, or those held out to score on."""
    names = type_names(database)
    where = "NOT removed AND held_out = ? AND state <> 'open' ORDER BY sentences.id"
    return [to_sentence(row, names) for row in select_sentences(database, where, held_out)]


def show_event(database: Database, event: sqlite3.Row) -> dict[str, Any]:
    """An event as the page gets it, with what it did in words."""
    shown = {name: event[name] for name in ("id", "at", "kind", "document", "sentence")}
    return {**shown, "what": _describe(database, _change_of(database, event))}


def show_undo(database: Database) -> dict[str, Any]:
    """What the next undo and redo act on."""
    return {
        kind: None if top is None else show_event(database, find_event(database, top))
        for kind, top in undo_tops(database).items()
    }


def _describe(database: Database, change: sqlite3.Row) -> str:
    if change["kind"] == "remove":
        (name,) = database.execute(
            "SELECT name FROM documents WHERE id = ?", (change["document"],)
        ).fetchone()
        return f"remove the document {name}"
    if change["kind"] != "label":
        return str(change["kind"])
    before, after = (SentenceLabels.of_event(change[side]) for side in ("before", "after"))
    if before.none != after.none and not before.spans:
        return "mark as no entity" if after.none else "unmark no entity"
    for verb, one, other in (
        ("label", after.spans, before.spans),
        ("unlabel", before.spans, after.spans),
        ("reject", after.rejected, before.rejected),
        ("take back the rejection of", before.rejected, after.rejected),
    ):
        if new := sorted(set(one) - set(other)):
            mention = _mention(database, change["sentence"], new[0])
            more = f" and {len(new) - 1} more" if len(new) > 1 else ""
            return f"{verb} {mention}{more}"
    return "label"


def _mention(database: Database, sentence: int, mark: Mark) -> str:
    """The text and type of a mention, also in a document that was removed."""
    row = select_sentences(database, "sentences.id = ?", sentence).fetchone()
    offsets, (first, end, number) = token_offsets(row), mark
    text = row["text"][offsets[first][0] : offsets[end - 1][1]]
    return f'"{text[:_MENTION]}" {type_names(database)[number]}'
