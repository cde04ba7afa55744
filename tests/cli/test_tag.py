"""The command `hardner tag`: every format, resuming, workers, interrupts."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny
from formats.command import Command
from tag import small_models as models

import hardner
from hardner.cli.tag import Output
from hardner.errors import FileError
from hardner.formats import FORMATS, Report, read, write
from hardner.scale.resume import fingerprint, sole_writer
from hardner.scale.tagging import documents_by_input
from hardner.types import Document

TEXT = "Aspirin may worsen asthma in mice, and BRCA1 is a gene. It causes liver disease."


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty documents as JSON lines."""
    path = tmp_path / "corpus.jsonl"
    found = [" ".join(s.tokens) for s in tiny.everything("test")[0]] * 2
    write([Document(f"d{i}", text) for i, text in enumerate(found)], path)
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "hardner", "tag", *map(str, arguments), "--model", str(MODEL)]


MODEL = models.folder()


def records(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_text_to_json_lines_when_piped(call: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    code, out, err = call("tag", tmp_path / "a.txt", "--model", MODEL)
    assert (code, err) == (0, "")
    (record,) = records(out)
    assert (record["id"], record["text"]) == ("a", TEXT)
    expected = hardner.load(MODEL)(TEXT)
    assert len(expected) > 3
    assert [(e["start"], e["end"], e["label"], e["score"]) for e in record["entities"]] == [
        (e.start, e.end, e.label, e.score) for e in expected
    ]


def test_labels_and_scores_can_be_chosen(call: Command, corpus: Path) -> None:
    code, out, _ = call("tag", corpus, "--model", MODEL, "--labels", "Gene, Species")
    assert code == 0
    assert {e["label"] for r in records(out) for e in r["entities"]} == {"Gene", "Species"}
    code, out, _ = call("tag", corpus, "--model", MODEL, "--min-score", 0.7)
    assert min(e["score"] for r in records(out) for e in r["entities"]) >= 0.7
    code, out, err = call("tag", corpus, "--model", MODEL, "--labels", "Device")
    assert (code, out) == (1, "")
    assert err.startswith("hardner: the model has no label 'Device'; its labels are Disease,")
    code, out, err = call("tag", corpus, "--model", MODEL, "--labels", "Gene,,Species")
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("format", [name for name, row in FORMATS.items() if row.write])
def test_every_format_can_be_written(
    call: Command, tmp_path: Path, corpus: Path, format: str
) -> None:
    if format == "docbin":
        pytest.importorskip("spacy", reason="spaCy is an extra")
    target = tmp_path / "found"
    code, out, err = call("tag", corpus, "--model", MODEL, "--to", format, "--out", target)
    assert (code, out) == (0, ""), err
    assert "64 documents, " in err.splitlines()[-1]
    found = hardner.load(MODEL).documents(read(corpus))
    expected = [(e.text, e.label) for d in found for e in d.entities]
    if format == "text":
        assert target.read_text().count("[Gene 0.") == sum(lab == "Gene" for _, lab in expected)
    elif FORMATS[format].read is not None and "overlaps" in FORMATS[format].holds:
        again = [
            (e.text, e.label) for d in read(target, format, report=Report()) for e in d.entities
        ]
        assert sorted(again) == sorted(expected)


def test_conll_comes_out_line_by_line(call: Command, tmp_path: Path) -> None:
    source, target = tiny.ROOT / "Gene" / "test.tsv", tmp_path / "predicted.tsv"
    arguments = ("--from", "conll", "--to", "conll", "--model", MODEL, "--labels", "Gene")
    code, _, err = call("tag", source, *arguments, "--out", target)
    assert (code, err.count("\n")) == (0, 1), err
    before, after = (path.read_text().splitlines() for path in (source, target))
    assert [row.split("\t")[0] for row in before] == [row.split("\t")[0] for row in after]
    predictor = hardner.load(MODEL)
    spans = predictor.spans(tiny.sentences("Gene", "test"), labels=["Gene"])
    found = [d.sentences[0].spans for d in read(target)]
    assert [list(own) for own in found] == [[span for span, _ in own] for own in spans]
    code, _, _ = call("tag", source, *arguments, "--scheme", "IOBES", "--out", tmp_path / "b.tsv")
    assert code == 0
    assert "\tS-Gene" in (tmp_path / "b.tsv").read_text()


def test_entities_that_a_format_cannot_hold_are_counted(call: Command, tmp_path: Path) -> None:
    source = tiny.ROOT / "Gene" / "test.tsv"
    code, _, err = call("tag", source, "--model", MODEL, "--out", tmp_path / "x.tsv")
    assert code == 0
    assert "overlapping mention left out, and" in err
    assert "score" not in err


def test_batches_and_workers_change_nothing(call: Command, corpus: Path) -> None:
    found = []
    for options in (("--batch-size", 1), ("--batch-size", 8), (), ("--workers", 2)):
        code, out, err = call("tag", corpus, "--model", MODEL, *options)
        assert (code, err) == (0, "")
        found.append(out)
    assert len(found[0].splitlines()) == 64
    assert all(other == found[0] for other in found)


def test_a_folder_has_a_file_for_each_input(call: Command, tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    both = ("tag", tmp_path / "a.txt", corpus, "--model", MODEL)
    code, _, err = call(*both, "--out", f"{tmp_path}/o/")
    assert code == 0
    assert err == f"65 documents, {err.split()[2]} mentions -> {tmp_path}/o\n"
    names = {path.name for path in (tmp_path / "o").iterdir()}
    assert names == {"a.jsonl", "corpus.jsonl", ".hardner-tag"}
    assert [d.id for d in read(tmp_path / "o" / "a.jsonl")] == ["a"]
    assert len(list(read(tmp_path / "o" / "corpus.jsonl"))) == 64
    code, out, _ = call(*both)
    joined = [(tmp_path / "o" / name).read_text() for name in ("a.jsonl", "corpus.jsonl")]
    assert out == "".join(joined)


def test_files_that_would_be_lost_are_refused(call: Command, tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "corpus.txt"
    other.write_text(TEXT)
    code, _, err = call("tag", corpus, other, "--model", MODEL, "--out", f"{tmp_path}/o/")
    assert code == 1
    assert f"{corpus} and {other} would both be written here" in err
    for out in (corpus, tmp_path):
        code, _, err = call("tag", corpus, "--model", MODEL, "--out", out)
        assert (code, err) == (
            1,
            f"hardner: {corpus}: is read, so it cannot be written as well; name another\n",
        )


def test_resuming_a_folder_does_only_what_is_left(call: Command, tmp_path: Path) -> None:
    sources = [tmp_path / f"{n}.txt" for n in range(4)]
    for path in sources:
        path.write_text(TEXT)
    sources[2].write_bytes(b"\xff\xfe bad")
    job = ("--model", MODEL, "--out", f"{tmp_path}/o/")
    code, _, err = call("tag", *sources, *job)
    assert code == 1
    assert "2.txt:1: byte 0xFF is not UTF-8" in err
    done = tmp_path / "o" / "0.jsonl", tmp_path / "o" / "1.jsonl"
    assert {p.name for p in (tmp_path / "o").iterdir()} == {p.name for p in done} | {".hardner-tag"}
    before = [path.stat().st_mtime_ns for path in done]
    sources[2].write_text(TEXT)
    code, _, err = call("tag", *sources, *job, "--resume")
    assert (code, err.split()[0]) == (0, "2")
    assert [path.stat().st_mtime_ns for path in done] == before
    code, _, err = call("tag", *sources, *job, "--resume")
    assert (code, err.split()[0]) == (0, "0")
    sources[1].write_text(TEXT + " ")
    (tmp_path / "o" / "3.jsonl").unlink()
    code, _, err = call("tag", *sources, *job, "--resume")
    assert (code, err.split()[0]) == (0, "2")
    code, _, err = call("tag", *sources, *job, "--resume", "--labels", "Gene")
    assert (code, err.split()[0]) == (0, "4")


def test_resuming_a_file_of_lines(call: Command, tmp_path: Path, corpus: Path) -> None:
    out, part = tmp_path / "out.jsonl", tmp_path / "out.jsonl.part"
    job = ("tag", corpus, "--model", MODEL, "--out", out)
    assert call(*job)[0] == 0
    whole = out.read_text()
    lines = corpus.read_text().splitlines(keepends=True)
    stat = corpus.stat()
    out.unlink()
    corpus.write_text("".join(lines[:40]) + "{broken\n")
    os.utime(corpus, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    code, _, err = call(*job)
    assert (code, err.count("\n")) == (1, 1)
    assert not out.exists()
    assert part.read_text() == "".join(whole.splitlines(keepends=True)[:40])
    code, _, err = call(*job, "--resume", "--min-score", 0.5)
    assert code == 1
    assert "out.jsonl.part: was begun for other inputs or settings" in err
    with part.open("a") as file:
        file.write('{"half a li')
    note = tmp_path / "out.jsonl.part.job"
    corpus.write_text("".join(lines))
    old = note.read_text()
    assert call(*job, "--resume")[0] == 1  # the input is another now
    note.write_text(old.replace(json.loads(old)[1], fingerprint(corpus)))
    code, _, err = call(*job, "--resume")
    assert (code, err.split()[0]) == (0, "24")
    assert out.read_text() == whole
    assert not part.exists()
    assert not note.exists()


@pytest.mark.parametrize("out", ["out.jsonl", "out/"])
def test_two_at_once_do_not_mix(call: Command, tmp_path: Path, corpus: Path, out: str) -> None:
    """One file of both inputs with broken lines came of it, and one of the two said it was fine."""
    job = ("tag", corpus, "--model", MODEL, "--out", f"{tmp_path}/{out}")
    with sole_writer(tmp_path / out, is_dir=out.endswith("/")):
        before = sorted(tmp_path.rglob("*"))
        code, said, err = call(*job)
        assert (code, said) == (1, "")
        assert err == (
            f"hardner: {tmp_path / out}: another process is writing it; wait for it, or choose "
            "another --out\n"
        )
        assert sorted(tmp_path.rglob("*")) == before
    assert call(*job)[0] == 0
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith("lock")]


def test_a_folder_stands_for_the_files_in_it(call: Command, tmp_path: Path, corpus: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(TEXT)
    (folder / "a.txt.md5").write_text("not ours")
    corpus.rename(folder / "deep" / "b.jsonl")
    code, out, err = call("tag", folder, "--model", MODEL)
    assert (code, err) == (0, "")
    assert [record["id"] for record in records(out)] == ["a", *(f"d{n}" for n in range(64))]
    code, _, err = call("tag", folder, "--model", MODEL, "--out", f"{tmp_path}/o/")
    assert code == 0, err
    assert {path.name for path in (tmp_path / "o").glob("*.jsonl")} == {"a.jsonl", "b.jsonl"}
    (folder / "deep" / "a.txt").write_text(TEXT)
    code, _, err = call("tag", folder, "--model", MODEL, "--out", f"{tmp_path}/p/")
    assert code == 0, err
    found = {str(path.relative_to(tmp_path / "p")) for path in (tmp_path / "p").rglob("*.jsonl")}
    assert found == {"a.jsonl", "b.jsonl", "deep/a.jsonl"}


@pytest.mark.parametrize("end", ["\r\n", "\r", "\f\n"])
def test_marks_stand_where_mentions_end_whatever_ends_a_line(
    call: Command, tmp_path: Path, end: str
) -> None:
    """Marks slipped by a character a line where lines end as on Windows."""
    for name, text in (("a.txt", f"{TEXT}{end}" * 5), ("b.txt", f"{TEXT}\n" * 5)):
        (tmp_path / name).write_text(text, newline="")
    marked = [
        call("tag", tmp_path / name, "--model", MODEL, "--to", "text")
        for name in ("a.txt", "b.txt")
    ]
    assert marked[0][0] == marked[1][0] == 0
    found = [re.findall(r"(\w+)\[(\w+)", out) for _, out, _ in marked]
    assert found[0] == found[1] and len(found[0]) > 10


@pytest.mark.parametrize(
    "arguments",
    [
        ("-", "--out", "x.jsonl"),
        ("x.txt",),
        ("x.txt", "--out", "x.tsv"),
        ("x.txt", "--out", "x.jsonl.gz"),
    ],
)
def test_what_cannot_be_resumed_is_said(call: Command, arguments: tuple[str, ...]) -> None:
    code, out, err = call("tag", *arguments, "--resume", "--model", MODEL)
    assert (code, out) == (1, "")
    assert err.startswith("hardner: --resume needs files to read, and a folder or a .jsonl file")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "ace"), "ace can be read but not written"),
        (("--to", "jsonl", "--scheme", "IOB2"), "jsonl has no tags, so no --scheme IOB2"),
        (("--out", "a.doc"), "cannot tell the format to write"),
        (("--device", "tpu"), "unknown device 'tpu'"),
        (("--from", "html"), "html can be written but not read"),
    ],
)
def test_wrong_wishes_are_one_line(
    call: Command, corpus: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = call("tag", corpus, *arguments, "--model", MODEL)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_a_terminal_shows_text_in_colour(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT + "\x1b[2J")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command(tmp_path / "a.txt"), stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 4096):
            shown += block
    except OSError:  # the terminal is gone with the process
        pass
    assert process.wait() == 0
    os.close(ours)
    assert b"\x1b[4;38;" in shown
    assert b"[Gene 0." in shown
    assert b"\x1b[2J" not in shown  # a text cannot command the terminal
    assert "␛".encode() in shown


def test_the_readers_leaving_is_no_error(corpus: Path, tmp_path: Path) -> None:
    text = corpus.read_text() * 20
    corpus.write_text(text)
    line = " ".join(command(corpus)) + " 2>err | head -n 1"
    done = subprocess.run(line, shell=True, capture_output=True, cwd=tmp_path, check=False)
    assert json.loads(done.stdout)["id"] == "d0"
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_line(corpus: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(corpus), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        1,
        "hardner: <standard output>: no space left on the device\n",
    )
    done = subprocess.run(
        command(corpus, "--out", "/dev/full", "--to", "conll"),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "hardner: /dev/full: no space left on the device\n",
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_loses_nothing_finished(tmp_path: Path, workers: int) -> None:
    sources = [tmp_path / f"{n}.jsonl" for n in range(40)]
    text = " ".join(" ".join(s.tokens) for s in tiny.everything("train")[0])
    for path in sources:
        write([Document(f"{path.stem}-{i}", text) for i in range(3)], path)
    job = command(*sources, "--out", f"{tmp_path}/o/", "--workers", workers, "--batch-size", 4)
    process = subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        time.sleep(0.1)
        if (tmp_path / "o" / "1.jsonl").exists():
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "interrupted; what is finished is kept: the same command and --resume go on\n"
    done = sorted(path.name for path in (tmp_path / "o").glob("*.jsonl"))
    assert 2 <= len(done) < 40
    assert not list((tmp_path / "o").glob("*.tmp"))
    assert all(len(list(read(tmp_path / "o" / name))) == 3 for name in done)
    written = (tmp_path / "o" / ".hardner-tag").read_text().splitlines()
    assert len(done) - 1 <= len(written) <= len(done)


def test_a_bad_file_does_not_lose_those_before_it() -> None:
    def work(documents: Iterator[Document]) -> Iterator[Document]:
        yield from list(documents)  # reads all ahead

    here = tiny.ROOT / "Gene" / "test.tsv"
    inputs = documents_by_input([str(here), "no-such.txt", str(here)], work, Report())
    found = []
    with pytest.raises(FileError, match=r"no-such\.txt: no such file"):
        for _, documents in inputs:
            found += documents
    assert len(found) == 8


def test_output_names(tmp_path: Path) -> None:
    output = Output.of(f"{tmp_path}/o/", "html", None, Report())
    found = output.files(["x/a.b.txt.gz", "-", "y/c.tsv"])
    assert [path.name for path in found.values()] == ["a.b.html", "stdin.html", "c.html"]
