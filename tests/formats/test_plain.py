"""Plain text: a file is a document, to the letter."""

from pathlib import Path

from hardner.formats import Report, detect, read, write
from hardner.types import Document, Entity


def test_a_file_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"One.\r\n\r\nTwo\tthree. ")
    assert detect(tmp_path / "note.txt").name == "text"
    assert list(read(tmp_path / "note.txt")) == [Document("note", "One.\r\n\r\nTwo\tthree. ")]


def test_what_text_cannot_hold_is_counted(tmp_path: Path) -> None:
    report = Report()
    given = [Document("a", "x", (Entity(0, 1, "X", "x"),)), Document("b", "y")]
    write(given, tmp_path / "a.txt", report=report)
    assert (tmp_path / "a.txt").read_text() == "x\ny"
    assert report.counts == {
        "document id not kept": 2,
        "mention left out": 1,
        "bound between two documents written as a line break": 1,
    }
