"""A table of mentions, as a spreadsheet reads it."""

import csv
from pathlib import Path

from hardner.formats import Report, write
from hardner.types import Document, Entity


def test_a_row_for_each_mention(tmp_path: Path) -> None:
    text = 'Aspirin, the "old\none", cures BRCA1.'
    entities = (
        Entity(0, 7, "Chemical", "Aspirin", 0.9123),
        Entity(14, 22, "Odd", 'old\none"', 1.0),
        Entity(30, 35, "Gene", "BRCA1", 0.5),
    )
    report = Report()
    documents = [Document("a,b", text, entities), Document("empty", "Nothing.")]
    write(documents, tmp_path / "found.csv", report=report)
    with (tmp_path / "found.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {
            "document": "a,b",
            "start": str(e.start),
            "end": str(e.end),
            "label": e.label,
            "text": e.text,
            "score": str(e.score),
        }
        for e in entities
    ]
    assert report.lines() == []


def test_what_has_no_column_is_counted(tmp_path: Path) -> None:
    entities = (Entity(0, 7, "Chemical", "Aspirin", identifier="MESH:D001241"),)
    report = Report()
    write([Document("a", "Aspirin.", entities)], tmp_path / "found.csv", report=report)
    assert len(report.lines()) == 1 and "identifier" in report.lines()[0]
