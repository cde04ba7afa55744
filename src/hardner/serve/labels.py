"""The labels of a sentence: set with a version check, undone and redone, and their history."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hardner.serve import documents, events, mention_types
from hardner.serve.errors import Conflict, Refused
from hardner.serve.flags import refresh
from hardner.serve.store import Database
from hardner.types import Sentence, Span

Mark = tuple[int, int, int]
"""Start and end in tokens, and the number of the type."""


@dataclass(frozen=True)
class Labels:
    """What is known of a sentence."""

    spans: tuple[Mark, ...] = ()
    none: bool = False
    """Marked as holding no mention."""
    rejected: tuple[Mark, ...] = field(default=())
    """Mentions that the model found and the user does not want."""

    @classmethod
    def of(cls, row: sqlite3.Row) -> "Labels":
        """Those of a row of the sentences."""
        spans, rejected = (_marks(json.loads(row[name])) for name in ("spans", "rejected"))
        return cls(spans, row["state"] == "none", rejected)

    @classmethod
    def read(cls, text: str) -> "Labels":
        """Those that an event keeps."""
        held = json.loads(text)
        return cls(_marks(held["spans"]), held["none"], _marks(held["rejected"]))

    @property
    def state(self) -> str:
        """As the sentence's row has it."""
        return "none" if self.none else "labelled" if self.spans else "open"

    def json(self) -> dict[str, Any]:
        """What `read` reads."""
        return {"spans": self.spans, "none": self.none, "rejected": self.rejected}


def _marks(held: Iterable[Sequence[int]]) -> tuple[Mark, ...]:
    return tuple(sorted({(start, end, number) for start, end, number in held}))


def check(labels: Labels, tokens: int, types: dict[int, str]) -> None:
    """Refuses what cannot be a sentence's labels."""
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


def put(database: Database, number: int, version: int, labels: Labels) -> int | None:
    """Sets the labels of a sentence; returns the event, None where nothing changes."""
    row = documents.sentence_row(database, number)
    if row["version"] != version:
        raise Conflict("the sentence was changed elsewhere; this is how it is now")
    types = {n: name for name, n in mention_types.numbers(database).items()}
    check(labels, len(json.loads(row["tokens"])) // 2, types)
    before = Labels.of(row)
    if before == labels:
        return None
    _write(database, number, labels)
    return events.record(
        database,
        "label",
        document=row["document"],
        sentence=number,
        before=before.json(),
        after=labels.json(),
    )


def _write(database: Database, number: int, labels: Labels) -> None:
    database.execute(
        """UPDATE sentences SET state = ?, spans = ?, rejected = ?, version = version + 1
           WHERE id = ?""",
        (labels.state, dump(labels.spans), dump(labels.rejected), number),
    )
    mention_types.revive(database, (mark[2] for mark in (*labels.spans, *labels.rejected)))
    refresh(database, [number])


def dump(marks: Iterable[Mark]) -> str:
    """Marks as a row keeps them."""
    return json.dumps([*marks], separators=(",", ":"))


def undo(database: Database, expected: int | None) -> int:
    """Takes back the last change that was not; returns the event of doing so."""
    top = events.tops(database).undo
    return _step(database, "undo", top, expected, "before")


def redo(database: Database, expected: int | None) -> int:
    """Takes back the last undo; returns the event of doing so."""
    top = events.tops(database).redo
    return _step(database, "redo", top, expected, "after")


def _step(database: Database, kind: str, top: int | None, expected: int | None, side: str) -> int:
    if top is None:
        raise Conflict(f"there is nothing to {kind}")
    if expected not in (None, top):
        raise Conflict(f"something else would be the next {kind} now")
    found = events.event(database, top)
    origin = events.event(database, found["target"]) if found and kind == "redo" else found
    assert origin is not None
    if origin["kind"] == "remove":
        removed = int(json.loads(origin[side])["removed"])
        database.execute(
            "UPDATE documents SET removed = ? WHERE id = ?", (removed, origin["document"])
        )
    else:
        _write(database, origin["sentence"], Labels.read(origin[side]))
    return events.record(
        database, kind, document=origin["document"], sentence=origin["sentence"], target=top
    )


def origin(database: Database, found: sqlite3.Row) -> sqlite3.Row:
    """The change that an event makes, takes back or makes again."""
    while found["target"] is not None:
        below = events.event(database, found["target"])
        assert below is not None
        found = below
    return found


def history(database: Database, number: int) -> list[tuple[sqlite3.Row, Labels]]:
    """What happened to a sentence, newest first, with its labels after each."""
    documents.sentence_row(database, number)
    rows = database.execute("SELECT * FROM events WHERE sentence = ? ORDER BY id DESC", (number,))
    found = []
    for row in rows:
        side = "before" if row["kind"] == "undo" else "after"
        found.append((row, Labels.read(origin(database, row)[side])))
    return found


def learnt(database: Database, held_out: bool) -> list[Sentence]:
    """The labelled sentences, named by their numbers, for learning or for scoring."""
    names = mention_types.names(database)
    rows = database.execute(
        f"""SELECT {documents.SENTENCE} FROM documents JOIN sentences ON document = documents.id
            WHERE NOT removed AND held_out = ? AND state <> 'open' ORDER BY sentences.id""",
        (held_out,),
    )
    return [
        Sentence(
            documents.tokens_of(row),
            tuple(Span(s, e, names[t]) for s, e, t in json.loads(row["spans"])),
            str(row["id"]),
        )
        for row in rows
    ]
