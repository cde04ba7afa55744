"""The command `hardner convert`, and telling formats apart."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command

from hardner.errors import FileError
from hardner.formats import FORMATS, Report, detect, read, write
from hardner.types import Document, Entity

EXAMPLES = Path(__file__).parents[2] / "examples"
BOTH_WAYS = [name for name, row in FORMATS.items() if row.read and row.write]
WRITTEN = [name for name in BOTH_WAYS if name not in ("text", "docbin")]


def run(*arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "hardner", "convert", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=False)


def mentions(path: Path, format: str | None = None) -> list[tuple[str, str]]:
    found = read(path, format, report=Report())
    return sorted((e.label, "".join(e.text.split())) for d in found for e in d.entities)


@pytest.mark.parametrize("format", WRITTEN)
def test_example_data_through_every_format(hardner: Command, tmp_path: Path, format: str) -> None:
    source = EXAMPLES / "devices-train.jsonl"
    code, out, err = hardner("convert", source, tmp_path / "x", "--to", format, "--strict")
    assert (code, out) == (0, ""), err
    assert err.splitlines()[-1] == f"{source} -> {tmp_path / 'x'}: 20 documents, 20 mentions"
    assert mentions(tmp_path / "x", format) == mentions(source)


def test_losses_are_warned_of_on_stderr(hardner: Command, tmp_path: Path) -> None:
    entities = (Entity(0, 4, "X", "long"), Entity(0, 9, "Y", "long name"))
    write([Document("d", "long name", entities)], tmp_path / "a.jsonl")
    code, _, err = hardner("convert", tmp_path / "a.jsonl", tmp_path / "a.tsv")
    assert code == 0
    assert f"warning: {tmp_path}/a.tsv: document 'd': overlapping mention left out\n" in err
    code, _, err = hardner("convert", tmp_path / "a.jsonl", tmp_path / "b.tsv", "--strict")
    assert (code, err) == (
        1,
        f"hardner: {tmp_path}/b.tsv: document 'd': overlapping mention left out\n",
    )
    assert not (tmp_path / "b.tsv").exists()


def test_schemes(hardner: Command, tmp_path: Path) -> None:
    source = EXAMPLES / "tiny" / "Gene" / "test.tsv"
    there, back = tmp_path / "iobes.tsv.gz", tmp_path / "iob2.tsv"
    assert hardner("convert", source, there, "--scheme", "IOBES", "--strict")[0] == 0
    assert hardner("convert", there, back, "--from-scheme", "IOBES", "--strict")[0] == 0
    assert back.read_bytes() == source.read_bytes()


def test_pipes(tmp_path: Path) -> None:
    content = (EXAMPLES / "tiny" / "Gene" / "test.tsv").read_bytes()
    for data in (content, lzma.compress(content)):
        done = run("-", "-", "--from", "conll", "--to", "jsonl", data=data)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 8
        assert done.stderr.decode() == "- -> -: 8 documents, 9 mentions\n"
    again = run("-", "-", "--to", "conll", data=done.stdout)
    assert again.stdout == content


def test_a_failing_pipe_writes_nothing() -> None:
    done = run("-", "-", "--from", "conll", "--to", "jsonl", data=b"a\tO\n" * 3 + b"\nb\tO\tc\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"hardner: <standard input>:5: 3 columns")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    source = tmp_path / "a.tsv"
    source.write_text("word\tO\n\n" * 50_000)
    command = f"{sys.executable} -m hardner convert {source} - --to jsonl 2>err | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, cwd=tmp_path, check=False)
    assert json.loads(done.stdout)["text"] == "word"
    assert "Traceback" not in (tmp_path / "err").read_text()


@pytest.mark.parametrize(
    ("source", "target"),
    [("a.txt", "a.txt"), ("a.txt", "a.ann"), ("link.txt", "a.txt"), ("brat", "brat/a.ann")],
)
def test_the_input_is_never_overwritten(
    hardner: Command, tmp_path: Path, source: str, target: str
) -> None:
    """A PubTator file would become the plain text that its name says, and lose its mentions."""
    (tmp_path / "a.txt").write_text("1|t|Aspirin\n1|a|\n1\t0\t7\tAspirin\tChemical\n\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    (tmp_path / "brat").mkdir()
    for name, text in (("a.txt", "Aspirin"), ("a.ann", "T1\tChemical 0 7\tAspirin\n")):
        (tmp_path / "brat" / name).write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.rglob("a.*")}
    code, out, err = hardner("convert", tmp_path / source, tmp_path / target)
    message = "is read, so it cannot be written as well; name another"
    assert (code, out, err) == (1, "", f"hardner: {tmp_path / target}: {message}\n")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("a.*")}


def test_formats_are_listed(hardner: Command) -> None:
    code, out, _ = hardner("convert", "--formats")
    assert code == 0
    for name in FORMATS:
        assert name in out
    assert "hardner[spacy]" in "".join(out.split())


def test_formats_are_documented() -> None:
    page = (EXAMPLES.parent / "docs" / "formats.md").read_text()
    for name, row in FORMATS.items():
        (line,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert all(ending in line for ending in row.endings)


def test_help_has_an_example(hardner: Command) -> None:
    code, out, _ = hardner("convert", "--help")
    assert code == 0
    assert "hardner convert examples/devices-train.jsonl devices.tsv" in out


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.tsv", "", "conll"),
        ("a.TSV.XZ", "", "conll"),
        ("a.txt", "Plain prose. O", "text"),
        ("a.txt", "This is vitamin B", "text"),
        ("a.txt", "EU NNP O\nsays VBZ O\n", "conll"),
        ("a.txt", "1|t|Title\n1|a|\n", "pubtator"),
        ("a.conll", "EU\tO\n", "conll"),
        ("a.conll", "#begin document (x); part 000\n", "ontonotes"),
        ("a.v4_gold_conll", "", "ontonotes"),
        ("a.json", '{"source": "", "documents": []}', "biocjson"),
        ("a.json", '[{"data": {}}]', "jsonl"),
        ("a.jsonl.gz", "", "jsonl"),
        ("a.xml", "", "bioc"),
        ("a.apf.xml", "", "ace"),
        ("a.spacy", "", "docbin"),
        ("a.ann", "", "brat"),
        ("a.dat", '{"text": "a"}', "jsonl"),
        ("a.dat", "<?xml?><collection><document>", "bioc"),
        ("a.dat", "a\tO\nb\tB-X\n", "conll"),
        ("a", "1|t|Title\n", "pubtator"),
    ],
)
def test_detect(tmp_path: Path, name: str, content: str, format: str) -> None:
    (tmp_path / name).write_text(content)
    assert detect(tmp_path / name).name == format


def test_names_decide_what_is_written(tmp_path: Path) -> None:
    given = [Document("1", "a b")]
    for name in ("a.jsonl", "a.json", "a.tsv", "a.xml", "a.bioc.json", "a.txt", "a.pubtator.gz"):
        write(given, tmp_path / name, report=Report())
        assert detect(tmp_path / name).name == detect(name.replace("a.", str(tmp_path / "a."))).name
        assert [document.text for document in read(tmp_path / name, report=Report())] == ["a b"]
    write(given, f"{tmp_path}/folder/", report=Report())
    assert (tmp_path / "folder" / "1.ann").exists()
    with pytest.raises(FileError, match="cannot tell the format to write"):
        write(given, tmp_path / "a.doc")
