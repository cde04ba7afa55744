"""The mention types of a project: a name, a key to press and a colour each."""

import string
from collections.abc import Iterable
from typing import Any

from hardner.serve.database import Database, record_event
from hardner.serve.errors import Conflict, only

_COLOURS = 8
_KEYS = string.digits[1:] + string.ascii_lowercase + "0"


def type_names(database: Database) -> dict[int, str]:
    """Names by number, removed types included, as the history still refers to them."""
    return {row["id"]: row["name"] for row in database.execute("SELECT id, name FROM types")}


def type_numbers(database: Database) -> dict[str, int]:
    """Numbers by name, of the types in use."""
    found = database.execute("SELECT id, name FROM types WHERE NOT removed")
    return {row["name"]: row["id"] for row in found}


def list_types(database: Database) -> list[dict[str, Any]]:
    """The types in use, with the number of labels of each."""
    return [dict(row) for row in database.execute("SELECT * FROM used_types")]


def find_type(database: Database, number: int) -> dict[str, Any]:
    rows = database.execute("SELECT * FROM used_types WHERE id = ?", (number,))
    return dict(only(rows, f"type {number}"))


def add_type(
    database: Database, name: str, key: str | None = None, colour: int | None = None
) -> dict[str, Any]:
    """Add a type; by default with a free key and the least used colour."""
    if name in type_numbers(database):
        raise Conflict(f"there is a type {name} already")
    # A removed type of this name comes back under its old number, which old events refer to.
    database.execute(
        """INSERT INTO types (name, key, colour) VALUES (?, ?, ?)
           ON CONFLICT (name) DO UPDATE SET key = excluded.key, colour = excluded.colour,
                                            removed = 0""",
        (
            name,
            _free_key(database, name) if key is None else _unused(database, key),
            _free_colour(database) if colour is None else colour,
        ),
    )
    record_event(database, "type")
    return find_type(database, type_numbers(database)[name])


def ensure_types(database: Database, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Add those of these types that do not exist yet; returns the new ones."""
    known = type_numbers(database)
    return [add_type(database, name) for name in wanted if name not in known]


def change_type(
    database: Database, number: int, name: str | None, key: str | None, colour: int | None
) -> dict[str, Any]:
    """Change a type's name, key or colour; None leaves it as it is."""
    old = find_type(database, number)
    if name is not None and name != old["name"] and name in type_names(database).values():
        raise Conflict(f"there is, or was, a type {name} already")
    if key is not None and key != old["key"]:
        _unused(database, key)
    database.execute(
        """UPDATE types SET name = coalesce(?, name), key = coalesce(?, key),
           colour = coalesce(?, colour) WHERE id = ?""",
        (name, key, colour, number),
    )
    record_event(database, "type")
    return find_type(database, number)


def restore_types(database: Database, used: Iterable[int]) -> None:
    """Bring back those of these types that were removed."""
    for number in sorted(set(used)):
        row = database.execute(
            "SELECT name, key FROM types WHERE id = ? AND removed", (number,)
        ).fetchone()
        if row:  # its key may belong to another type by now
            taken = _taken_keys(database)
            key = row["key"] if row["key"] not in taken else _free_key(database, row["name"])
            database.execute("UPDATE types SET removed = 0, key = ? WHERE id = ?", (key, number))


def _taken_keys(database: Database) -> set[str]:
    return {row["key"] for row in database.execute("SELECT key FROM types WHERE NOT removed")}


def _unused(database: Database, key: str) -> str:
    if key in _taken_keys(database):
        raise Conflict(f"the key {key} belongs to another type")
    return key


def _free_key(database: Database, name: str) -> str:
    """The first free letter of the name, else any free key."""
    taken = _taken_keys(database)
    own = "".join(letter for letter in name.lower() if letter in string.ascii_lowercase)
    for key in own + _KEYS:
        if key not in taken:
            return key
    raise Conflict(f"no key is left for {name}: there can be {len(_KEYS)} types")


def _free_colour(database: Database) -> int:
    rows = database.execute("SELECT colour FROM types WHERE NOT removed")
    used = [row["colour"] for row in rows]
    return min(range(_COLOURS), key=lambda colour: (used.count(colour), colour))
