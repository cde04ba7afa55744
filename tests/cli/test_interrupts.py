"""SIGTERM ends a command as Ctrl-C does: tidily, in one line at most, with exit code 143."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from evaluate.test_commands import EXPERIMENT
from formats.command import Command

import hardner.cli
from hardner import formats
from hardner.cli import convert
from hardner.cli.common import interrupted_code, interruptible
from hardner.meta import run
from hardner.tag import predictor

ENDINGS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
TRAIN = tiny.ROOT / "Gene" / "train.tsv"

endings = pytest.mark.parametrize(("number", "expected"), ENDINGS)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)


@endings
def test_while_a_model_is_loaded(
    call: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    expected: int,
) -> None:
    monkeypatch.setattr(predictor, "load_model", lambda folder: signal.raise_signal(number))
    code, out, err = call("adapt", TRAIN, "--out", tmp_path / "model")
    assert (code, out, err) == (expected, "", "interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
    code, out, err = call("tag", TRAIN, "--out", tmp_path / "found.tsv")
    assert (code, out, err) == (expected, "", "")
    assert list(tmp_path.iterdir()) == []


@endings
def test_while_a_file_is_written(
    call: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    expected: int,
) -> None:
    def cut_short(*arguments: object, **options: object) -> object:
        for document in formats.read(*arguments, **options):  # type: ignore[arg-type]
            yield document
            assert list(tmp_path.glob(".hardner-*"))
            signal.raise_signal(number)

    monkeypatch.setattr(convert, "read", cut_short)
    assert call("convert", TRAIN, tmp_path / "out.jsonl") == (expected, "", "")
    assert list(tmp_path.iterdir()) == []


@endings
def test_a_run_saves_its_state_first(
    call: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    expected: int,
) -> None:
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    loop = run.loop

    def interrupted(*arguments: object, **options: object) -> object:
        signal.raise_signal(number)
        yield from loop(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "loop", interrupted)
    job = ("train", tmp_path / "mine.toml", "--out", tmp_path / "run")
    code, out, err = call(*job)
    assert (code, out) == (expected, "")
    assert err.splitlines()[-1].startswith("stopped after ")
    assert (tmp_path / "run" / "state").is_dir()
    monkeypatch.setattr(run, "loop", loop)
    assert call(*job)[0] == 0


def test_asked_twice_it_stops_where_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop()
        signal.raise_signal(signal.SIGINT)
    assert interrupted_code() == 143


def test_handlers_are_as_they_were_before(call: Command) -> None:
    before = [signal.getsignal(number) for number, _ in ENDINGS]
    assert call("--version")[0] == 0
    assert [signal.getsignal(number) for number, _ in ENDINGS] == before


AT_IMPORT = """
import os, signal, sys
module = sys.argv.pop(1)
def at_import(event, arguments):
    if event == "import" and arguments[0] == module:
        os.kill(os.getpid(), signal.SIGTERM)
from hardner.cli import main
sys.addaudithook(at_import)
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="a signal ends a process there")
@pytest.mark.parametrize("module", ["torch", "torch._C", "numpy", "safetensors"])
def test_while_libraries_are_loaded(tmp_path: Path, module: str) -> None:
    words = ("adapt", str(TRAIN), "--out", str(tmp_path / "model"))
    command = [sys.executable, "-c", AT_IMPORT, module, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr.count("\n") <= 1 and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_no_output_takes_is_one_line(
    call: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    convert_it = ("convert", TRAIN, "-", "--to", "jsonl")
    for words in (("model", "show", "hgda"), ("tag", "--help"), convert_it):
        with full.open("w") as out:
            command = [sys.executable, "-m", "hardner", *map(str, words)]
            done = subprocess.run(
                command, stdout=out, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("hardner: ") and "no space left" in done.stderr.lower()


def test_errors_that_are_no_full_disk_are_not_hidden(
    call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise OSError(22, "a bug")

    monkeypatch.setattr(hardner.cli, "app", broken)
    with pytest.raises(OSError, match="a bug"):
        call()
