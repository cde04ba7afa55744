"""Changes to the values of a file: other types and sizes, missing and doubled ones, deep ones."""

import io
import json
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from math import inf, nan
from random import Random
from typing import Any
from xml.etree import ElementTree

import pyarrow
import pyarrow.parquet
import srsly
from fuzz.byte_changes import BYTE_CHANGES

DIGITS, DEEP = "@digits@", "@deep@"
"""Stand for a number of 5,000 digits and for 100,000 brackets, which no writer would write."""
VALUES = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 255, 10**9, 2**31, 2**63, -(2**63), 10**18, 10**30),
    *(0.5, -0.5, 1e-300, 1e308, inf, -inf, nan, DIGITS, DEEP),
    *("", " ", "x", "-", "*", "\0", "\ud800", "\ufeff", "\u2028", "é漢😀", "a\nb", "a\tb", "B-X"),
    *("../x", "/dev/zero", "9" * 400, "x" * 20_000),
    *([], {}, [[]], [{}], [None], [1], [-1, 5], ["x"], [[0, 1]], {"": 1}, {"start": 0, "end": 1}),
)
TOML_VALUES = (
    *("0", "1", "-1", "3", "1.5", "1e400", "-0.0", "nan", "inf", "1000000000000000000", "9" * 5000),
    *("true", '""', '"x"', '"\\u0000"', '"bert"', '"transformer"', '"wpz"', '"exact"', "[]", "[1]"),
    *('["x"]', '[["x"]]', "{}", "{a = 1}", "[{}]", "1979-05-27", "07:32:00", "=", "", "[" * 5000),
)


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every holder and key of a value within the tree."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _nodes(inner)


def _tree(rng: Random, tree: Any) -> Any:
    """The tree with a few of its values changed."""
    root = [tree]
    if isinstance(tree, dict) and "config" in tree and rng.random() < 0.6:
        # Of a model folder: the long lists beside it are all that a walk would come to.
        tree["config"] = _tree(rng, tree["config"])
        return tree
    for _ in range(rng.choice((1, 1, 2))):
        walk = _walk if rng.random() < 0.7 else _anywhere
        _change_value(rng, *walk(rng, root))
    return root[0]


def _anywhere(rng: Random, root: Any) -> tuple[Any, Any]:
    """Any value, so that most are deep within the longest list."""
    return rng.choice(list(_nodes(root)))


def _walk(rng: Random, root: Any) -> tuple[Any, Any]:
    """A value that a walk from the root comes to, so that short sections are not passed over."""
    holder: Any = root
    while True:
        key = rng.choice(
            sorted(holder, key=str) if isinstance(holder, dict) else range(len(holder))
        )
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            return holder, key
        holder = inner


def _change_value(rng: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    match rng.randrange(9):
        case 0 if isinstance(holder, dict) or len(holder) > 1:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, value)
        case 1 | 2 if isinstance(holder, dict):
            holder[rng.choice(("", "x", str(rng.choice(sorted(holder, key=str))), "\ud800"))] = (
                value
            )
        case 3:
            holder[key] = rng.choice(([value], {"x": value}, str(value)[:1000]))
        case 4 | 5 if isinstance(value, int | float):
            choices = (-value, value + 1, value - 1, value * 2, value * 1000, 0, value + 0.5)
            holder[key] = rng.choice(choices)
        case 4 | 5 if isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            new = rng.choice([v for v in VALUES if isinstance(v, str)])
            holder[key] = value[:at] + new + value[at + rng.randrange(3) :]
        case 4 | 5 if isinstance(value, bytes):
            holder[key] = rng.choice(BYTE_CHANGES)(rng, value, value)
        case 6 if isinstance(value, list) and value:
            holder[key] = value * rng.choice((2, 1000))
        case _:
            holder[key] = rng.choice(VALUES)


def _json(rng: Random, content: bytes) -> bytes:
    """The whole file is a value, or each of its lines."""
    text = content.decode()
    try:
        return _dumped(rng, _tree(rng, json.loads(text)))
    except ValueError:
        lines = content.split(b"\n")
        at = rng.choice([n for n, line in enumerate(lines) if line.strip()])
        lines[at] = _dumped(rng, _tree(rng, json.loads(lines[at])))
        return b"\n".join(lines)


def _dumped(rng: Random, tree: Any) -> bytes:
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    text = text.replace(f'"{DIGITS}"', "9" * 5000).replace(f'"{DEEP}"', "[" * 100_000)
    return text.encode("utf-8", "surrogatepass")


def _toml(rng: Random, content: bytes) -> bytes:
    lines = content.decode().split("\n")
    at = rng.choice([n for n, line in enumerate(lines) if line.strip()])
    key, given, _ = lines[at].partition(" = ")
    if given and rng.random() < 0.8:
        lines[at] = f"{key} = {rng.choice(TOML_VALUES)}"
    else:
        lines[at] = rng.choice(
            ("[encoder]", "[x.y.z]", "[[data]]", "data = 3", f"[{lines[at]}]", "")
        )
    return "\n".join(lines).encode()


def _xml(rng: Random, content: bytes) -> bytes:
    head, _, _ = content.partition(b"<!DOCTYPE")
    doctype = content[len(head) : content.find(b">", len(head)) + 1]
    root = ElementTree.fromstring(content)
    element = rng.choice(list(root.iter()))
    texts = [str(value) for value in VALUES]
    match rng.randrange(8):
        case 0:
            element.text = rng.choice(texts)
        case 1:
            element.tail = rng.choice(texts)
        case 2 if element.attrib:
            element.set(rng.choice(sorted(element.attrib)), rng.choice(texts))
        case 2 | 3 if element.attrib:
            del element.attrib[rng.choice(sorted(element.attrib))]
        case 3 | 4 if len(element):
            element.remove(rng.choice(list(element)))
        case 5 if len(element):
            element.insert(rng.randrange(len(element)), rng.choice(list(element)))
        case 6:
            for _ in range(rng.choice((1, 20, 400))):
                element = ElementTree.SubElement(element, element.tag)
        case _:
            element.tag = rng.choice([e.tag for e in root.iter()])
    text = ElementTree.tostring(root, encoding="unicode")
    return doctype + text.encode("utf-8", "surrogatepass")


def _docbin(rng: Random, content: bytes) -> bytes:
    packed = zlib.decompress(content)
    if rng.random() < 0.3:
        return zlib.compress(rng.choice(BYTE_CHANGES)(rng, packed, packed), 1)
    return zlib.compress(srsly.msgpack_dumps(_tree(rng, srsly.msgpack_loads(packed))), 1)


def _safetensors(rng: Random, content: bytes) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    header, data = content[8 : 8 + length], bytearray(content[8 + length :])
    if rng.random() < 0.5:
        header = _json(rng, header)
    for _ in range(rng.choice((0, 1, 20))):
        at = rng.randrange(len(data) // 4) * 4
        data[at : at + 4] = struct.pack("<f", rng.choice((nan, inf, -inf, 3e38, 1e-40, 0.0)))
    return struct.pack("<Q", rng.choice((len(header),) * 9 + (2**40,))) + header + bytes(data)


def _parquet(rng: Random, content: bytes) -> bytes:
    rows = pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    name = rng.choice(sorted(rows[0]))
    if rng.random() < 0.3:  # another type for a whole column
        value = rng.choice((None, 1, 1.5, "x", b"x", [1], ["x"], {"a": 1}, [{"start": 1}], [[1]]))
        rows = [{**row, name: value} for row in rows]
    else:
        rows = _tree(rng, rows)
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    return sink.getvalue()


def _sqlite(rng: Random, content: bytes) -> bytes:
    """Another value in a row, no such row, no such table, or another version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.deserialize(content)
        database.execute("PRAGMA ignore_check_constraints = ON")
        made = database.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        triggers = [(name, sql) for kind, name, sql in made if kind == "trigger"]
        match rng.randrange(12):
            case 0:
                kind, name, _ = rng.choice(made)
                database.execute(f"DROP {kind} {name}")
            case 1:
                name = rng.choice(("user_version", "application_id"))
                database.execute(f"PRAGMA {name} = {rng.choice((-1, 0, 1, 2, 3, 2**31 - 1))}")
            case _:
                for name, _ in triggers:  # they keep rows as they are
                    database.execute(f"DROP TRIGGER {name}")
                for _ in range(rng.choice((1, 1, 2))):
                    _change_row(rng, database, [name for kind, name, _ in made if kind == "table"])
                for _, sql in triggers:
                    database.execute(sql)
        return database.serialize()


def _change_row(rng: Random, database: sqlite3.Connection, tables: list[str]) -> None:
    table = rng.choice(tables)
    (row,) = rng.choice(database.execute(f"SELECT rowid FROM {table}").fetchall())
    if rng.random() < 0.1:
        database.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        return
    found = database.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,))
    names = [column[0] for column in found.description]
    name, value = rng.choice([*zip(names, found.fetchone(), strict=True)])
    held = {"value": value}
    if isinstance(value, str) and value[:1] in ("[", "{") and rng.random() < 0.8:
        changed = _json(rng, value.encode()).decode()
    else:
        _change_value(rng, held, "value")
        changed = held.get("value")
        changed = json.dumps(changed) if isinstance(changed, list | dict) else changed
    database.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (changed, row))


CHANGES_BY_ENDING: dict[str, Callable[[Random, bytes], bytes]] = {
    **dict.fromkeys((".json", ".jsonl", ".job", ".hardner-tag"), _json),
    ".toml": _toml,
    ".xml": _xml,
    ".spacy": _docbin,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".hardner": _sqlite,
}
"""By how a file's name ends; each raises an exception where the content is damaged already."""
