"""Whatever happens to the bytes of a file, a reader gives documents or one clear error."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardner.errors import FileError, HardnerError
from hardner.formats import FORMATS, Place, Report, read, write
from hardner.formats.format import check_document
from hardner.types import Document, Entity, Passage

DOCUMENT = Document(
    "1",
    "A stent.\nIt failed.",
    (Entity(2, 7, "Device", "stent", identifier="D:1"), Entity(9, 11, "It", "It", score=0.5)),
    passages=(Passage(0, 8, "title"), Passage(9, 19, "abstract")),
)
PIECES = [
    b"",
    b"\n",
    b"\t",
    b" ",
    b"\0",
    b"\xff",
    b"{",
    b"[",
    b'"',
    b"9",
    b"-",
    b"null",
    b"[]",
    b"<a>",
]
changes = st.tuples(st.floats(0, 1), st.integers(0, 6), st.sampled_from(PIECES))


@pytest.mark.parametrize("format", [n for n, row in FORMATS.items() if row.read and row.write])
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(damage=st.lists(changes, min_size=1, max_size=3))
def test_damaged_files(tmp_path: Path, format: str, damage: list[tuple[float, int, bytes]]) -> None:
    if format == "docbin":
        pytest.importorskip("spacy", reason="spaCy is an extra")
    path = tmp_path / ("x.ann" if format == "brat" else "x")
    write([DOCUMENT, DOCUMENT][: 1 if format == "brat" else 2], path, format, report=Report())
    content = path.read_bytes()
    for where, length, piece in damage:
        at = int(where * len(content))
        content = content[:at] + piece + content[at + length :]
    path.write_bytes(content)
    try:
        found = list(read(path, format, report=Report()))
    except HardnerError as error:
        assert "\n" not in str(error)
        assert str(tmp_path) in str(error)
    else:
        for document in found:
            check_document(document, Place(path))


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write([DOCUMENT], path, "parquet", report=Report())
    path.write_bytes(path.read_bytes().replace(b"entities", b"enti\xff\xffes"))
    with pytest.raises(HardnerError, match="not Parquet: "):
        list(read(path, "parquet", report=Report()))


VALUES = [None, True, -1, 5, 10**30, 1.5, "", "x", [], [1], [[1, 2]], {}, {"a": 1}, "\ud800", "\0"]


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every value within a JSON value."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        yield (*path, key)
        yield from nodes(item, (*path, key))


@pytest.mark.parametrize("format", ["jsonl", "prodigy", "doccano", "labelstudio", "biocjson"])
def test_any_value_of_any_type_in_any_field(tmp_path: Path, format: str) -> None:
    path = tmp_path / "x.jsonl"
    write([DOCUMENT], path, format, report=Report())
    whole = path.read_text()
    refused = 0
    for *way, last in list(nodes(json.loads(whole))):
        for value in VALUES:
            record = json.loads(whole)
            holder = record
            for key in way:
                holder = holder[key]
            holder[last] = value
            path.write_text(json.dumps(record))
            try:
                list(read(path, format, report=Report()))
            except HardnerError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize("name", ["a.xml.gz", "a.bioc.json.xz", "a.spacy.gz", "a.jsonl.xz"])
def test_compressed_data_cut_short(tmp_path: Path, name: str) -> None:
    if "spacy" in name:
        pytest.importorskip("spacy", reason="spaCy is an extra")
    path = tmp_path / name
    write((replace(DOCUMENT, id=str(n)) for n in range(500)), path, report=Report())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FileError, match="compressed data is cut short or damaged"):
        list(read(path, report=Report()))
