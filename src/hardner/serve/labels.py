"""The labels of a sentence: set with a version check, undone and redone, and their history."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from hardner.serve.database import Database, compact_json, find_event, record_event, undo_tops
from hardner.serve.documents import set_document
from hardner.serve.errors import Conflict, Refused
from hardner.serve.mention_types import find_type, restore_types, type_names, type_numbers
from hardner.serve.predictions import compare_sentences, compare_type
from hardner.serve.readings import (
    Mark,
    SentenceRow,
    annotator_names,
    as_read,
    decide,
    keep_reading,
    merge_readings,
    set_verdicts,
)
from hardner.serve.sentences import (
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
    partial: bool = False
    """Whether there may be mentions beside the labelled ones."""

    @classmethod
    def of_row(cls, row: SentenceRow) -> "SentenceLabels":
        """What the table says."""
        spans, rejected = (_marks(json.loads(row[name])) for name in ("spans", "rejected"))
        partial = row["state"] == "open" and bool(spans)
        return cls(spans, row["state"] == "none", rejected, partial)

    @classmethod
    def of_event(cls, held: dict[str, Any]) -> "SentenceLabels":
        """What a side of an event says, which may come from before labels could be partial."""
        spans, rejected = _marks(held["spans"]), _marks(held["rejected"])
        return cls(spans, held["none"], rejected, held.get("partial", False))

    @property
    def state(self) -> str:
        return "none" if self.none else "labelled" if self.spans and not self.partial else "open"

    def turned(self, old: "SentenceLabels", new: "SentenceLabels") -> "SentenceLabels":
        """These labels with the change from the old to the new ones, and all else as it is."""
        if self == old:
            return new
        spans, rejected = (
            (set(mine) - (set(was) - set(then))) | (set(then) - set(was))
            for mine, was, then in (
                (self.spans, old.spans, new.spans),
                (self.rejected, old.rejected, new.rejected),
            )
        )
        kept = set(self.spans) & spans
        spans -= {
            one
            for one in spans - kept
            if any(one[2] == k[2] and one[0] < k[1] and k[0] < one[1] for k in kept)
        }
        none, partial = (
            now if was == then else then
            for now, was, then in (
                (self.none, old.none, new.none),
                (self.partial, old.partial, new.partial),
            )
        )
        return SentenceLabels(
            _marks(spans), none and not spans, _marks(rejected), partial and bool(spans)
        )

    def without(self, kind: int) -> "SentenceLabels":
        spans, rejected = (
            tuple(mark for mark in marks if mark[2] != kind)
            for marks in (self.spans, self.rejected)
        )
        return self._replace(spans=spans, rejected=rejected)


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
    row = _as_seen(database, number)
    if row["version"] != version:
        raise Conflict("the sentence was changed elsewhere; this is how it is now")
    types = {number: name for name, number in type_numbers(database).items()}
    _check(labels, len(token_offsets(row)), types)
    before = SentenceLabels.of_row(row)
    if before != labels:
        _write(database, {number: labels})
        record_event(
            database,
            "label",
            document=row["document"],
            sentence=number,
            before=before._asdict(),
            after=labels._asdict(),
        )


def _as_seen(database: Database, number: int) -> SentenceRow:
    (row,) = as_read(database, [find_sentence(database, number)])
    return row


def _write(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    """Set what the annotator says of sentences, and what these hold by that."""
    _restore_types_of(database, wanted)
    for number, labels in wanted.items():
        keep_reading(database, number, labels.state, labels.spans, labels.rejected)
    if database.alone:
        wanted = {number: SentenceLabels(*merge_readings(database, number)) for number in wanted}
    _set(database, wanted)


def _restore_types_of(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    every = wanted.values()
    restore_types(database, {mark[2] for own in every for mark in (*own.spans, *own.rejected)})


def _set(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    """Set the labels of sentences, whoever said so."""
    _restore_types_of(database, wanted)
    database.executemany(
        """UPDATE sentences SET state = ?, spans = ?, rejected = ?, version = version + 1
           WHERE id = ?""",
        (
            (labels.state, compact_json(labels.spans), compact_json(labels.rejected), number)
            for number, labels in wanted.items()
        ),
    )
    compare_sentences(database, [*wanted])


def decide_difference(
    database: Database, number: int, marks: Sequence[Mark], wanted: set[Mark]
) -> None:
    """Say which of the marks that annotators differ on are wanted."""
    row = find_sentence(database, number)
    before = SentenceLabels.of_row(row)
    decide(database, number, marks, wanted)
    after = SentenceLabels(*merge_readings(database, number))
    _set(database, {number: after})
    sides = (
        labels._asdict() | {"verdicts": [[mark, verdict] for mark, verdict in said]}
        for labels, said in (
            (before, [(mark, None) for mark in marks]),
            (after, [(mark, mark in wanted) for mark in marks]),
        )
    )
    event = {"document": row["document"], "sentence": number}
    record_event(database, "verdict", **event, before=next(sides), after=next(sides))


def remove_type(database: Database, number: int, with_labels: bool) -> None:
    """Remove a type, with its labels or if it has none; an undo brings all of it back."""
    found = find_type(database, number)
    if found["spans"] and not with_labels:
        raise Conflict(f"{found['name']} is used by {found['spans']} labels; remove them first")
    of_type = "EXISTS (SELECT 1 FROM json_each({}) WHERE json_extract(value, '$[2]') = ?1)"
    rows = database.execute(
        f"""SELECT id, state, spans, rejected FROM sentences
            WHERE {of_type.format("spans")} OR {of_type.format("rejected")}""",
        (number,),
    )
    before = {row["id"]: SentenceLabels.of_row(row) for row in rows}
    after = {sentence: labels.without(number) for sentence, labels in before.items()}
    sides = [
        {"type": number, "removed": removed, "sentences": {n: s._asdict() for n, s in own.items()}}
        for removed, own in ((False, before), (True, after))
    ]
    _set_type(database, sides[1])
    record_event(database, "untype", before=sides[0], after=sides[1])


def _set_type(database: Database, side: dict[str, Any]) -> None:
    number = side["type"]
    if side["removed"]:
        database.execute("UPDATE types SET removed = 1 WHERE id = ?", (number,))
    else:
        restore_types(database, [number])
    held = side["sentences"].items()
    _set(database, {int(n): SentenceLabels.of_event(labels) for n, labels in held})
    compare_type(database, type_names(database)[number])


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
    document, sentence = change["document"], change["sentence"]
    if change["kind"] == "label":
        now = SentenceLabels.of_row(_as_seen(database, sentence))
        then = now.turned(SentenceLabels.of_event(left), SentenceLabels.of_event(side))
        _write(database, {sentence: then})
    elif change["kind"] == "verdict":
        said = ((tuple(mark), wanted) for mark, wanted in side["verdicts"])
        set_verdicts(database, sentence, said)
        _set(database, {sentence: SentenceLabels(*merge_readings(database, sentence))})
    elif change["kind"] == "untype":
        _set_type(database, side)
    else:
        set_document(database, document, side)
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
        then = SentenceLabels.of_event(json.loads(_change_of(database, row)[side]))._asdict()
        then |= {name: show_marks(then[name]) for name in ("spans", "rejected")}
        events.append(show_event(database, row) | then)
    return events


def labelled_sentences(database: Database, held_out: bool) -> list[Sentence]:
    """The labelled sentences to learn from, or those held out to score on."""
    names = type_names(database)
    where = "NOT removed AND held_out = ? AND state <> 'open' ORDER BY sentences.id"
    return [to_sentence(row, names) for row in select_sentences(database, where, held_out)]


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
    sides = [json.loads(change[side]) for side in ("before", "after")]
    if change["kind"] == "untype":
        return f"delete the type {type_names(database)[sides[0]['type']]}"
    if change["kind"] == "verdict":
        mark, _ = sides[1]["verdicts"][0]
        return f"decide on {_mention(database, change['sentence'], mark)}"
    if change["kind"] != "label":
        row = database.execute("SELECT name FROM documents WHERE id = ?", (change["document"],))
        verb = "remove" if change["kind"] == "remove" else "change"
        return f"{verb} the document {row.fetchone()['name']}"
    before, after = map(SentenceLabels.of_event, sides)
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
    return "mark as partly reviewed" if after.partial else "mark as done"


def _mention(database: Database, sentence: int, mark: Mark) -> str:
    row = select_sentences(database, "sentences.id = ?", sentence).fetchone()
    offsets, (first, end, number) = token_offsets(row), mark
    text = row["text"][offsets[first][0] : offsets[end - 1][1]]
    return f'"{text[:_MENTION]}" {type_names(database)[number]}'
