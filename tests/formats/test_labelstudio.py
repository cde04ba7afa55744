"""Label Studio's exports: JSON, JSON-MIN, and what a browser's offsets mean."""

import json
from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.formats import Report, detect, read, write
from hardner.types import Document, Entity


def region(
    start: int, end: int, text: str, *labels: str, type: str = "labels"
) -> dict[str, object]:
    value = {"start": start, "end": end, "text": text, "labels": list(labels)}
    place = {"from_name": "label", "to_name": "text", "type": type, "origin": "manual"}
    return {"value": value, "id": "3fLk", **place}


def task(text: str, *results: list[dict[str, object]], **more: object) -> dict[str, object]:
    made = [{"id": n, "completed_by": 1, "result": result} for n, result in enumerate(results)]
    return {"id": 5, "annotations": made, "data": {"text": text}, "predictions": [], **more}


def export(path: Path, *tasks: object) -> Path:
    path.write_text(json.dumps(tasks))
    return path


def test_read(tmp_path: Path) -> None:
    path = export(tmp_path / "a.json", task("A stent.", [region(2, 7, "stent", "Device", "Thing")]))
    assert detect(path).name == "jsonl"
    expected = Document(
        "5", "A stent.", (Entity(2, 7, "Device", "stent"), Entity(2, 7, "Thing", "stent"))
    )
    for format in ("labelstudio", None):
        assert list(read(path, format, strict=True)) == [expected]


def test_short_export(tmp_path: Path) -> None:
    label = [{"start": 2, "end": 7, "text": "stent", "labels": ["Device"]}]
    row = {"text": "A stent.", "id": 1, "label": label, "annotator": 1, "lead_time": 3.2}
    (document,) = read(export(tmp_path / "a.json", row), strict=True)
    assert document == Document("1", "A stent.", (Entity(2, 7, "Device", "stent"),))


def test_offsets_of_a_browser(tmp_path: Path) -> None:
    """A browser counts a character beyond the basic plane as two."""
    (document,) = read(
        export(tmp_path / "a.json", task("😀😀 stent", [region(5, 10, "stent", "X")]))
    )
    assert document.entities == (Entity(3, 8, "X", "stent"),)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    choice = {"type": "choices", "value": {"choices": ["x"]}}
    cancelled = {"id": 9, "was_cancelled": True, "result": [region(0, 1, "A", "Wrong")]}
    given = task(
        "A stent.", [region(0, 1, "A", "X"), relation, choice], [], predictions=[{"id": 1}]
    )
    given["annotations"].insert(0, cancelled)  # type: ignore[attr-defined]
    given["data"]["title"] = "t"  # type: ignore[index]
    report = Report()
    (document,) = read(export(tmp_path / "a.json", given), report=report)
    assert [entity.label for entity in document.entities] == ["X"]
    assert report.counts == {
        "second annotation of a task left out": 1,
        "prediction left out": 1,
        "relation result left out": 1,
        "choices result left out": 1,
        "fields of 'data' beside 'text' not kept": 1,
    }
    with pytest.raises(FileError, match="left out"):
        list(read(tmp_path / "a.json", strict=True))


def test_written_as_label_studio_writes(tmp_path: Path) -> None:
    write([Document("d", "A", (Entity(0, 1, "X", "A"),))], tmp_path / "a.json", "labelstudio")
    (found,) = json.loads((tmp_path / "a.json").read_text())
    assert found["data"] == {"text": "A", "id": "d"}
    (annotation,) = found["annotations"]
    (result,) = annotation["result"]
    assert result == {**region(0, 1, "A", "X"), "id": "e1"}
