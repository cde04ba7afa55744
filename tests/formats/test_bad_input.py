"""Whatever is wrong with the input: one line with file and line, exit code 1, no output."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command

GOOD = "The\tO\npacemaker\tB-Device\n\nIt\tO\nfailed\tO\n\n"


def jsonl(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def bioc(offset: object = 0, text: str = "a b", where: str = 'offset="0" length="1"') -> bytes:
    annotation = f'<annotation id="1"><infon key="type">X</infon><location {where}/><text>a</text>'
    return (
        f"<collection><source/><date/><key/>\n<document><id>1</id><passage><offset>{offset}</offset>"
        f"<text>{text}</text>{annotation}</annotation></passage></document></collection>"
    ).encode()


PUBTATOR = b"1|t|A pacemaker\n1|a|It failed.\n"
SPAN = {"start": 0, "end": 1, "label": "X"}

FILES = [
    ("empty.tsv", b"", "empty.tsv: holds no sentences"),
    ("blank.tsv", b"\n \n\n", "blank.tsv: holds no sentences"),
    ("empty.txt", b"", "empty.txt: holds no text"),
    ("empty.jsonl", b"", "empty.jsonl: holds no documents"),
    ("empty.pubtator", b"\n", "empty.pubtator: holds no documents"),
    ("empty.xml", b"", "empty.xml"),
    ("empty.json", b"", "empty.json: holds no documents"),
    ("empty.bioc.json", b"", "empty.bioc.json:1: not JSON: expected {, found the end of the file"),
    ("latin.tsv", GOOD.encode() + b"na\xefve\tO\n", "latin.tsv:7: byte 0xEF is not UTF-8"),
    ("latin.jsonl", b'{"text": "a"}\n{"text": "\xe9"}', "latin.jsonl:2: byte 0xE9 is not UTF-8"),
    ("latin.txt", b"caf\xe9", "latin.txt:1: byte 0xE9 is not UTF-8"),
    (
        "table.csv",
        b"text,label\nA stent,Device\n",
        "table.csv: CSV is not read; of a table of texts",
    ),
    (
        "table.tsv",
        b"text\tlabel\nA stent\tDevice\n",
        "table.tsv:1: 'label' is not a tag; of a table",
    ),
    ("nul.tsv", b"a\tO\nb\0\tO\n", "nul.tsv:2: a NUL byte"),
    ("long.tsv", b"a\tO\n" + b"x" * 11_000_000, "long.tsv:2: a line longer than 10,000,000"),
    ("long.txt", b"x" * 11_000_000, "long.txt:1: a line longer than 10,000,000"),
    ("long.jsonl", b'{"text": "' + b"x" * 11_000_000, "long.jsonl:1: a line longer than"),
    ("long.json", b'[{"text": "' + b"x" * 30_000_000, "long.json:1: a value longer than"),
    ("unbroken.tsv", b"word\tO\n" * 2_000_000, "unbroken.tsv:1: no blank line"),
    ("tag.tsv", GOOD.encode() + b"\tB-Device\n", "tag.tsv:7: a tag without a token"),
    ("notag.tsv", b"a\tO\nb\t\n", "notag.tsv:2: a token without a tag"),
    ("columns.tsv", b"a\tO\nb\tNN\tO\n", "columns.tsv:2: 3 columns where 2 were seen before"),
    ("fewer.tsv", b"a\tNN\tO\nb\tO\n", "fewer.tsv:2: 2 columns where 3 were seen before"),
    ("one.tsv", b"a\tO\nb\n", "one.tsv:2: 1 column where 2 were seen before"),
    ("only.tsv", b"a\nb\n", "only.tsv:1: one column where a token and its tag"),
    ("spaces.conll", b"a NN O\nb O\n", "spaces.conll:2: 2 columns where 3 were seen before"),
    ("odd.tsv", b"a\tO\nb\tX-Device\n", "odd.tsv:2: 'X-Device' is not a tag"),
    ("no.jsonl", b'{"text": "a"}\n{"text": \n', "no.jsonl:2: not JSON"),
    ("list.jsonl", b'{"text": "a"}\n[1]\n', "list.jsonl:2: expected a JSON object, found '[1]'"),
    ("cut.json", b'[{"text": "a"},\n{"text": "b"}', "cut.json:2: not JSON: expected ,"),
    ("deep.jsonl", b'{"text":' + b"[" * 100_000, "deep.jsonl:1: not JSON"),
    ("text.jsonl", jsonl({"spans": []}), 'text.jsonl:1: no "text"'),
    ("number.jsonl", jsonl({"text": 3}), 'number.jsonl:1: "text" is not a string'),
    (
        "out.jsonl",
        jsonl({"text": "ab", "spans": [{**SPAN, "end": 3}]}),
        "out.jsonl:1: 0-3 lies outside",
    ),
    ("no-end.jsonl", jsonl({"text": "ab", "spans": [{"start": 0}]}), "'None' is not an offset"),
    ("void.jsonl", jsonl({"text": "ab", "label": [[1, 1, "X"]]}), "void.jsonl:1: 1-1 holds no"),
    ("triple.jsonl", jsonl({"text": "ab", "label": [[1, 2]]}), "triple.jsonl:1: not a mention"),
    (
        "differs.jsonl",
        jsonl({"text": "ab", "entities": [{**SPAN, "text": "b"}]}),
        "differs.jsonl:1: mention 'b' at 0-1, but the text there is 'a'",
    ),
    (
        "studio.json",
        b'[\n{"data": {"text": "ab"}, "annotations": [{"result": [{"type": "labels", "value": '
        b'{"start": 0, "end": 1, "text": "b", "labels": ["X"]}}]}]}]',
        "studio.json:2: mention 'b' at 0-1, but the text there is 'a'",
    ),
    ("bad.pubtator", PUBTATOR + b"1\t2\t12\tpacemaker\tX\n", "bad.pubtator:3: mention 'pacemaker'"),
    ("out.pubtator", PUBTATOR + b"1\t2\t99\tpacemaker\tX\n", "out.pubtator:3: 2-99 lies outside"),
    ("other.pubtator", PUBTATOR + b"2\t2\t11\tpacemaker\tX\n", "other.pubtator:3: the id '2'"),
    ("minus.pubtator", PUBTATOR + b"1\t-2\t11\tpacemaker\tX\n", "minus.pubtator:3: '-2' is not"),
    ("twice.pubtator", PUBTATOR + b"1|t|Again\n", "twice.pubtator:3"),
    ("titleless.pubtator", b"1|a|It failed.\n", "titleless.pubtator:1: no title"),
    ("cut.xml", bioc()[:-20], "cut.xml:2: not XML"),
    ("offset.xml", bioc("zero"), "offset.xml:2: document '1': 'zero' is not an offset"),
    ("outside.xml", bioc(where='offset="0" length="9"'), "outside.xml:2: document '1': 0-9 lies"),
    (
        "differs.xml",
        bioc(text="b a"),
        "differs.xml:2: document '1': mention 'a' at 0-1, but the text there is 'b'",
    ),
    ("far.xml", bioc(10**12), "far.xml:2: document '1': the passage at 1000000000000"),
    (
        "lacks.bioc.json",
        b'{"documents": [\n{"id": "1"}]}',
        "lacks.bioc.json:2: not a BioC document",
    ),
    ("bad.spacy", b"not a DocBin", "bad.spacy: not a spaCy DocBin"),
    ("cut.tsv.xz", lzma.compress(GOOD.encode() * 1000)[:-30], "cut.tsv.xz: compressed data is cut"),
    ("zero.tsv.xz", b"", "zero.tsv.xz: compressed data is cut"),
    ("what.dat", b"plain prose", "what.dat: cannot tell its format"),
    ("a.gold_conll", b"#begin document (a); part 000\na b\n", "a.gold_conll:2: 2 columns"),
]


def check(hardner: Command, source: Path, target: Path, expected: str, *options: str) -> None:
    before = sorted(target.parent.iterdir()) if target.parent.is_dir() else None
    code, out, err = hardner("convert", source, target, *options)
    assert (code, out) == (1, ""), err
    assert err.count("\n") == 1 and err.endswith("\n"), err
    assert err.startswith("hardner: ")
    assert expected in err
    assert "Traceback" not in err
    if before is not None:
        assert sorted(target.parent.iterdir()) == before


@pytest.mark.parametrize(("name", "content", "expected"), FILES, ids=[name for name, *_ in FILES])
def test_files(hardner: Command, tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    if name.endswith(".spacy"):
        pytest.importorskip("spacy", reason="spaCy is an extra")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "out").mkdir()
    check(hardner, tmp_path / name, tmp_path / "out" / "x.jsonl", expected)


ANN = [
    ("T1\tX 0 99\tpacemaker\n", "a.ann:1: 0-99 lies outside the text of 12 characters"),
    ("T1\tX 0 1\tA\nT1\tX 2 3\tp\n", "a.ann:2: a second T1: two entities with one id"),
    ("T1\tX 0 1\tB\n", "a.ann:1: mention 'B' at 0-1, but the text there is 'A'"),
    ("T1\tX 0\tA\n", "a.ann:1: not a label and its offsets"),
    ("T1\tX 0 1\tA\nN1\tReference T2 MESH:1\tA\n", "a.ann: a concept of T2, but there is no T2"),
    ("T1\tX 0 1;5 99\tA maker\n", "a.ann:1: 5-99 lies outside"),
    ("what\n", "a.ann:1: not an annotation"),
]


@pytest.mark.parametrize(("content", "expected"), ANN)
@pytest.mark.parametrize("folder", [True, False])
def test_brat(hardner: Command, tmp_path: Path, content: str, expected: str, folder: bool) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.txt").write_text("A pacemaker.")
    (source / "a.ann").write_text(content)
    check(hardner, source if folder else source / "a.ann", tmp_path / "x.jsonl", expected)


def test_ann_without_its_text(hardner: Command, tmp_path: Path) -> None:
    (tmp_path / "a.ann").write_text("")
    check(hardner, tmp_path / "a.ann", tmp_path / "x.jsonl", "a.txt: no such file")


def test_folder_for_a_file(hardner: Command, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    check(hardner, source, tmp_path / "x.jsonl", "in: a folder without files of a known format")
    check(hardner, source, tmp_path / "x.jsonl", "in: is a folder, not a file", "--from", "conll")


def test_missing(hardner: Command, tmp_path: Path) -> None:
    check(hardner, tmp_path / "no.tsv", tmp_path / "x.jsonl", "no.tsv: no such file or folder")
    check(hardner, tmp_path / "no.txt", tmp_path / "x.jsonl", "no.txt: no such file or folder")


def test_targets(hardner: Command, tmp_path: Path) -> None:
    source = tmp_path / "a.tsv"
    source.write_text(GOOD)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "dir.tsv").mkdir()
    (tmp_path / "b.tsv").touch()
    for name, expected, *options in (
        ("no/x.tsv", "no such file or folder"),
        ("a.tsv/x.tsv", "a part of this path is a file"),
        ("dir.tsv", "is a folder, not a file", "--to", "conll"),
        ("x.what", "cannot tell the format to write; say which with --to"),
        ("full", "is there already; name a new folder"),
        ("a.tsv", "is read, so it cannot be written as well", "--to", "brat"),
        ("b.tsv", "is there already; name a new folder", "--to", "brat"),
        ("x.sgm", "cannot tell the format to write"),
        ("x", "ace can be read but not written", "--to", "ace"),
        ("x.jsonl", "jsonl has no tags, so no scheme (IOBES)", "--scheme", "IOBES"),
    ):
        check(hardner, source, tmp_path / name, expected, *options)
    assert source.read_text() == GOOD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder(hardner: Command, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    locked = tmp_path / "locked"
    locked.mkdir(0o555)
    check(hardner, tmp_path / "a.tsv", locked / "x.jsonl", "permission denied")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_device(hardner: Command, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    code, _, err = hardner("convert", tmp_path / "a.tsv", "/dev/full", "--to", "jsonl")
    assert (code, err) == (1, "hardner: /dev/full: no space left on the device\n")


def test_an_error_in_the_middle_keeps_the_old_output(hardner: Command, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(GOOD.encode() * 50_000 + b"bad\n")
    (tmp_path / "x.jsonl").write_text("old")
    check(hardner, tmp_path / "a.tsv", tmp_path / "x.jsonl", "a.tsv:300001: 1 column")
    assert (tmp_path / "x.jsonl").read_text() == "old"


@pytest.mark.parametrize(
    "content",
    [GOOD.removesuffix("\n\n"), GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD, GOOD + "\n\n \n"],
    ids=["no final newline", "CRLF", "BOM", "blank lines"],
)
def test_harmless_oddities_read_as_if_they_were_not_there(
    hardner: Command, tmp_path: Path, content: str
) -> None:
    (tmp_path / "a.tsv").write_bytes(content.encode())
    code, _, err = hardner("convert", tmp_path / "a.tsv", tmp_path / "x.tsv")
    assert code == 0, err
    assert (tmp_path / "x.tsv").read_text() == GOOD


def test_command_line_errors_exit_with_2(hardner: Command, tmp_path: Path) -> None:
    for options in (["--from", "word"], ["--to", "word"], ["--scheme", "XYZ"], ["--what"]):
        code, _, err = hardner("convert", tmp_path / "a.tsv", tmp_path / "x", *options)
        assert code == 2
        assert options[-1] in err
    assert hardner("convert", tmp_path / "a.tsv")[0] == 2


def test_strict_names_file_and_line(hardner: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tO\n\nb\tO\nc\tI-X\n")
    check(hardner, path, tmp_path / "x.jsonl", "a.tsv:4: invalid tag sequence", "--strict")
    path.write_text("a\tB-X\nc\tI-Y\n")
    check(hardner, path, tmp_path / "x.jsonl", "a.tsv:2: invalid tag sequence", "--strict")


def test_without_spacy(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    script = "import sys; sys.modules['spacy'] = None; from hardner.cli import main; main()"
    arguments = ["convert", str(tmp_path / "a.tsv"), str(tmp_path / "x.spacy")]
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr == "hardner: spacy is not installed; run: pip install 'hardner[spacy]'\n"
    assert not (tmp_path / "x.spacy").exists()
