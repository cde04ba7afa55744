"""The models of a project: adapted ones are kept in its file, what they share only once."""

import json
import zipfile
from pathlib import Path
from typing import Any

from hardner.serve.blobs import drop_stored, read_stored, store_file, stored_files
from hardner.serve.database import Database, record_event, utc_now
from hardner.serve.errors import Conflict, only

MODELS_KEPT = 3
"""Adapted models whose files are kept; of older ones, only the scores are."""


def list_models(database: Database) -> list[dict[str, Any]]:
    """The models whose files are there, newest first."""
    rows = database.execute(
        """SELECT models.id, name, kind, labels, created, run, bytes, current,
                  json_extract(runs.result, '$.f1') AS f1
           FROM models LEFT JOIN runs ON runs.id = run
           WHERE kind = 'base' OR bytes ORDER BY models.id DESC"""
    )
    return [
        {**dict(row), "labels": json.loads(row["labels"]), "current": bool(row["current"])}
        for row in rows
    ]


def find_model(database: Database, number: int) -> dict[str, Any]:
    return only((one for one in list_models(database) if one["id"] == number), f"model {number}")


def current_model(database: Database) -> dict[str, Any] | None:
    return next((model for model in list_models(database) if model["current"]), None)


def current_model_number(database: Database) -> int | None:
    row = database.execute("SELECT id FROM models WHERE current").fetchone()
    return row["id"] if row else None


def register_base_model(database: Database, folder: Path, name: str) -> int:
    """Note which model the others are adapted from; returns its number.

    The base model stays outside the project, so another one may be given at each start.
    """
    row = database.execute("SELECT id, mark FROM models WHERE kind = 'base'").fetchone()
    if row is None:
        row = database.execute(
            """INSERT INTO models (name, kind, labels, created) VALUES ('', 'base', '[]', ?)
               RETURNING id, mark""",
            (utc_now(),),
        ).fetchone()
    number = int(row["id"])
    # Sizes and times tell another model in the same folder, without reading the weights.
    stats = ((path.name, path.stat()) for path in sorted(folder.glob("*")))
    mark = json.dumps([(file, stat.st_size, stat.st_mtime_ns) for file, stat in stats])
    if row["mark"] != mark:
        database.execute("DELETE FROM predictions WHERE model = ?", (number,))
        values = (name, mark, number)
        database.execute("UPDATE models SET name = ?, mark = ? WHERE id = ?", values)
    if current_model_number(database) is None:
        use_model(database, number)
    return number


def set_base_labels(database: Database, labels: tuple[str, ...]) -> None:
    """Note what the base model finds, which is known once it has been loaded."""
    database.execute("UPDATE models SET labels = ? WHERE kind = 'base'", (json.dumps([*labels]),))


def use_model(database: Database, number: int) -> None:
    find_model(database, number)
    database.execute("UPDATE models SET current = 0 WHERE current")
    database.execute("UPDATE models SET current = 1 WHERE id = ?", (number,))
    record_event(database, "model")


def add_model(
    database: Database, name: str, labels: list[str], run: int, folder: Path, use: bool = True
) -> int:
    """Store the model of a folder, make it current if wanted, drop the files of the oldest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    made = database.execute(
        """INSERT INTO models (name, kind, labels, created, run, bytes)
           VALUES (?, 'adapted', ?, ?, ?, ?)""",
        (name, json.dumps(labels), utc_now(), run, sum(path.stat().st_size for path in files)),
    )
    number = made.lastrowid
    assert number is not None
    for path in files:
        store_file(database, number, path.relative_to(folder).as_posix(), path.read_bytes())
    if use:
        use_model(database, number)
    stored = database.execute(
        "SELECT id, current FROM models WHERE kind = 'adapted' AND bytes ORDER BY id DESC"
    ).fetchall()
    for row in stored[MODELS_KEPT:]:
        if not row["current"]:
            _drop_files(database, row["id"])
    return number


def add_first_model(database: Database, labels: list[str], run: int, folder: Path) -> None:
    """Use the model of a run that goes on, until it ends."""
    before = current_model_number(database)
    number = add_model(database, f"run {run}, first model", labels, run, folder)
    database.execute("UPDATE models SET mark = ? WHERE id = ?", (str(before), number))


def drop_first_model(database: Database, run: int) -> None:
    """Let go of a run's first model; where it is in use, the one before it is again."""
    row = database.execute(
        "SELECT id, mark, current FROM models WHERE run = ? AND mark <> ''", (run,)
    ).fetchone()
    if row is None:
        return
    if row["current"]:
        kept = {model["id"] for model in list_models(database)}
        before = int(row["mark"]) if int(row["mark"]) in kept else min(kept)
        use_model(database, before)
    drop_stored(database, row["id"])
    database.execute("DELETE FROM models WHERE id = ?", (row["id"],))


def remove_model(database: Database, number: int) -> None:
    """Drop the files of a model; its scores stay."""
    found = find_model(database, number)
    if found["kind"] == "base" or found["current"]:
        raise Conflict(f"{found['name']} is in use; use another model first")
    _drop_files(database, number)
    record_event(database, "model")


def _drop_files(database: Database, number: int) -> None:
    drop_stored(database, number)
    database.execute("UPDATE models SET bytes = 0 WHERE id = ?", (number,))


def unpack_model(database: Database, number: int, folder: Path) -> None:
    for name in stored_files(database, number):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(read_stored(database, number, name))


def zip_model(database: Database, number: int, folder: str, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:  # weights hardly shrink
        for name in stored_files(database, number):
            entry = zipfile.ZipInfo(f"{folder}/{name}")
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=True) as file:
                for part in read_stored(database, number, name):
                    file.write(part)
