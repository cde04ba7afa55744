"""What each annotator says of a sentence, how far they agree, and verdicts on the rest."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from hardner.serve.database import Database, acting_name, compact_json, record_event
from hardner.serve.errors import Conflict, Refused, only
from hardner.serve.mention_types import type_numbers

Mark = tuple[int, int, int]
"""A label as the project keeps it: start and end in tokens, and the number of the type."""
SentenceRow = sqlite3.Row | dict[str, Any]
_UNREAD = {"version": 0, "state": "open", "spans": "[]", "rejected": "[]"}


class Reading(NamedTuple):
    """The labels that one annotator gave to a sentence."""

    annotator: int
    state: str
    spans: frozenset[Mark]
    rejected: frozenset[Mark]


class Merged(NamedTuple):
    """What readings of a sentence come to."""

    spans: tuple[Mark, ...]
    none: bool
    rejected: tuple[Mark, ...]
    partial: bool


def as_read(database: Database, rows: Iterable[sqlite3.Row]) -> list[SentenceRow]:
    """The sentences with the labels that the annotator sees: all reading alone, only their own."""
    given = list(rows)
    if not database.alone:
        return [*given]
    numbers = json.dumps([row["id"] for row in given])
    own = {
        row["sentence"]: {name: row[name] for name in _UNREAD}
        for row in database.execute(
            """SELECT * FROM readings WHERE annotator = ?
               AND sentence IN (SELECT value FROM json_each(?))""",
            (database.annotator, numbers),
        )
    }
    types = _types_in_use(database)
    return [{**dict(row), **_of_types(own.get(row["id"], _UNREAD), types)} for row in given]


def _types_in_use(database: Database) -> frozenset[int]:
    return frozenset(n for (n,) in database.execute("SELECT id FROM types WHERE NOT removed"))


def _of_types(reading: Mapping[str, Any], types: Collection[int]) -> dict[str, Any]:
    """A reading without the marks of types that were removed since."""
    spans, rejected = (
        [mark for mark in json.loads(reading[name]) if mark[2] in types]
        for name in ("spans", "rejected")
    )
    emptied = reading["state"] == "labelled" and not spans
    state = "open" if emptied else reading["state"]
    shown = {"spans": compact_json(spans), "rejected": compact_json(rejected), "state": state}
    return {**reading, **shown}


def keep_reading(
    database: Database, sentence: int, state: str, spans: Sequence[Mark], rejected: Sequence[Mark]
) -> None:
    """Note that the annotator says this of a sentence."""
    if not database.alone:
        others = [one for one in readings_of(database, sentence) if one.state != "open"]
        if len(others) > 1:  # what differed is decided by these labels, and the readings stay
            database.execute("DELETE FROM verdicts WHERE sentence = ?", (sentence,))
            if state != "open":
                every = frozenset(spans).union(*(one.spans for one in others))
                set_verdicts(database, sentence, ((mark, mark in spans) for mark in every))
            return
        database.execute("DELETE FROM readings WHERE sentence = ?", (sentence,))
    database.execute(
        """INSERT INTO readings (sentence, annotator, state, spans, rejected)
           VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = version + 1,
           state = excluded.state, spans = excluded.spans, rejected = excluded.rejected""",
        (sentence, database.annotator, state, compact_json(spans), compact_json(rejected)),
    )


def readings_of(database: Database, sentence: int) -> list[Reading]:
    rows = database.execute(
        "SELECT * FROM readings WHERE sentence = ? ORDER BY annotator", (sentence,)
    )
    types = _types_in_use(database)
    return [as_reading(row, types) for row in rows]


def as_reading(row: sqlite3.Row, types: Collection[int]) -> Reading:
    shown = _of_types({name: row[name] for name in _UNREAD}, types)
    marks = (frozenset(map(tuple, json.loads(shown[name]))) for name in ("spans", "rejected"))
    return Reading(row["annotator"], shown["state"], *marks)


def disputed_marks(readings: Sequence[Reading]) -> list[Mark]:
    """The marks that some of the readings have and others have not."""
    every = [reading.spans for reading in readings]
    return sorted(frozenset().union(*every) - frozenset.intersection(*every)) if every else []


def merge_readings(database: Database, sentence: int) -> Merged:
    """What all who read a sentence to its end agree on, and the verdicts where they do not.

    While a mark is undecided, so is what the sentence holds beside the others.
    """
    readings = readings_of(database, sentence)
    read = [one for one in readings if one.state != "open"]
    chosen = read or readings
    agreed = frozenset.intersection(*(one.spans for one in chosen)) if chosen else frozenset()
    said = verdicts_of(database, sentence)
    spans = {mark for mark in agreed if said.get(mark, True)}
    for mark, wanted in said.items():
        if wanted and not clashes(mark, spans):
            spans.add(mark)
    undecided = any(mark not in said for mark in disputed_marks(chosen))
    rejected = frozenset().union(*(one.rejected for one in chosen)) - spans
    done = bool(read) and not undecided
    return Merged(
        tuple(sorted(spans)),
        done and not spans,
        tuple(sorted(rejected)),
        bool(spans) and not done,
    )


def clashes(mark: Mark, others: Iterable[Mark]) -> bool:
    """Whether a mark cannot be a label beside others: those of one type may not overlap."""
    return any(mark[2] == o[2] and mark[0] < o[1] and o[0] < mark[1] for o in others)


def verdicts_of(database: Database, sentence: int) -> dict[Mark, bool]:
    rows = database.execute("SELECT * FROM verdicts WHERE sentence = ?", (sentence,))
    return {(row["start"], row["stop"], row["type"]): bool(row["wanted"]) for row in rows}


def set_verdicts(
    database: Database, sentence: int, verdicts: Iterable[tuple[Mark, bool | None]]
) -> None:
    """Whether each of some marks is wanted; None takes a verdict back."""
    for mark, wanted in verdicts:
        database.execute(
            "DELETE FROM verdicts WHERE sentence = ? AND start = ? AND stop = ? AND type = ?",
            (sentence, *mark),
        )
        if wanted is not None:
            values = (sentence, *mark, int(wanted))
            database.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?)", values)


def undecided_marks(database: Database, sentence: int) -> list[Mark]:
    read = [one for one in readings_of(database, sentence) if one.state != "open"]
    said = verdicts_of(database, sentence)
    return [mark for mark in disputed_marks(read) if mark not in said]


def differing_sentences(database: Database) -> list[int]:
    """The sentences of which annotators who read them to their end say different things."""
    rows = database.execute(
        """SELECT sentence FROM readings JOIN sentences ON sentences.id = sentence
           JOIN documents ON documents.id = document
           WHERE NOT removed AND readings.state <> 'open' GROUP BY sentence
           HAVING count(*) > 1 AND min(readings.spans) <> max(readings.spans) ORDER BY sentence"""
    )
    return [number for (number,) in rows]


def connected(marks: Sequence[Mark]) -> list[list[Mark]]:
    """Marks in groups that do not overlap each other: each is one difference to decide."""
    groups: list[list[Mark]] = []
    for mark in sorted(marks):
        if groups and mark[0] < max(stop for _, stop, _ in groups[-1]):
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return groups


def decide(database: Database, sentence: int, marks: Sequence[Mark], wanted: set[Mark]) -> None:
    """Check a verdict on marks that differ, and note it; the caller merges the readings."""
    undecided = undecided_marks(database, sentence)
    if not marks or not set(marks) <= set(undecided) or not wanted <= set(marks):
        raise Conflict("this difference has been decided already, or is none any more")
    ordered = sorted(wanted)
    if any(clashes(mark, ordered[:place]) for place, mark in enumerate(ordered)):
        raise Refused("labels of one type cannot overlap; take one of them")
    set_verdicts(database, sentence, ((mark, mark in wanted) for mark in marks))


def annotator_names(database: Database) -> dict[int, str]:
    return {row["id"]: row["name"] for row in database.execute("SELECT * FROM annotators")}


def own_name(database: Database) -> str:
    """The name of the annotator on whose behalf the project is used."""
    return acting_name.get() or annotator_names(database)[1]


def rename_annotator(database: Database, number: int, name: str) -> None:
    rows = database.execute("SELECT id FROM annotators WHERE id = ?", (number,))
    only(rows, f"annotator {number}")
    if name in (names := annotator_names(database)).values() and names[number] != name:
        raise Conflict(f"there is an annotator {name} already")
    database.execute("UPDATE annotators SET name = ? WHERE id = ?", (name, number))
    record_event(database, "people")


def let_read_alone(database: Database, alone: bool) -> None:
    """Whether annotators see their own labels alone, or all the same ones."""
    database.execute("DELETE FROM options WHERE name = 'alone'")
    if alone:
        database.execute("INSERT INTO options VALUES ('alone', 'yes')")
    database.alone = alone
    record_event(database, "people")


class _Pair(NamedTuple):
    """A sentence as two have read it."""

    tokens: int
    one: Reading
    other: Reading


def kappa(one: Sequence[Hashable], other: Sequence[Hashable]) -> float | None:
    """Cohen's kappa: (observed - expected agreement) / (1 - expected), None where that is 0 / 0."""
    if not one:
        return None
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / len(one)
    chosen = set(one) | set(other)
    expected = sum(one.count(c) * other.count(c) for c in chosen) / len(one) ** 2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def agreement(database: Database) -> list[dict[str, Any]]:
    """How far each pair of annotators agrees: F1 and kappa for each type and over all.

    F1 is that of mentions with the same ends and type, for which it does not matter who is taken
    as right. Kappa compares tokens: inside a mention of the type or not, and over all types, of
    which types.
    """
    names, found = annotator_names(database), []
    for (one, other), pairs in sorted(_pairs(database).items()):
        marked = {mark[2] for pair in pairs for r in pair[1:] for mark in r.spans}
        types = [_compare(pairs, {t}) | {"type": t} for t in sorted(marked)]
        about = {"one": names[one], "other": names[other], "sentences": len(pairs)}
        found.append({**about, **_compare(pairs, marked), "types": types})
    return found


def _pairs(database: Database) -> dict[tuple[int, int], list[_Pair]]:
    rows = database.execute(
        """SELECT readings.*, json_array_length(tokens) / 2 AS length FROM readings
           JOIN sentences ON sentences.id = sentence JOIN documents ON documents.id = document
           WHERE NOT removed AND readings.state <> 'open' AND sentence IN (
               SELECT sentence FROM readings WHERE state <> 'open'
               GROUP BY sentence HAVING count(*) > 1)
           ORDER BY sentence, annotator"""
    )
    types = frozenset(type_numbers(database).values())
    read: dict[int, list[tuple[int, Reading]]] = defaultdict(list)
    for row in rows:
        if (reading := as_reading(row, types)).state != "open":
            read[row["sentence"]].append((row["length"], reading))
    pairs: dict[tuple[int, int], list[_Pair]] = defaultdict(list)
    for readings in read.values():
        for (tokens, one), (_, other) in combinations(readings, 2):
            pairs[one.annotator, other.annotator].append(_Pair(tokens, one, other))
    return pairs


def _compare(pairs: Sequence[_Pair], types: set[int]) -> dict[str, Any]:
    both = marks = 0
    ours: list[frozenset[int]] = []
    theirs: list[frozenset[int]] = []
    for tokens, one, other in pairs:
        a, b = ({mark for mark in side.spans if mark[2] in types} for side in (one, other))
        both, marks = both + len(a & b), marks + len(a) + len(b)
        ours += _inside(tokens, a)
        theirs += _inside(tokens, b)
    f1 = 2 * both / marks if marks else None
    return {"both": both, "differ": marks - 2 * both, "f1": f1, "kappa": kappa(ours, theirs)}


def _inside(tokens: int, marks: Collection[Mark]) -> Iterator[frozenset[int]]:
    """Of each token, the types of the mentions that it is part of."""
    for at in range(tokens):
        yield frozenset(kind for start, stop, kind in marks if start <= at < stop)


def list_people(database: Database) -> list[dict[str, Any]]:
    """The annotators, how much each has read and labelled, and when they were last at it."""
    rows = database.execute(
        """SELECT annotators.id, name,
                  (SELECT count(*) FROM readings JOIN sentences ON sentences.id = sentence
                   JOIN documents ON documents.id = document
                   WHERE annotator = annotators.id AND readings.state <> 'open' AND NOT removed)
                      AS sentences,
                  (SELECT coalesce(sum(json_array_length(readings.spans)), 0) FROM readings
                   JOIN sentences ON sentences.id = sentence
                   JOIN documents ON documents.id = document
                   WHERE annotator = annotators.id AND NOT removed) AS mentions,
                  (SELECT at FROM events WHERE annotator = annotators.id ORDER BY id DESC LIMIT 1)
                      AS last
           FROM annotators ORDER BY annotators.id"""
    )
    return [dict(row) for row in rows]
