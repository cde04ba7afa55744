"""What was done to a project, in words, and its undo and redo, for all that can be changed."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Literal

from hardner.serve.database import Database, find_event, record_event, undo_tops
from hardner.serve.documents import set_document
from hardner.serve.errors import Conflict
from hardner.serve.labels import (
    SentenceLabels,
    labels_as_seen,
    labels_of_side,
    set_as_merged,
    set_type_labels,
    write_labels,
)
from hardner.serve.loose import show_loose_text, write_loose
from hardner.serve.mention_types import set_type, type_names
from hardner.serve.predictions import compare_type
from hardner.serve.readings import Mark, annotator_names, set_verdicts
from hardner.serve.sentences import (
    find_sentence,
    select_sentences,
    show_marks,
    token_offsets,
    write_note,
)

_MENTION = 60  # characters of a mention in the description of an event
_Side = Mapping[str, Any]


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
    names = ("after", "before") if kind == "undo" else ("before", "after")
    left, side = (json.loads(change[name]) for name in names)
    if change["kind"] in _LABELS:
        _turn_labels(database, *map(_LABELS[change["kind"]], (change, change), (left, side)))
    else:
        _SETTERS[change["kind"]](database, change, side)
    document, sentence = change["document"], change["sentence"]
    event = record_event(database, kind, document=document, sentence=sentence, target=top)
    return find_event(database, event)


def _change_of(database: Database, event: sqlite3.Row) -> sqlite3.Row:
    """The change that an event makes, takes back or makes again."""
    while event["target"] is not None:
        event = find_event(database, event["target"])
    return event


def _set_type(database: Database, side: _Side) -> None:
    compare_type(database, *set_type(database, side))


def _turn_labels(
    database: Database, left: dict[int, SentenceLabels], side: dict[int, SentenceLabels]
) -> None:
    """Go from labels to others; what else has changed in their sentences since stays as it is."""
    now = labels_as_seen(database, side)
    turned = {number: now[number].turned(left[number], side[number]) for number in now}
    write_labels(database, turned)


def _set_verdict(database: Database, change: sqlite3.Row, side: _Side) -> None:
    verdicts = ((tuple(mark), wanted) for mark, wanted in side["verdicts"])
    set_verdicts(database, change["sentence"], verdicts)
    set_as_merged(database, change["sentence"])


_LABELS: dict[str, Callable[[sqlite3.Row, _Side], dict[int, SentenceLabels]]] = {
    "label": lambda change, side: {change["sentence"]: SentenceLabels.of_event(side)},
    "labels": lambda _, side: labels_of_side(side),
}
"""The labels that a side of a change holds, by the kind of the change."""
_SETTERS: dict[str, Callable[[Database, sqlite3.Row, _Side], None]] = {
    "verdict": _set_verdict,
    "untype": lambda database, _, side: set_type_labels(database, side),
    "type": lambda database, _, side: _set_type(database, side),
    "note": lambda database, change, side: write_note(database, change["sentence"], **side),
    "loose": lambda database, _, side: write_loose(database, **side),
    "document": lambda database, change, side: set_document(database, change["document"], side),
    "remove": lambda database, change, side: set_document(database, change["document"], side),
}
"""What makes a side of a change true again, by the kind of the change."""


def label_history(database: Database, number: int) -> list[dict[str, Any]]:
    """What happened to the labels of a sentence alone, newest first, with its labels after it."""
    find_sentence(database, number)
    rows = database.execute("SELECT * FROM events WHERE sentence = ? ORDER BY id DESC", (number,))
    events = []
    for row in rows:
        if (change := _change_of(database, row))["kind"] not in ("label", "verdict"):
            continue
        side = "before" if row["kind"] == "undo" else "after"
        then = SentenceLabels.of_event(json.loads(change[side]))._asdict()
        then |= {name: show_marks(then[name]) for name in ("spans", "rejected")}
        events.append(show_event(database, row) | then)
    return events


def show_event(database: Database, event: sqlite3.Row) -> dict[str, Any]:
    """An event as the page gets it, with who did what, in words."""
    shown = {name: event[name] for name in ("id", "at", "kind", "document", "sentence")}
    shown["by"] = annotator_names(database)[event["annotator"]]
    return {**shown, "what": _describe(database, _change_of(database, event))}


def show_undo(database: Database) -> dict[str, Any]:
    """What the next undo and redo act on."""
    return {
        kind: None if top is None else show_event(database, find_event(database, top))
        for kind, top in undo_tops(database).items()
    }


def _describe(database: Database, change: sqlite3.Row) -> str:
    if change["before"] is None:
        return str(change["kind"])
    before, after = (json.loads(change[side]) for side in ("before", "after"))
    match change["kind"]:
        case "label":
            return _describe_labels(
                database, change["sentence"], *map(SentenceLabels.of_event, (before, after))
            )
        case "labels":
            sides = (labels_of_side(side).values() for side in (after, before))
            spans, fewer = (sum(len(own.spans) for own in side) for side in sides)
            return f"label {spans - fewer:,} mentions at once"
        case "type":
            return _describe_type(before, after)
        case "untype":
            return f"delete the type {type_names(database)[before['type']]}"
        case "verdict":
            mark, _ = after["verdicts"][0]
            return f"decide on {_mention(database, change['sentence'], mark)}"
        case "note":
            return f"note {after['text'][:_MENTION]!r}" if after["text"] else "delete a note"
        case "loose":
            return f"remove {show_loose_text(database, before['number'])[:_MENTION]!r}"
    row = database.execute("SELECT name FROM documents WHERE id = ?", (change["document"],))
    verb = "remove" if change["kind"] == "remove" else "change"
    if "held_out" in after:
        verb = "hold out" if after["held_out"] else "no longer hold out"
    return f"{verb} the document {row.fetchone()['name']}"


def _describe_type(before: _Side, after: _Side) -> str:
    if before["removed"]:
        return f"make the type {after['name']}"
    changed = next(part for part in after if before[part] != after[part])
    return f"change the {changed} of the type {after['name']}"


def _describe_labels(
    database: Database, sentence: int, before: SentenceLabels, after: SentenceLabels
) -> str:
    if before.none != after.none and not before.spans:
        return "mark as no entity" if after.none else "unmark no entity"
    for verb, one, other in (
        ("label", after.spans, before.spans),
        ("unlabel", before.spans, after.spans),
        ("reject", after.rejected, before.rejected),
        ("take back the rejection of", before.rejected, after.rejected),
    ):
        if new := sorted(set(one) - set(other)):
            mention = _mention(database, sentence, new[0])
            more = f" and {len(new) - 1} more" if len(new) > 1 else ""
            return f"{verb} {mention}{more}"
    return "mark as partly reviewed" if after.partial else "mark as done"


def _mention(database: Database, sentence: int, mark: Mark) -> str:
    row = select_sentences(database, "sentences.id = ?", sentence).fetchone()
    offsets, (first, end, number) = token_offsets(row), mark
    text = row["text"][offsets[first][0] : offsets[end - 1][1]]
    return f'"{text[:_MENTION]}" {type_names(database)[number]}'
