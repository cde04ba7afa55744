"""The files of models, cut into parts; a part that several models share is stored once.

Models adapted from one start differ in their upper layers and heads only, so a safetensors file is
cut at its tensors. In the table of files, a file is the SHA-256 digests of its parts, end to end.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from itertools import pairwise

DIGEST = 32
"""Bytes of a digest."""
_MOST_WASTE = 0.25
"""Of a project's pages, how many may be unused before the file is written anew."""


def store_file(database: sqlite3.Connection, model: int, name: str, data: bytes) -> None:
    digests = b""
    for part in _cut(data):
        digest = hashlib.sha256(part).digest()
        database.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, part))
        digests += digest
    database.execute("REPLACE INTO files VALUES (?, ?, ?)", (model, name, digests))


def _cut(data: bytes) -> Iterator[bytes]:
    """The header of a safetensors file and its tensors; any other file as a whole."""
    size = 8 + int.from_bytes(data[:8], "little")
    edges = {0, len(data)}
    try:
        for name, tensor in json.loads(data[8:size]).items():
            if name != "__metadata__":
                edges |= {size + edge for edge in tensor["data_offsets"]}
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        edges = {0, len(data)}
    order = sorted(edge for edge in edges if 0 <= edge <= len(data))
    return (data[start:end] for start, end in pairwise(order))


def stored_files(database: sqlite3.Connection, model: int) -> list[str]:
    rows = database.execute("SELECT name FROM files WHERE model = ? ORDER BY name", (model,))
    return [name for (name,) in rows]


def read_stored(database: sqlite3.Connection, model: int, name: str) -> Iterator[bytes]:
    """The parts of a file, in order."""
    (digests,) = database.execute(
        "SELECT data FROM files WHERE model = ? AND name = ?", (model, name)
    ).fetchone()
    for digest in digests_of(digests):
        (part,) = database.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        yield part


def digests_of(digests: bytes) -> list[bytes]:
    return [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]


def drop_stored(database: sqlite3.Connection, model: int) -> None:
    """Let go of a model's files, and of the parts that no other model has."""
    database.execute("DELETE FROM files WHERE model = ?", (model,))
    used = {
        digest
        for (digests,) in database.execute("SELECT data FROM files")
        for digest in digests_of(digests)
    }
    for (digest,) in database.execute("SELECT digest FROM blobs").fetchall():
        if digest not in used:
            database.execute("DELETE FROM blobs WHERE digest = ?", (digest,))


def cut_files(database: sqlite3.Connection) -> None:
    """Cut the files of a project from before they were: its table holds them as a whole."""
    for model, name in database.execute("SELECT model, name FROM files").fetchall():
        (data,) = database.execute(
            "SELECT data FROM files WHERE model = ? AND name = ?", (model, name)
        ).fetchone()
        store_file(database, model, name, data)


def has_waste(database: sqlite3.Connection) -> bool:
    """Whether so much of the project's file is unused that it is worth being written anew."""
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    (unused,) = database.execute("PRAGMA freelist_count").fetchone()
    return bool(pages > 1_000 and unused > _MOST_WASTE * pages)
