"""``hardner suggest``: any format in, sentences to label out."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import tiny
import torch
from formats.command import Command

from hardner.formats import Report, read
from hardner.model.describe import save_model
from hardner.text import sentences

TRAIN = tiny.ROOT / "Gene" / "train.tsv"
ABSTRACT = Path(__file__).parents[2] / "examples" / "abstract.txt"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tagger = tiny.tagger("bilstm")
    save_model(folder, tagger, tiny.params(tagger, dtype=torch.float32))
    return folder


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


def test_sentences_of_a_text_are_ready_to_be_labelled(
    call: Command, model: Path, tmp_path: Path
) -> None:
    code, out, err = call("suggest", ABSTRACT, "--model", model, "-n", 3)
    assert (code, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 3
    text = " ".join(ABSTRACT.read_text("utf-8").split())
    for record in records:
        assert " ".join(record["text"].split()) in text
        assert record["entities"] == []
        assert record["hardness"] > 0 and record["reason"].startswith("unsure about ")
        for mention in record["uncertain"]:
            assert record["text"][mention["start"] : mention["end"]] == mention["text"]
    chosen = tmp_path / "chosen.jsonl"
    chosen.write_text(out, "utf-8")
    assert [d.text for d in read(chosen, report=Report())] == [r["text"] for r in records]


def test_what_is_labelled_is_not_suggested_again(
    call: Command, model: Path, tmp_path: Path
) -> None:
    labelled = tmp_path / "labelled.jsonl"
    _, first, _ = call("suggest", TRAIN, "--model", model, "-n", 6)
    labelled.write_text(first, "utf-8")
    _, second, _ = call("suggest", TRAIN, "--model", model, "-n", 6, "--exclude", labelled)
    texts = [{json.loads(line)["text"] for line in out.splitlines()} for out in (first, second)]
    assert len(texts[0]) == len(texts[1]) == 6
    assert texts[0].isdisjoint(texts[1])


def test_tokens_of_a_tagged_file_are_kept(call: Command, model: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.tsv"
    odd.write_text("p53-null\tO\nmice,\tB-Species\ndied\tO\n.\tO\n")
    code, out, _ = call("suggest", odd, "--model", model, "--to", "conll")
    assert code == 0
    assert out == "p53-null\tO\nmice,\tO\ndied\tO\n.\tO\n\n"
    _, out, _ = call("suggest", odd, "--model", model)
    assert json.loads(out)["sentences"][0]["tokens"] == ["p53-null", "mice,", "died", "."]


def test_a_folder_for_an_annotation_tool(call: Command, model: Path, tmp_path: Path) -> None:
    code, out, _ = call("suggest", TRAIN, "--model", model, "-n", 4, "--out", f"{tmp_path}/next/")
    assert (code, out) == (0, "")
    found = list(read(tmp_path / "next"))
    known = {" ".join(s.tokens) for d in read(TRAIN) for s in sentences(d)}
    assert len(found) == 4
    assert {document.text for document in found} <= known


def on_a_terminal(*arguments: object) -> str:
    """What the command writes where its output is a terminal."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "hardner", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen(words, stdout=slave, stderr=subprocess.DEVNULL, env=environment) as done:
        os.close(slave)
        said = b""
        with suppress(OSError):  # the end of a terminal is an error
            while more := os.read(master, 4096):
                said += more
    os.close(master)
    assert done.returncode == 0
    return said.decode()


def test_a_terminal_gets_a_list_to_read(model: Path) -> None:
    said = on_a_terminal("suggest", ABSTRACT, "--model", model, "-n", 2)
    assert "hardness " in said and "unsure about " in said and "\x1b[" in said
    said = on_a_terminal("suggest", ABSTRACT, "--model", model, "-n", 2, "--json")
    assert len([json.loads(line) for line in said.splitlines()]) == 2


def test_the_same_each_time(call: Command, model: Path) -> None:
    runs = [call("suggest", ABSTRACT, "--model", model, "--label", "Device") for _ in range(2)]
    assert runs[0] == runs[1]


def test_what_cannot_be_done_is_one_line(call: Command, model: Path, tmp_path: Path) -> None:
    def refused(*arguments: object, code: int = 1) -> str:
        got, out, err = call("suggest", *arguments)
        assert (got, out, err.count("\n")) == (code, "", 1)
        return err

    assert "no such" in refused(tmp_path / "none.txt", "--model", model).lower()
    assert "none" in refused(ABSTRACT, "--model", tmp_path / "none")
    assert "is none of" in refused(ABSTRACT, "--model", model, "--to", "nonesuch", code=2)
    assert "nothing to suggest" in refused(TRAIN, "--model", model, "--exclude", TRAIN, code=0)


def test_what_is_no_sentence_is_said(call: Command, model: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless.txt"
    endless.write_text("word " * 300 + "\n\nThe stent was removed.\n")
    code, out, err = call("suggest", endless, "--model", model)
    assert (code, len(out.splitlines())) == (0, 1)
    assert "1 sentences of more than 200 words" in err
