"""ACE 2005: offsets into the text without its tags, extents, nested mentions."""

from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.formats import Report, detect, read
from hardner.schemes import longest_non_overlapping, shortest_non_overlapping

SGM = """<DOC>
<DOCID> X1 </DOCID>
<BODY>
<TEXT>
17,000 U.S. Army soldiers of AT&amp;T left
Iraq.
</TEXT>
</BODY>
</DOC>
"""
PLAIN = "\n X1 \n\n\n17,000 U.S. Army soldiers of AT&amp;T left\nIraq.\n\n\n\n"


def charseq(text: str, quoted: str) -> str:
    start = text.index(quoted)
    shown = quoted.replace("&amp;", "&").replace("&", "&amp;")
    return f'<charseq START="{start}" END="{start + len(quoted) - 1}">{shown}</charseq>'


def apf(text: str) -> str:
    mentions = [
        ("PER", "17,000 U.S. Army soldiers"),
        ("ORG", "U.S. Army"),
        ("GPE", "U.S."),
        ("ORG", "AT&amp;T" if "&amp;" in text else "AT&T"),
        ("GPE", "Iraq"),
    ]
    entities = "\n".join(
        f'<entity ID="E{n}" TYPE="{label}"><entity_mention ID="E{n}-1" TYPE="NAM">'
        f"<extent>{charseq(text, quoted)}</extent><head>{charseq(text, quoted)}</head>"
        "</entity_mention></entity>"
        for n, (label, quoted) in enumerate(mentions, 1)
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "apf.v5.1.1.dtd">\n'
        f'<source_file URI="X1.sgm"><document DOCID="X1">\n{entities}\n'
        '<value ID="V1"/><timex2 ID="T1"/><relation ID="R1"/><event ID="EV1"/>'
        "</document></source_file>\n"
    )


@pytest.fixture(params=["raw", "read"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Offsets that count ``&amp;`` as five characters, and as one."""
    text = PLAIN if request.param == "raw" else PLAIN.replace("&amp;", "&")
    (tmp_path / "nw").mkdir()
    (tmp_path / "nw" / "X1.sgm").write_text(SGM)
    (tmp_path / "nw" / "X1.apf.xml").write_text(apf(text))
    return tmp_path


def test_read(folder: Path) -> None:
    report = Report()
    assert detect(folder).name == "ace"
    (document,) = read(folder, report=report)
    assert document.id == "X1"
    assert [(e.label, e.text.replace("&amp;", "&"), e.identifier) for e in document.entities] == [
        ("PER", "17,000 U.S. Army soldiers", "E1"),
        ("ORG", "U.S. Army", "E2"),
        ("GPE", "U.S.", "E3"),
        ("ORG", "AT&T", "E4"),
        ("GPE", "Iraq", "E5"),
    ]
    assert all(document.text[e.start : e.end] == e.text for e in document.entities)
    assert set(report.counts) == {f"{k} left out" for k in ("value", "timex2", "relation", "event")}
    for name in ("X1.sgm", "X1.apf.xml"):
        assert list(read(folder / "nw" / name, report=Report())) == [document]


def test_nested(folder: Path) -> None:
    (document,) = read(folder, report=Report())
    inner = shortest_non_overlapping(document.entities)
    assert [e.identifier for e in inner] == ["E3", "E4", "E5"]
    outer = longest_non_overlapping(document.entities)
    assert [e.identifier for e in outer] == ["E1", "E4", "E5"]


def test_offsets_that_lie(folder: Path) -> None:
    path = folder / "nw" / "X1.apf.xml"
    path.write_text(path.read_text().replace(">Iraq<", ">Iran<"))
    with pytest.raises(
        FileError, match=r"X1\.apf\.xml:8: mention 'Iran' at .* text there is 'Iraq'"
    ):
        list(read(folder, report=Report()))


def test_missing_text(folder: Path) -> None:
    (folder / "nw" / "X1.sgm").unlink()
    with pytest.raises(FileError, match=r"X1\.sgm: no such file"):
        list(read(folder, report=Report()))
