"""doccano's exports, old and new."""

import json
from pathlib import Path

import pytest

from hardner.formats import Report, read, write
from hardner.types import Document, Entity

DOCUMENT = Document("12", "A stent.", (Entity(2, 7, "Device", "stent"),))


@pytest.mark.parametrize(
    "record",
    [
        {"id": 12, "text": "A stent.", "label": [[2, 7, "Device"]], "Comments": []},
        {"id": 12, "text": "A stent.", "labels": [[2, 7, "Device"]]},
        {
            "id": 12,
            "text": "A stent.",
            "entities": [{"id": 4, "label": "Device", "start_offset": 2, "end_offset": 7}],
            "relations": [],
            "Comments": [],
        },
    ],
)
@pytest.mark.parametrize("format", ["doccano", None])
def test_read(tmp_path: Path, record: object, format: str | None) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    assert list(read(tmp_path / "a.jsonl", format, strict=True)) == [DOCUMENT]


def test_comments_and_relations_are_said(tmp_path: Path) -> None:
    record = {"text": "a", "label": [], "Comments": ["why"], "relations": [{"type": "R"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    report = Report()
    list(read(tmp_path / "a.jsonl", report=report))
    assert report.counts == {"relation left out": 1, "field 'Comments' not kept": 1}


def test_written_as_doccano_writes(tmp_path: Path) -> None:
    write([DOCUMENT, Document("x7", "b")], tmp_path / "a.jsonl", "doccano", strict=True)
    assert (tmp_path / "a.jsonl").read_text() == (
        '{"id": 12, "text": "A stent.", "label": [[2, 7, "Device"]], "Comments": []}\n'
        '{"id": "x7", "text": "b", "label": [], "Comments": []}\n'
    )
