"""The mention types of a project: a name, a key to press and a colour each."""

import string
from collections.abc import Iterable, Mapping
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
    _insert(database, name, key, colour)
    number = type_numbers(database)[name]
    after = _look(database, number)
    record_event(database, "type", before=after | {"removed": True}, after=after)
    return find_type(database, number)


def _insert(database: Database, name: str, key: str | None, colour: int | None) -> None:
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


def ensure_types(database: Database, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Add those of these types that do not exist yet; returns the new ones."""
    new = [name for name in wanted if name not in type_numbers(database)]
    for name in new:
        _insert(database, name, None, None)
    if new:  # they come with documents that use them, so no undo takes them away
        record_event(database, "type")
    types = type_numbers(database)
    return [find_type(database, types[name]) for name in new]


def change_type(database: Database, number: int, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change a type's name, key, colour or guideline."""
    old = find_type(database, number)
    name, key = changes.get("name", old["name"]), changes.get("key", old["key"])
    if name != old["name"] and name in type_names(database).values():
        raise Conflict(f"there is, or was, a type {name} already")
    if key != old["key"]:
        _unused(database, key)
    before = _look(database, number)
    after = {**before, **changes}
    if after != before:
        set_type(database, after)
        record_event(database, "type", before=before, after=after)
    return find_type(database, number)


def _look(database: Database, number: int) -> dict[str, Any]:
    """A type as its table has it."""
    row = database.execute("SELECT * FROM types WHERE id = ?", (number,)).fetchone()
    return {**dict(row), "removed": bool(row["removed"])}


def set_type(database: Database, look: Mapping[str, Any]) -> tuple[str, str]:
    """Make a type look so, without an event; returns its names before and after.

    A type that labels use is not removed, and a key that is another's by now is replaced.
    """
    before, number = _look(database, look["id"]), look["id"]
    used = find_type(database, number)["spans"] if not before["removed"] else 0
    database.execute("UPDATE types SET removed = 1 WHERE id = ?", (number,))
    key = look["key"] if look["key"] not in _taken_keys(database) else None
    new = {**look, "removed": look["removed"] and not used}
    new["key"] = _free_key(database, look["name"]) if key is None else key
    database.execute(
        """UPDATE types SET name = :name, key = :key, colour = :colour, guideline = :guideline,
           removed = :removed WHERE id = :id""",
        new,
    )
    return before["name"], look["name"]


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
    rows = database.execute("SELECT key FROM types WHERE NOT removed AND key <> ''")
    return {row["key"] for row in rows}


def _unused(database: Database, key: str) -> str:
    if key in _taken_keys(database):
        raise Conflict(f"the key {key} belongs to another type")
    return key


def _free_key(database: Database, name: str) -> str:
    """The first free letter of the name, else any free key; "" where none is left."""
    taken = _taken_keys(database)
    own = "".join(letter for letter in name.lower() if letter in string.ascii_lowercase)
    return next((key for key in own + _KEYS if key not in taken), "")


def _free_colour(database: Database) -> int:
    rows = database.execute("SELECT colour FROM types WHERE NOT removed")
    used = [row["colour"] for row in rows]
    return min(range(_COLOURS), key=lambda colour: (used.count(colour), colour))
