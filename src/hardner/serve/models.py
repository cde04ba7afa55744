"""The models of a project, kept whole in its file."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardner.serve import events
from hardner.serve.errors import Conflict, Missing
from hardner.serve.store import Database, now

KEPT = 3
"""Adapted models whose files stay; of older ones the figures do."""
PIECE = 1 << 20
"""Bytes of a download that are held at once."""


def listed(database: Database) -> list[dict[str, Any]]:
    """The models whose files are there, newest first."""
    rows = database.execute(
        """SELECT models.*, json_extract(runs.result, '$.f1') AS f1
           FROM models LEFT JOIN runs ON runs.id = run
           WHERE kind = 'base' OR bytes ORDER BY models.id DESC"""
    )
    return [_shown(row) for row in rows]


def _shown(row: sqlite3.Row) -> dict[str, Any]:
    shown = {name: row[name] for name in row.keys() if name != "mark"}  # noqa: SIM118
    return {
        **shown,
        "labels": json.loads(row["labels"]),
        "current": bool(row["current"]),
    }


def one(database: Database, number: int) -> dict[str, Any]:
    """The model of that number."""
    for found in listed(database):
        if found["id"] == number:
            return found
    raise Missing(f"there is no model {number}")


def current(database: Database) -> dict[str, Any] | None:
    """The model in use."""
    return next((model for model in listed(database) if model["current"]), None)


def base(database: Database, folder: Path, name: str) -> int:
    """The model that others are adapted from; it lies elsewhere, and may be another each time."""
    row = database.execute("SELECT id, mark FROM models WHERE kind = 'base'").fetchone()
    number = row["id"] if row else None
    if number is None:
        number = database.execute(
            "INSERT INTO models (name, kind, labels, created) VALUES ('', 'base', '[]', ?)",
            (now(),),
        ).lastrowid
    assert number is not None
    mark = _mark(folder)
    if row is None or row["mark"] != mark:
        database.execute("DELETE FROM predictions WHERE model = ?", (number,))
        values = (name, mark, number)
        database.execute("UPDATE models SET name = ?, mark = ? WHERE id = ?", values)
    if current(database) is None:
        use(database, number)
    return int(number)


def _mark(folder: Path) -> str:
    """Another one where the folder's files are others."""
    stats = ((path.name, path.stat()) for path in sorted(folder.glob("*")))
    return json.dumps([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])


def labels_of_base(database: Database, labels: tuple[str, ...]) -> None:
    """Notes what the base knows, now that it has been read."""
    database.execute("UPDATE models SET labels = ? WHERE kind = 'base'", (json.dumps([*labels]),))


def use(database: Database, number: int) -> None:
    """Makes a model the current one."""
    one(database, number)
    database.execute("UPDATE models SET current = 0 WHERE current")
    database.execute("UPDATE models SET current = 1 WHERE id = ?", (number,))
    events.record(database, "model")


def add(database: Database, name: str, labels: list[str], run: int, folder: Path) -> int:
    """Takes in the model in a folder, makes it current, and lets go of the oldest ones."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    made = database.execute(
        """INSERT INTO models (name, kind, labels, created, run, bytes)
           VALUES (?, 'adapted', ?, ?, ?, ?)""",
        (name, json.dumps(labels), now(), run, sum(path.stat().st_size for path in files)),
    )
    number = made.lastrowid
    assert number is not None
    for path in files:
        database.execute(
            "INSERT INTO files VALUES (?, ?, ?)",
            (number, path.relative_to(folder).as_posix(), path.read_bytes()),
        )
    use(database, number)
    stored = database.execute(
        "SELECT id FROM models WHERE kind = 'adapted' AND bytes ORDER BY id DESC"
    ).fetchall()
    for row in stored[KEPT:]:
        _forget(database, row["id"])
    return number


def remove(database: Database, number: int) -> None:
    """Lets go of a model's files."""
    found = one(database, number)
    if found["kind"] == "base" or found["current"]:
        raise Conflict(f"{found['name']} is in use; use another model first")
    _forget(database, number)
    events.record(database, "model")


def _forget(database: Database, number: int) -> None:
    database.execute("DELETE FROM files WHERE model = ?", (number,))
    database.execute("UPDATE models SET bytes = 0 WHERE id = ?", (number,))


def unpack(database: Database, number: int, folder: Path) -> None:
    """Writes the files of an adapted model into a folder."""
    for row in database.execute("SELECT name, data FROM files WHERE model = ?", (number,)):
        path = folder / row["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["data"])


def zipped(folder: Path, inside: str) -> Iterator[bytes]:
    """The files of a folder as a zip, piece by piece; weights do not shrink, so none is packed."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{inside}/{path.relative_to(folder).as_posix()}")
            entry.external_attr = 0o644 << 16
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as target:
                while data := file.read(PIECE):
                    target.write(data)
                    yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """What a zip is written to, and taken from before the next piece comes."""

    def __init__(self) -> None:
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._held += data
        return len(data)

    def taken(self) -> bytes:
        """What was written since the last time."""
        data = bytes(self._held)
        self._held.clear()
        return data
