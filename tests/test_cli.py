"""What holds for every command: help with an example, exit codes, one-line errors, pipes."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from formats.command import Command

import hardner.cli
from hardner import __version__
from hardner.errors import FileError

ROOT = Path(__file__).parents[1]


def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


EVERY = dict(walk(typer.main.get_command(hardner.cli.app), ()))
LEAVES = {path: command for path, command in EVERY.items() if not hasattr(command, "commands")}

every = pytest.mark.parametrize("path", EVERY, ids=lambda path: " ".join(("hardner", *path)))
each = pytest.mark.parametrize("path", LEAVES, ids=" ".join)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


def examples(text: str, path: tuple[str, ...]) -> list[str]:
    """The calls of a command that its help shows, without the line of its usage."""
    name = " ".join(("hardner", *path))
    shown = [line.strip(" •│") for line in text.splitlines()]
    return [line for line in shown if line == name or line.startswith(f"{name} ")]


def test_version(call: Command) -> None:
    assert call("--version") == (0, f"hardner {__version__}\n", "")


SAID = {
    "adapt": ("the bundled model", "Random seed.", "auto-detected"),
    "tag": ("the bundled model", "Drop entities scoring below this", "auto-detected"),
    "errors": ("boundary, type, missed and spurious errors",),
    "table": ("one row per method",),
    "model show": ("subword tokens",),
}


@pytest.mark.parametrize("path", SAID)
def test_help_says_it_in_the_words_of_the_field(call: Command, path: str) -> None:
    _, out, _ = call(*path.split(), "--help")
    assert [
        words for words in SAID[path] if words not in " ".join(out.replace("│", " ").split())
    ] == []


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hardner.__version__"}
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)
    assert cited is not None
    assert cited[1] == __version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{__version__}]" in changes


@every
def test_help(call: Command, path: tuple[str, ...]) -> None:
    code, out, err = call(*path, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: {' '.join(('hardner', *path))} " in out
    for name, below in getattr(EVERY[path], "commands", {}).items():
        assert re.search(rf"^[ │]*{re.escape(name)}  +\S", out, re.M), f"{below} is not listed"


def test_what_users_need_daily_comes_before_what_research_needs(call: Command) -> None:
    _, out, _ = call("--help")
    groups = re.findall(r"^╭─ (\w[\w ]*?) ─", out, re.M)
    assert [g for g in groups if g != "Options"] == [
        "Everyday",
        "Workbench and deployment",
        "Research",
    ]
    parts = out.split("╭─ ")
    listed = {part.split(" ─")[0]: re.findall(r"^│ (\w+) ", part, re.M) for part in parts}
    assert {"tag", "adapt", "score"} <= set(listed["Everyday"])
    assert {"train", "evaluate", "table"} <= set(listed["Research"])


@every
def test_flags_are_shown_as_they_are_typed(call: Command, path: tuple[str, ...]) -> None:
    _, out, _ = call(*path, "--help")
    assert "<bool>" not in out


def test_options_of_one_name_have_one_default_and_one_meaning() -> None:
    shared = ("device", "seed", "force", "json", "catalogue", "plugin", "engine", "address")
    told: dict[str, set[tuple[object, str]]] = {}
    # `adapt --force` and `suggest --json` do more than those of the others.
    for path, command in LEAVES.items():
        for option in command.params:
            name = option.opts[0].lstrip("-")
            if name in shared and path not in {("adapt",), ("suggest",)}:
                told.setdefault(name, set()).add((option.default, option.help))
    assert {name: len(found) for name, found in told.items()} == dict.fromkeys(shared, 1)
    devices = [o.default for c in LEAVES.values() for o in c.params if o.opts[0] == "--device"]
    assert len(devices) >= 5 and set(devices) == {"auto"}


@each
def test_help_shows_an_example_that_the_command_takes(call: Command, path: tuple[str, ...]) -> None:
    _, out, _ = call(*path, "--help")
    shown = examples(out, path)
    assert shown, "the docstring needs an example"
    for line in shown:
        words = shlex.split(line.partition("|")[0], comments=True)
        LEAVES[path].make_context(path[-1], words[len(path) + 1 :])


@every
def test_a_wrong_call_is_one_line_and_exit_code_2(call: Command, path: tuple[str, ...]) -> None:
    code, out, err = call(*path, "--no-such-option")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("hardner: ")
    assert err.endswith(f" (see {' '.join(('hardner', *path))} --help)\n")


def test_an_unknown_command_is_one_line_and_exit_code_2(call: Command) -> None:
    code, out, err = call("konvert")
    assert (code, out) == (2, "")
    assert (
        err == "hardner: No such command 'konvert'. Did you mean 'convert'? (see hardner --help)\n"
    )


def test_no_command_shows_the_help(call: Command) -> None:
    code, out, err = call()
    assert (code, err) == (2, "")
    assert "Usage: hardner " in out


def ends_with(error: BaseException) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise error

    return app


def test_what_the_user_can_mend_is_one_line_and_exit_code_1(
    call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardner.cli, "app", ends_with(FileError("a.tsv", "is odd; mend it", 7)))
    assert call() == (1, "", "hardner: a.tsv:7: is odd; mend it\n")


def test_an_interrupt_is_no_traceback(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardner.cli, "app", ends_with(KeyboardInterrupt()))
    assert call() == (130, "", "")


def test_a_bug_is_not_hidden(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardner.cli, "app", ends_with(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        call()


def into_a_closed_pipe(*arguments: str) -> str:
    """What the command says on stderr when nobody reads its output."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "hardner", *arguments]
    try:
        done = subprocess.run(
            command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
        )
    finally:
        os.close(writer)
    return done.stderr


@every
def test_a_reader_of_the_help_may_leave(path: tuple[str, ...]) -> None:
    assert into_a_closed_pipe(*path, "--help") == ""


@pytest.mark.parametrize(
    "arguments",
    [
        "--version",
        "convert --formats",
        "convert examples/devices-train.jsonl - --to prodigy",
        "convert examples/devices-train.jsonl - --to bioc",
    ],
)
def test_a_reader_of_the_output_may_leave(arguments: str) -> None:
    said = into_a_closed_pipe(*arguments.split())
    assert "Traceback" not in said
    assert "Exception" not in said


def test_output_can_be_cut_short() -> None:
    command = (
        f"{shlex.quote(sys.executable)} -m hardner convert examples/devices-train.jsonl -"
        " --to conll 2>/dev/null | head -n 1"
    )
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "A\tO\n", "")


def test_the_command_line_alone_loads_no_heavy_library() -> None:
    """Help comes at once, and what the commands ask of OpenMP is said before torch reads it."""
    heavy = ("torch", "numpy", "transformers", "ray", "spacy", "fastapi", "onnxruntime")
    code = f"import sys, hardner.cli; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
