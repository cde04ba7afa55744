"""Whether a project's file is whole: asked once, when it is opened.

SQLite knows its pages and its types. That a column of text holds a list of marks, that they lie
within their sentence, and that every undo comes to an end, is for us to know.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Any

from hardner.serve.blobs import digests_of

_MOST = 2**53 - 1
"""The largest number of a row: beyond it, readers of JSON round."""
_LONGEST_NAME = 200
_OF_SENTENCES = ("label", "note", "verdict")
_SCORES = ("sentences", "precision", "recall", "f1")
_TYPE = {"id": int, "name": str, "key": str, "colour": int, "guideline": str, "removed": bool}
_NOTE = {"start": int, "end": int, "text": str}
_LOOSE = {"number": int, "removed": bool}
_WRONG = (
    *(
        f"SELECT 1 FROM {table} WHERE id NOT BETWEEN 1 AND {_MOST}"
        for table in ("documents", "types", "sentences", "events", "runs", "models")
    ),
    "SELECT 1 FROM sentences WHERE start < 0 OR stop < start",
    f"SELECT 1 FROM sentences WHERE version NOT BETWEEN 0 AND {_MOST}",
    # The sentences of a document are numbered from 0.
    """SELECT 1 FROM sentences
       GROUP BY document HAVING min(position) <> 0 OR max(position) <> count(*) - 1""",
    # What is taken back came before, so that walks along the log end.
    "SELECT 1 FROM events WHERE target >= id OR undo_top > id OR redo_top > id",
    "SELECT 1 FROM runs WHERE state = 'done' AND result IS NULL",
)
"""Each finds a row that none of ours is like."""


class Damaged(sqlite3.DatabaseError):
    """A row that hardner has not written."""


def check_pages(database: sqlite3.Connection) -> None:
    """Read every page once: damage is better found now than amid somebody's work."""
    (found,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise Damaged(found)


def check_schema(database: sqlite3.Connection, schema: str) -> None:
    """Whether the tables, views, indexes and triggers are those that a script makes."""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(schema)
        expected = _made(new)
    # Whoever analyses the file may leave a table in it; a trigger would be run by us.
    found = _made(database)
    if not expected <= found or any(kind == "trigger" for kind, _, _ in found - expected):
        raise Damaged("other tables")


def _made(database: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Kind, name and definition of each, without comments and spaces, in which versions differ."""
    # What the index of words and SQLite itself keep is defined as their versions see fit.
    rows = database.execute(
        """SELECT type, name, CASE WHEN name GLOB 'words_*' OR name GLOB 'sqlite_*' THEN ''
           ELSE CAST(ifnull(sql, '') AS TEXT) END FROM sqlite_schema"""
    )
    return {(kind, name, re.sub(r"--.*|\s", "", sql)) for kind, name, sql in rows}


def check_rows(database: sqlite3.Connection) -> None:
    """Whether every row is as hardner writes it."""
    for query in ("PRAGMA foreign_key_check", *_WRONG):
        if database.execute(query).fetchone() is not None:
            raise Damaged(query)
    _Rows(database).check()


def mend_index(database: sqlite3.Connection) -> None:
    """Make the index of words anew where it is not of the texts: nothing else is in it."""
    try:
        database.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError:
        database.execute("INSERT INTO words (words) VALUES ('rebuild')")


@dataclass
class _Rows:
    """All rows, and what they refer to."""

    database: sqlite3.Connection
    types: set[int] = field(default_factory=set)
    tokens: dict[int, int] = field(default_factory=dict)
    """How many each sentence has."""
    loose: set[int] = field(default_factory=set)

    def check(self) -> None:
        self.types = {row["id"] for row in self._every("types")}
        for row in self._every("documents"):
            _need(row["name"] is not None, row)
        for row in self._every("sentences"):
            tokens = _held(row, "tokens")
            _need(_are_integers(tokens) and len(tokens) % 2 == 0 and tokens == sorted(tokens), row)
            self.tokens[row["id"]] = size = len(tokens) // 2
            _need(all(self._are_marks(_held(row, n), size) for n in ("spans", "rejected")), row)
        for row in self._every("predictions"):
            _need(_are_predicted(_held(row, "spans"), self.tokens[row["sentence"]]), row)
        self._check_beside()
        self._check_events()
        for row in self._every("runs"):
            fits = row["result"] is None or _is_result(_held(row, "result"))
            _need(fits and _are_texts(_held(row, "types")), row)
        for row in self._every("models"):
            _need(_are_texts(_held(row, "labels")), row)
        for row in self.database.execute("SELECT name FROM files"):
            _need(_lies_inside(row["name"]), row)
        if self.database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'readings'").fetchone():
            self._check_people()

    def _check_people(self) -> None:
        """What projects hold since annotators have names and files are in parts."""
        unknown = "SELECT id FROM events WHERE annotator NOT IN (SELECT id FROM annotators)"
        _need(self.database.execute(unknown).fetchone() is None, "events")
        for row in self._every("readings"):
            size = self.tokens[row["sentence"]]
            _need(all(self._are_marks(_held(row, n), size) for n in ("spans", "rejected")), row)
        for row in self._every("verdicts"):
            marks = [[row["start"], row["stop"], row["type"]]]
            _need(self._are_marks(marks, self.tokens[row["sentence"]]), row)
        stored = {digest for (digest,) in self.database.execute("SELECT digest FROM blobs")}
        for row in self.database.execute("SELECT name, data FROM files"):
            _need(set(digests_of(row["data"])) <= stored, row)

    def _check_beside(self) -> None:
        """What stands beside the labels: tables that the first versions lack."""
        if self.database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'notes'").fetchone():
            for row in self._every("notes"):
                _need(0 <= row["start"] < row["stop"] <= self.tokens[row["sentence"]], row)
            rows = self.database.execute(
                """SELECT loose_mentions.*, length(text) AS size FROM loose_mentions
                   JOIN documents ON documents.id = document"""
            )
            for row in rows:
                _need(_are_pieces(_held(row, "pieces"), row["size"]), row)
                self.loose.add(row["id"])

    def _every(self, table: str) -> sqlite3.Cursor:
        return self.database.execute(f"SELECT * FROM {table} ORDER BY 1")

    def _check_events(self) -> None:
        changes: dict[int, str] = {}
        """What can be taken back, or made again, by number."""
        for row in self._every("events"):
            if row["target"] is not None:
                _need(row["kind"] in ("undo", "redo") and row["target"] in changes, row)
                changes[row["id"]] = changes[row["target"]]
            elif row["before"] is not None:
                _need(all(self._is_side(row, _held(row, n)) for n in ("before", "after")), row)
                changes[row["id"]] = row["kind"]
            _need(row["sentence"] is None or changes.get(row["id"]) in _OF_SENTENCES, row)
            _need(all(row[n] is None or row[n] in changes for n in ("undo_top", "redo_top")), row)

    def _is_side(self, row: sqlite3.Row, side: Any) -> bool:
        """Whether an event says what there was before it, or after it."""
        if not isinstance(side, dict):
            return False
        match row["kind"]:
            case "label":
                return row["sentence"] in self.tokens and self._are_labels(side, row["sentence"])
            case "labels":
                return self._are_labels_of_many(side)
            case "verdict":
                said = side.get("verdicts")
                return (
                    self._are_labels(side, row["sentence"])
                    and (isinstance(said, list) and said != [])
                    and all(isinstance(one, list) and len(one) == 2 for one in said)
                    and self._are_marks([mark for mark, _ in said], self.tokens[row["sentence"]])
                    and all(wanted in (None, True, False) for _, wanted in said)
                )
            case "untype":
                known = side.get("type") in self.types and isinstance(side.get("removed"), bool)
                return known and self._are_labels_of_many(side)
            case "type":
                return side.get("id") in self.types and _has(side, _TYPE)
            case "loose":
                return side.get("number") in self.loose and _has(side, _LOOSE)
            case "note":
                size = self.tokens.get(row["sentence"], 0)
                return _has(side, _NOTE) and 0 <= side["start"] < side["end"] <= size
            case "document" | "remove":
                kinds = {"name": str, "held_out": int, "removed": int}
                return row["document"] is not None and all(
                    name in kinds and isinstance(value, kinds[name]) for name, value in side.items()
                )
        return False

    def _are_labels_of_many(self, side: Mapping[str, Any]) -> bool:
        held = side.get("sentences")
        return isinstance(held, dict) and all(
            number.isdecimal() and self._are_labels(labels, int(number))
            for number, labels in held.items()
        )

    def _are_labels(self, side: Any, sentence: int) -> bool:
        size = self.tokens.get(sentence)
        return (
            size is not None
            and isinstance(side, Mapping)
            and isinstance(side.get("none"), bool)
            and isinstance(side.get("partial", False), bool)
            and all(self._are_marks(side.get(name), size) for name in ("spans", "rejected"))
        )

    def _are_marks(self, marks: Any, tokens: int) -> bool:
        return isinstance(marks, list) and all(
            _are_integers(m) and len(m) == 3 and 0 <= m[0] < m[1] <= tokens and m[2] in self.types
            for m in marks
        )


def _need(fits: bool, row: sqlite3.Row | str) -> None:
    if not fits:
        raise Damaged(f"row {row[0]}")


def _held(row: sqlite3.Row, column: str) -> Any:
    """What a column of JSON holds."""
    if row[column] == "[]":  # as most do
        return []
    try:
        return json.loads(row[column])
    except (ValueError, RecursionError, TypeError):
        raise Damaged(f"row {row[0]}: {column} is no JSON") from None


def _are_integers(held: Any) -> bool:
    return isinstance(held, list) and all(type(n) is int for n in held)


def _has(side: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    """Whether it holds values of these kinds and no others."""
    return side.keys() == kinds.keys() and all(type(side[n]) is kind for n, kind in kinds.items())


def _are_pieces(held: Any, characters: int) -> bool:
    return isinstance(held, list) and all(
        _are_integers(piece) and len(piece) == 2 and 0 <= piece[0] < piece[1] <= characters
        for piece in held
    )


def _are_texts(held: Any) -> bool:
    return isinstance(held, list) and all(isinstance(text, str) for text in held)


def _are_predicted(marks: Any, tokens: int) -> bool:
    return isinstance(marks, list) and all(
        isinstance(mark, list)
        and len(mark) == 4
        and _are_integers(mark[:2])
        and 0 <= mark[0] < mark[1] <= tokens
        and isinstance(mark[2], str)
        and isinstance(mark[3], int | float)
        for mark in marks
    )


def _is_result(held: Any) -> bool:
    """Whether pages and reports find in the result of a run what they look for."""
    if not isinstance(held, dict) or not _are_figures(map(held.get, ("f1", "low", "high"))):
        return False
    part = held.get("held_out")
    return part is None or (
        isinstance(part, dict)
        and _are_figures((part.get(name) for name in _SCORES), known=True)
        and isinstance(part.get("mistakes"), list)
        and all(
            isinstance(mistake, dict)
            and isinstance(mistake.get("kind"), str)
            and isinstance(mistake.get("count"), int)
            and all(_are_texts(mistake.get(side)) for side in ("right", "found"))
            for mistake in part["mistakes"]
        )
    )


def _are_figures(held: Iterable[Any], known: bool = False) -> bool:
    return all(isinstance(n, int | float) or (n is None and not known) for n in held)


def _lies_inside(name: str) -> bool:
    """Whether a file of a model comes to lie in the model's folder."""
    path = PureWindowsPath(name)  # which takes the slashes of both kinds of systems
    plain = len(name) <= _LONGEST_NAME and "\0" not in name
    return plain and bool(path.parts) and not path.anchor and ".." not in path.parts
