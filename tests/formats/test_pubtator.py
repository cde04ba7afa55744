"""PubTator: titles and abstracts; what we write, the library bioc reads."""

from pathlib import Path

import pytest
from bioc import pubtator

from hardner.errors import FileError
from hardner.formats import Report, detect, read, write
from hardner.types import Document, Entity, Passage

CONTENT = """
1|t|Selegiline-induced hypotension
1|a|It fell. | See |b| there.
1\t0\t10\tSelegiline\tChemical\tD012642
1\t19\t30\thypotension\tDisease\tD007022\tlow pressure
1\tCID\tD012642\tD007022
1\tAssociation\t5444\t9999\tNovel

2|t|No abstract
2|a|


3|t|Only text, no passages
3\t0\t4\tOnly\tX\t-
3\t5\t9\ttext\tX
"""
EXPECTED = [
    Document(
        "1",
        "Selegiline-induced hypotension\nIt fell. | See |b| there.",
        (
            Entity(0, 10, "Chemical", "Selegiline", identifier="D012642"),
            Entity(19, 30, "Disease", "hypotension", identifier="D007022"),
        ),
        passages=(Passage(0, 30, "title"), Passage(31, 56, "abstract")),
    ),
    Document("2", "No abstract", passages=(Passage(0, 11, "title"),)),
    Document("3", "Only text, no passages", (Entity(0, 4, "X", "Only"), Entity(5, 9, "X", "text"))),
]


@pytest.mark.parametrize("name", ["a.pubtator", "a.PubTator.txt", "a.txt", "a"])
def test_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(CONTENT)
    report = Report()
    assert detect(path).name == "pubtator"
    assert list(read(path, report=report)) == EXPECTED
    assert report.lines() == [
        f"{path}:5: columns after the concept identifier not kept",
        f"{path}:6: relation left out, and 1 more",
    ]
    with pytest.raises(FileError, match=":6: relation left out"):
        list(read(path, strict=True))


def test_bioc_reads_what_is_written(tmp_path: Path) -> None:
    write(EXPECTED, tmp_path / "a.pubtator", strict=True)
    with (tmp_path / "a.pubtator").open() as file:
        found = pubtator.load(file)
    for document, expected in zip(found, EXPECTED, strict=True):
        assert document.pmid == expected.id
        text = f"{document.title}\n{document.abstract}" if document.abstract else document.title
        assert text == expected.text
        assert [(a.start, a.end, a.text, a.type, a.id) for a in document.annotations] == [
            (e.start, e.end, e.text, e.label, e.identifier or "-") for e in expected.entities
        ]


def test_white_space_is_flattened_and_said(tmp_path: Path) -> None:
    report = Report()
    given = Document("1", "two\nlines\there", (Entity(0, 9, "X", "two\nlines"),))
    write([given], tmp_path / "a.pubtator", report=report)
    assert (tmp_path / "a.pubtator").read_text() == (
        "1|t|two lines here\n1\t0\t9\ttwo lines\tX\t-\n\n"
    )
    assert list(report.counts) == ["line breaks and tabs written as spaces"]


def test_other_passages_are_said(tmp_path: Path) -> None:
    report = Report()
    parts = (Passage(0, 1, "title"), Passage(2, 3, "abstract"), Passage(4, 5, "methods"))
    write([Document("1", "a b c", passages=parts)], tmp_path / "a.pubtator", report=report)
    assert (tmp_path / "a.pubtator").read_text() == "1|t|a\n1|a|b c\n\n"
    assert "passages beside title and abstract not kept" in report.counts


def test_bars_in_the_text_are_text(tmp_path: Path) -> None:
    given = Document(
        "1", "a |t| b\n1|a|c", passages=(Passage(0, 7, "title"), Passage(8, 13, "abstract"))
    )
    write([given], tmp_path / "a.pubtator", strict=True)
    assert list(read(tmp_path / "a.pubtator", strict=True)) == [given]


@pytest.mark.parametrize("name", ["", "a b", "a|b"])
def test_ids(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="PubTator id"):
        write([Document(name, "x")], tmp_path / "a.pubtator")
