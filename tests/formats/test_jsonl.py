"""The project's own JSON lines, and files that mix the dialects of other tools."""

import json
from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.files import LINE_LIMIT
from hardner.formats import Report, read, write
from hardner.formats.json_records import JsonCursor, read_records
from hardner.types import Document, Entity, Passage, Sentence, Span

FULL = Document(
    "d1",
    "Left & right lung",
    (
        Entity(0, 17, "Organ", "Left lung", 0.5, ((0, 4), (13, 17)), "U:1"),
        Entity(0, 4, "Side", "Left"),
    ),
    (Sentence(("Left",), (Span(0, 1, "Side"),), "s1", ((0, 4),)), Sentence(("loose",))),
    (Passage(0, 17, "title"),),
)
PARTLY = Document(
    "d2",
    "Left lung",
    sentences=(
        Sentence(("Left", "lung"), (), "s", ((0, 4), (5, 9)), "partial", (Span(0, 1, "Organ"),)),
    ),
    rejected=(Entity(0, 4, "Organ", "Left"),),
)
"""Of which no more is known than that "Left" is no organ."""


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_layout(tmp_path: Path) -> None:
    write([FULL], tmp_path / "a.jsonl", strict=True)
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {
        "id": "d1",
        "text": "Left & right lung",
        "entities": [
            {
                "start": 0,
                "end": 17,
                "label": "Organ",
                "text": "Left lung",
                "score": 0.5,
                "identifier": "U:1",
                "fragments": [[0, 4], [13, 17]],
            },
            {"start": 0, "end": 4, "label": "Side", "text": "Left"},
        ],
        "sentences": [
            {"id": "s1", "tokens": ["Left"], "spans": [[0, 1, "Side"]], "offsets": [[0, 4]]},
            {"id": "", "tokens": ["loose"], "spans": []},
        ],
        "passages": [{"start": 0, "end": 17, "kind": "title"}],
    }
    assert list(read(tmp_path / "a.jsonl", strict=True)) == [FULL]


def test_what_is_known_not_to_be_a_mention(tmp_path: Path) -> None:
    write([PARTLY], tmp_path / "a.jsonl", strict=True)
    row = json.loads((tmp_path / "a.jsonl").read_text())
    assert row["rejected"] == [{"start": 0, "end": 4, "label": "Organ", "text": "Left"}]
    assert row["sentences"][0]["rejected"] == [[0, 1, "Organ"]]
    assert list(read(tmp_path / "a.jsonl", strict=True)) == [PARTLY]


@pytest.mark.parametrize("format", ["prodigy", "brat", "conll", "parquet"])
def test_other_formats_say_that_they_cannot_hold_it(tmp_path: Path, format: str) -> None:
    write([PARTLY], tmp_path / "x", format, report=(report := Report()))
    assert report.counts["rejected mention left out"] == 1


@pytest.mark.parametrize(
    ("rejected", "message"),
    [
        ([{"start": 0, "end": 4, "label": "Organ", "text": "lung"}], "but the text there is"),
        ([{"start": 0, "end": 99, "label": "Organ"}], "lies outside the text"),
        (["Left"], "not a list of objects"),
    ],
)
def test_a_rejected_mention_agrees_with_its_text(
    tmp_path: Path, rejected: object, message: str
) -> None:
    path = lines(tmp_path / "a.jsonl", {"text": "Left lung", "rejected": rejected})
    with pytest.raises(FileError, match=message):
        list(read(path))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ndjson.gz"])
def test_array_or_lines(tmp_path: Path, name: str) -> None:
    write([FULL, FULL], tmp_path / name, strict=True)
    assert list(read(tmp_path / name, strict=True)) == [FULL, FULL]
    if name == "a.json":
        assert len(json.loads((tmp_path / name).read_text())) == 2


def test_dialects_are_told_apart_record_by_record(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"text": "abc"},
        {"text": "abc", "spans": [{"start": 0, "end": 1, "label": "P"}], "_task_hash": 5},
        {"id": 7, "text": "abc", "label": [[0, 1, "D"]], "Comments": []},
        {"id": 8, "text": "abc", "labels": [[0, 1, "D"]]},
        {"data": {"text": "abc"}, "annotations": [], "predictions": []},
        {"text": "abc", "entities": [{"start": 0, "end": 1, "label": "H"}]},
    )
    found = list(read(path, strict=True))
    assert [d.id for d in found] == ["a-1", "a-2", "7", "8", "a-5", "a-6"]
    labels = [[e.label for e in d.entities] for d in found]
    assert labels == [[], ["P"], ["D"], ["D"], [], ["H"]]


def test_fields_that_are_not_kept_are_said(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"text": "a", "year": 1990, "relations": [1, 2], "x": None})
    report = Report()
    list(read(path, report=report))
    assert report.counts == {"relation left out": 2, "field 'year' not kept": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"entities": 3}, '"entities" is not a list'),
        ({"entities": [3]}, '"entities" is not a list of objects'),
        ({"entities": [{"start": True, "end": 1, "label": "X"}]}, "'True' is not an offset"),
        ({"entities": [{"start": 0, "end": 1}]}, "a mention without a label"),
        ({"entities": [{"start": 0, "end": 1, "label": "X", "score": "a"}]}, "not a number"),
        (
            {"entities": [{"start": 0, "end": 1, "label": "X", "score": float("nan")}]},
            "not a number",
        ),
        (
            {"entities": [{"start": 0, "end": 2, "label": "X", "fragments": [[0, 1]]}]},
            "do not span it",
        ),
        ({"entities": [{"start": 0, "end": 2, "label": "X", "fragments": [[0]]}]}, "not pairs"),
        ({"sentences": [{"tokens": [1]}]}, "not a list of strings"),
        ({"sentences": [{"tokens": ["a"], "offsets": []}]}, "1 tokens and 0 offsets"),
        ({"sentences": [{"tokens": ["a"], "spans": [[1]]}]}, "not a mention of the form"),
        ({"passages": [{"start": "x"}]}, "is not an offset"),
        ({"id": [1]}, '"id" is not a string'),
    ],
)
def test_malformed_records_name_the_line(tmp_path: Path, record: object, message: str) -> None:
    path = lines(tmp_path / "a.jsonl", {"text": "abc"}, {"text": "abc", **record})  # type: ignore[dict-item]
    with pytest.raises(FileError, match=rf"a\.jsonl:2: .*{message}"):
        list(read(path))


@pytest.mark.parametrize(
    "document",
    [
        Document("d", "abc", (Entity(0, 2, "X", "bc"),)),
        Document("d", "abc", (Entity(0, 9, "X", "abc"),)),
        Document("d", "abc", (Entity(0, 3, "X", "a c", fragments=((0, 1), (1, 2))),)),
        Document("d", "abc", (Entity(0, 1, "X", "a", score=float("inf")),)),
        Document("d", "a\0c"),
        Document("d", "a\ud800c"),
        Document("d", "abc", passages=(Passage(0, 9, "t"),)),
        Document("d", "abc", sentences=(Sentence(("x",), offsets=((0, 1),)),)),
    ],
)
def test_documents_that_contradict_themselves_are_not_written(
    tmp_path: Path, document: Document
) -> None:
    with pytest.raises(FileError, match=r"a\.jsonl: document 'd': "):
        write([document], tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1, 3, 1 << 18])
def test_items_of_an_array_come_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("hardner.files._BLOCK", size)
    rows = [{"n": n, "text": '[]{},"\\é😀' * n} for n in range(20)]
    (tmp_path / "a").write_text(json.dumps(rows, indent=1))
    assert [record.fields for record in read_records(tmp_path / "a")] == rows
    cursor = JsonCursor(tmp_path / "a")
    assert [value for _, value in cursor.items()] == rows
    assert cursor.peek() == ""


def test_lines_of_items_in_an_array(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('\n[{"a": 1},\n\n {"b":\n 2},\n{"c": 3}]')
    assert [record.place.line for record in read_records(tmp_path / "a")] == [2, 4, 6]
    (tmp_path / "a").write_text('[{"a": 1},\n{"b":\n 2,,}]')
    with pytest.raises(FileError, match="a:3: not JSON"):
        list(read_records(tmp_path / "a"))


def test_the_limit_is_for_one_item_not_for_the_file(tmp_path: Path) -> None:
    row = json.dumps({"text": "x" * 1_000_000})
    (tmp_path / "a").write_text("[" + ",".join([row] * 15) + "]")
    assert (tmp_path / "a").stat().st_size > LINE_LIMIT
    assert sum(1 for _ in read_records(tmp_path / "a")) == 15
