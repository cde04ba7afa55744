"""BRAT standoff: pairs of files, fragments, overlaps, concepts; the rest is counted."""

from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.formats import Report, detect, read, write
from hardner.types import Document, Entity

TEXT = "Left and right\nlung cancer.\n"
ANN = """T1\tDisease 0 4;15 26\tLeft lung cancer
T2\tDisease 9 26\tright lung cancer
#1\tAnnotatorNotes T2\tcheck
N1\tReference T1 MESH:D008175\tleft lung cancer
N2\tReference T1 ICD:C34\tleft lung cancer
R1\tPart-of Arg1:T1 Arg2:T2
*\tEquiv T1 T2
E1\tGrowth:T2 Theme:T1
A1\tNegated T1
M1\tNegated T1
"""
EXPECTED = (
    Entity(0, 26, "Disease", "Left lung cancer", 1.0, ((0, 4), (15, 26)), "MESH:D008175|ICD:C34"),
    Entity(9, 26, "Disease", "right\nlung cancer"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "a.txt").write_text(TEXT)
    (tmp_path / "in" / "sub" / "a.ann").write_text(ANN)
    (tmp_path / "in" / "b.txt").write_text("nothing")
    (tmp_path / "in" / "README.md").write_text("ignored")
    return tmp_path / "in"


def test_folder(folder: Path) -> None:
    report = Report()
    assert detect(folder).name == "brat"
    assert list(read(folder, report=report)) == [
        Document("b", "nothing"),
        Document("sub/a", TEXT, EXPECTED),
    ]
    assert report.counts == {
        "text without an .ann file beside it": 1,
        "note left out": 1,
        "relation left out": 2,
        "event left out": 1,
        "attribute left out": 2,
    }
    assert f"{folder}/sub/a.ann:6: relation left out, and 1 more" in report.lines()
    with pytest.raises(FileError, match=r"a\.ann:3: note left out"):
        list(read(folder, strict=True))


@pytest.mark.parametrize("name", ["a.ann", "a.txt"])
def test_pair(folder: Path, name: str) -> None:
    (document,) = read(folder / "sub" / name, "brat", report=Report())
    assert document == Document("a", TEXT, EXPECTED)


def test_compressed_pair(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "a.ann.gz").write_bytes(gzip.compress(ANN.encode()))
    for path in (tmp_path, tmp_path / "a.ann.gz"):
        assert list(read(path, report=Report())) == [Document("a", TEXT, EXPECTED)]


def test_offsets_count_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo")
    (tmp_path / "a.ann").write_text("T1\tX 5 8\ttwo\n")
    (document,) = read(tmp_path)
    assert document.text == "one\r\ntwo"


def test_written_as_brat_writes(tmp_path: Path) -> None:
    write([Document("a", TEXT, EXPECTED)], tmp_path / "out", "brat", strict=True)
    assert (tmp_path / "out" / "a.txt").read_text() == TEXT
    assert (tmp_path / "out" / "a.ann").read_text() == (
        "T1\tDisease 0 4;15 26\tLeft lung cancer\n"
        "T2\tDisease 9 26\tright lung cancer\n"
        "N1\tReference T1 MESH:D008175|ICD:C34\tLeft lung cancer\n"
    )


def test_one_pair_and_an_empty_folder(tmp_path: Path) -> None:
    given = Document("a", TEXT, EXPECTED)
    write([given], tmp_path / "a.ann", strict=True)
    assert list(read(tmp_path / "a.ann")) == [given]
    (tmp_path / "out").mkdir()
    write([given], tmp_path / "out", strict=True)
    assert list(read(tmp_path / "out")) == [given]
    write([given], tmp_path / "z.ann.gz", strict=True)
    assert [document.text for document in read(tmp_path / "z.ann.gz")] == [TEXT]
    with pytest.raises(FileError, match="name a folder for more"):
        write([given, given], tmp_path / "b.ann")
    assert not list(tmp_path.glob("b.*"))


def test_labels_get_no_spaces(tmp_path: Path) -> None:
    report = Report()
    given = Document("a", "x", (Entity(0, 1, "cell line", "x", identifier="A B"),))
    write([given], tmp_path / "out", "brat", report=report)
    assert list(report.counts) == [
        "label 'cell line' written as cell_line",
        "concept identifier written without spaces",
    ]


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc/x", "a//b", "a/."])
def test_ids_stay_within_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="cannot be the name of a file"):
        write([Document(name, "x")], tmp_path / "out", "brat")
    assert not list(tmp_path.iterdir())


def test_one_id_twice(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="a second document with this id"):
        write([Document("a", "x"), Document("a", "y")], tmp_path / "out", "brat")
    assert not list(tmp_path.iterdir())


def test_not_through_a_pipe() -> None:
    with pytest.raises(FileError, match="needs a name"):
        list(read("-", "brat"))
