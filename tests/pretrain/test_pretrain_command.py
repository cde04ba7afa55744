"""``hardner pretrain``: from text to files, killed and interrupted, and what it says."""

import lzma
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from formats.command import Command
from sayings import sayings, write
from test_pretrain_run import same

import hardner.cli
from hardner import checkpoint
from hardner.pretrain import skipgram
from hardner.vectors import load_vectors

DOCS = Path(__file__).parents[2] / "docs" / "pretraining.md"
SMALL = "--vocabulary 200 --rows 4 --width 24 --layers 2 --size 16 --heads 2 --inner 32"
STEPS = 300


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)


def begin(text: Path, folder: Path) -> subprocess.Popen[str]:
    options = shlex.split(f"{SMALL} --steps {STEPS} --every 20 --device cpu")
    command = [sys.executable, "-m", "hardner", "pretrain", "encoder", text, "--out", folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    return subprocess.Popen(
        [*map(str, command), *options], env=environment, stderr=subprocess.PIPE, text=True
    )


def reached(folder: Path) -> int:
    """The step of the state, read while it may be replaced."""
    try:
        found = re.search(r'"step": (\d+)', (folder / "state" / "config.json").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def test_kill_and_interrupt_at_any_moment(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt")
    calm, hunted = tmp_path / "calm", tmp_path / "hunted"
    alone = begin(text, calm)
    for number, step in ((signal.SIGKILL, 20), (signal.SIGINT, 60)):
        process = begin(text, hunted)
        while process.poll() is None and reached(hunted) < step:
            time.sleep(0.005)
        time.sleep(0.03)
        process.send_signal(number)
        said = process.communicate()[1]
        if number == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert process.returncode == 130
            again = (
                rf"stopped after \d+ of {STEPS} steps; to go on: hardner pretrain encoder {text}"
            )
            assert re.search(again, said)
        assert 0 < reached(hunted) < STEPS
    last = begin(text, hunted)
    said, _ = last.communicate()[1], alone.communicate()
    assert (last.returncode, alone.returncode) == (0, 0)
    assert said.splitlines()[-1] == f"{hunted}/model: {STEPS} of {STEPS} steps"
    assert same(calm, hunted)
    assert sorted(p.name for p in hunted.iterdir()) == sorted(p.name for p in calm.iterdir())


def test_the_encoder_learns_and_says_how_it_goes(call: Command, tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt")
    out = tmp_path / "run"
    options = f"{SMALL} --steps 120 --rate 0.02 --every 60 --device cpu".split()
    code, said, on_progress = call("pretrain", "encoder", text, "--out", out, *options)
    assert (code, said) == (0, "")
    first, second, last = on_progress.splitlines()
    losses = [
        float(re.search(r"loss ([\d.]+), [\d,]+ subwords/s$", line)[1]) for line in (first, second)
    ]
    assert first.startswith("60 of 120: ")
    assert losses[1] < losses[0] - 0.1
    assert last == f"{out}/model: 120 of 120 steps"
    code, _, on_progress = call("pretrain", "encoder", text, "--out", out, *options, "--seed", 3)
    assert code == 1
    where = f"hardner: {out}: holds another run"
    assert on_progress == f"{where}: seed is 0 there and 3 here; choose another folder\n"


def test_devel_and_test_sentences_are_left_out_and_counted(call: Command, tmp_path: Path) -> None:
    corpus = tmp_path / "root" / "NCBI-disease"
    corpus.mkdir(parents=True)
    lines = sayings(500)
    for split, line in (("train", lines[0]), ("devel", lines[1]), ("test", lines[2])):
        tokens = "".join(f"{token}\tO\n" for token in line.split())
        (corpus / f"{split}.tsv.xz").write_bytes(lzma.compress(tokens.encode() + b"\n"))
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines).replace(" .", "."))
    number = lines.count(lines[1]) + lines.count(lines[2])
    options = [*SMALL.split(), "--steps", 1, "--without", tmp_path / "root", "--device", "cpu"]
    code, _, said = call("pretrain", "encoder", text, "--out", tmp_path / "run", *options)
    assert code == 0
    assert said.endswith(f"1 of 1 steps, {number} lines of text left out\n")
    about = checkpoint.load_checkpoint(tmp_path / "run" / "model").config
    assert (about["lines"], about["left_out"]) == (500 - number, number)
    out = tmp_path / "v.bin"
    options = ["--dimension", 4, "--epochs", 1, "--without", tmp_path / "root"]
    code, _, said = call("pretrain", "vectors", text, "--out", out, *options)
    assert code == 0
    assert said.endswith(f" words, {number} lines of text left out\n")


def test_vectors_are_written(call: Command, tmp_path: Path) -> None:
    text, out = write(tmp_path / "text.txt", 200), tmp_path / "v.bin"
    options = [
        "--dimension",
        "6",
        "--epochs",
        "2",
        "--least",
        "3",
        "--window",
        "2",
        "--seed",
        "4",
        "--threads",
        "1",
    ]
    code, said, on_progress = call("pretrain", "vectors", text, "--out", out, *options)
    assert (code, said) == (0, "")
    *epochs, last = on_progress.splitlines()
    assert len(epochs) == 2
    assert all(re.search(r"^[\d,]+ of [\d,]+: [\d,]+ words/s$", line) for line in epochs)
    assert re.fullmatch(rf"{out}: \d+ words", last)
    assert load_vectors(out, ["Oslo"]).matrix.shape == (1, 6)
    missing = tmp_path / "none.txt"
    code, _, on_progress = call("pretrain", "vectors", missing, "--out", out)
    assert (code, on_progress) == (1, f"hardner: {missing}: no such file or folder\n")


def test_ctrl_c_leaves_no_vectors(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt  # as SIGINT does, but for a process that was told to ignore it

    monkeypatch.setattr(skipgram, "train_skipgram", interrupted)
    text = write(tmp_path / "text.txt", 50)
    code, said, on_progress = call("pretrain", "vectors", text, "--out", tmp_path / "v.bin")
    assert (code, said, on_progress) == (130, "", "interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_commands_of_the_page_can_be_given() -> None:
    shown = re.findall(r"^hardner pretrain (\w+) ((?:.*\\\n)*.*)$", DOCS.read_text("utf-8"), re.M)
    assert {name for name, _ in shown} == {"encoder", "vectors"}
    commands = typer.main.get_command(hardner.cli.app).commands["pretrain"].commands
    for name, rest in shown:
        commands[name].make_context(name, shlex.split(rest.replace("\\\n", " ")))
