"""The types of mentions in a project: a name, a key to press, a colour."""

import string
from collections.abc import Iterable
from typing import Any

from hardner.serve.errors import Conflict, Missing
from hardner.serve.events import record
from hardner.serve.store import Database

COLOURS = 8
KEYS = string.digits[1:] + string.ascii_lowercase + "0"


def names(database: Database) -> dict[int, str]:
    """Of all types by number, those included that only the history still knows."""
    return {row["id"]: row["name"] for row in database.execute("SELECT id, name FROM types")}


def numbers(database: Database) -> dict[str, int]:
    """Of the types in use, by name."""
    found = database.execute("SELECT id, name FROM types WHERE NOT removed")
    return {row["name"]: row["id"] for row in found}


def listed(database: Database) -> list[dict[str, Any]]:
    """The types, with how often each is used."""
    used = database.execute(
        """SELECT json_extract(span.value, '$[2]') AS type, count(*) AS spans
           FROM documents JOIN sentences ON sentences.document = documents.id,
                json_each(sentences.spans) AS span
           WHERE NOT removed AND state = 'labelled' GROUP BY type"""
    )
    counts = {row["type"]: row["spans"] for row in used}
    rows = database.execute("SELECT id, name, key, colour FROM types WHERE NOT removed ORDER BY id")
    return [{**dict(row), "spans": counts.get(row["id"], 0)} for row in rows]


def one(database: Database, number: int) -> dict[str, Any]:
    """A type of that number."""
    for found in listed(database):
        if found["id"] == number:
            return found
    raise Missing(f"there is no type {number}")


def add(
    database: Database, name: str, key: str | None = None, colour: int | None = None
) -> dict[str, Any]:
    """A new type; a key and a colour that no other has are found where none is given."""
    if name in numbers(database):
        raise Conflict(f"there is a type {name} already")
    key = _free_key(database, name) if key is None else _free(database, key)
    colour = _free_colour(database) if colour is None else colour
    database.execute(
        """INSERT INTO types (name, key, colour) VALUES (?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET key = excluded.key, colour = excluded.colour,
                                            removed = 0""",
        (name, key, colour),
    )
    record(database, "type")
    return one(database, numbers(database)[name])


def ensure(database: Database, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Makes the types of these names that there are not; returns them."""
    known = numbers(database)
    return [add(database, name) for name in wanted if name not in known]


def change(
    database: Database, number: int, name: str | None, key: str | None, colour: int | None
) -> dict[str, Any]:
    """Gives a type another name, key or colour."""
    old = one(database, number)
    if name is not None and name != old["name"]:
        if name in names(database).values():
            raise Conflict(f"there is, or was, a type {name} already")
        database.execute("UPDATE types SET name = ? WHERE id = ?", (name, number))
    if key is not None and key != old["key"]:
        database.execute("UPDATE types SET key = ? WHERE id = ?", (_free(database, key), number))
    if colour is not None:
        database.execute("UPDATE types SET colour = ? WHERE id = ?", (colour, number))
    record(database, "type")
    return one(database, number)


def remove(database: Database, number: int) -> None:
    """Takes a type out that no label uses; undoing a label of it brings it back."""
    found = one(database, number)
    if found["spans"]:
        raise Conflict(f"{found['name']} is used by {found['spans']} labels; remove them first")
    database.execute("UPDATE types SET removed = 1 WHERE id = ?", (number,))
    record(database, "type")


def revive(database: Database, used: Iterable[int]) -> None:
    """Brings back types that were removed."""
    for number in sorted(set(used)):
        row = database.execute(
            "SELECT name, key FROM types WHERE id = ? AND removed", (number,)
        ).fetchone()
        if row:
            taken = _taken(database)
            key = str(row["key"]) if row["key"] not in taken else _free_key(database, row["name"])
            database.execute("UPDATE types SET removed = 0, key = ? WHERE id = ?", (key, number))


def _taken(database: Database) -> set[str]:
    return {str(row["key"]) for row in database.execute("SELECT key FROM types WHERE NOT removed")}


def _free(database: Database, key: str) -> str:
    if key in _taken(database):
        raise Conflict(f"the key {key} belongs to another type")
    return key


def _free_key(database: Database, name: str) -> str:
    own = "".join(letter for letter in name.lower() if letter in string.ascii_lowercase)
    free = [key for key in own + KEYS if key not in _taken(database)]
    if not free:
        raise Conflict(f"no key is left for {name}: there can be {len(KEYS)} types")
    return free[0]


def _free_colour(database: Database) -> int:
    rows = database.execute("SELECT colour FROM types WHERE NOT removed")
    used = [row["colour"] for row in rows]
    return min(range(COLOURS), key=lambda colour: (used.count(colour), colour))
