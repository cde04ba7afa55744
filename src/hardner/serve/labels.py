"""The labels of sentences: set with a version check, many at once, and removed with their type."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hardner.serve.database import Database, compact_json, record_event
from hardner.serve.errors import Conflict, Refused
from hardner.serve.loose import TOUCHED
from hardner.serve.mention_types import find_type, restore_types, type_names, type_numbers
from hardner.serve.predictions import compare_sentences, compare_type
from hardner.serve.readings import (
    Mark,
    SentenceRow,
    as_read,
    clashes,
    decide,
    keep_reading,
    merge_readings,
)
from hardner.serve.sentences import (
    PARTLY,
    find_sentence,
    find_sentences,
    select_sentences,
    to_sentence,
    token_offsets,
)
from hardner.types import Sentence


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
    def of_event(cls, held: Mapping[str, Any]) -> "SentenceLabels":
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
        spans -= {mark for mark in spans - kept if clashes(mark, kept)}
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
    (row,) = as_read(database, [find_sentence(database, number)])
    if row["version"] != version:
        raise Conflict("the sentence was changed elsewhere; this is how it is now")
    types = {number: name for name, number in type_numbers(database).items()}
    _check(labels, len(token_offsets(row)), types)
    before = SentenceLabels.of_row(row)
    if before != labels:
        write_labels(database, {number: labels})
        record_event(
            database,
            "label",
            document=row["document"],
            sentence=number,
            before=before._asdict(),
            after=labels._asdict(),
        )


def labels_as_seen(database: Database, numbers: Iterable[int]) -> dict[int, SentenceLabels]:
    """What the annotator sees of sentences: their labels, or, reading alone, their own."""
    rows = as_read(database, find_sentences(database, [*numbers]))
    return {row["id"]: SentenceLabels.of_row(row) for row in rows}


def set_many(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    """Set the labels of many sentences as one change, which one undo takes back."""
    rows = {row["id"]: row for row in as_read(database, find_sentences(database, [*wanted]))}
    before = {number: SentenceLabels.of_row(row) for number, row in rows.items()}
    after = {number: wanted[number] for number in rows if wanted[number] != before[number]}
    types = {number: name for name, number in type_numbers(database).items()}
    for number, labels in after.items():
        _check(labels, len(token_offsets(rows[number])), types)
    if after:
        write_labels(database, after)
        then, now = (
            {"sentences": {number: side[number]._asdict() for number in after}}
            for side in (before, after)
        )
        record_event(database, "labels", before=then, after=now)


def labels_of_side(side: Mapping[str, Any]) -> dict[int, SentenceLabels]:
    """The labels of many sentences, as a side of an event holds them."""
    return {int(n): SentenceLabels.of_event(held) for n, held in side["sentences"].items()}


def write_labels(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    """Set what the annotator says of sentences, and what these hold by that."""
    _restore_types_of(database, wanted)
    for number, labels in wanted.items():
        keep_reading(database, number, labels.state, labels.spans, labels.rejected)
    if database.alone:
        wanted = {number: SentenceLabels(*merge_readings(database, number)) for number in wanted}
    _set_labels(database, wanted)


def _restore_types_of(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
    every = wanted.values()
    restore_types(database, {mark[2] for own in every for mark in (*own.spans, *own.rejected)})


def _set_labels(database: Database, wanted: Mapping[int, SentenceLabels]) -> None:
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


def set_as_merged(database: Database, number: int) -> None:
    """Set the labels of a sentence to what its readings and verdicts come to."""
    _set_labels(database, {number: SentenceLabels(*merge_readings(database, number))})


def decide_difference(
    database: Database, number: int, marks: Sequence[Mark], wanted: set[Mark]
) -> None:
    """Say which of the marks that annotators differ on are wanted."""
    row = find_sentence(database, number)
    before = SentenceLabels.of_row(row)
    decide(database, number, marks, wanted)
    after = SentenceLabels(*merge_readings(database, number))
    set_as_merged(database, number)
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
    set_type_labels(database, sides[1])
    record_event(database, "untype", before=sides[0], after=sides[1])


def set_type_labels(database: Database, side: Mapping[str, Any]) -> None:
    """Remove a type or bring it back, with the labels of a side of that event."""
    number = side["type"]
    if side["removed"]:
        database.execute("UPDATE types SET removed = 1 WHERE id = ?", (number,))
    else:
        restore_types(database, [number])
    _set_labels(database, labels_of_side(side))
    compare_type(database, type_names(database)[number])


def labelled_sentences(database: Database, held_out: bool, partly: bool = False) -> list[Sentence]:
    """The labelled sentences to learn from, or those held out to score on.

    With those that are partly reviewed, if asked; without those that hold a mention which fits no
    words.
    """
    names = type_names(database)
    begun = f"(state <> 'open' OR {PARTLY})" if partly else "state <> 'open'"
    where = f"""NOT removed AND held_out = ? AND {begun} AND NOT {TOUCHED}
        ORDER BY sentences.id"""
    return [to_sentence(row, names) for row in select_sentences(database, where, held_out)]
