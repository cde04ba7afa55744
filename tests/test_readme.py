"""The pages tell the truth: commands print what is shown, code runs, links and targets exist."""

import doctest
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from shared import CORPORA

from hardner.catalogue import builtin_rows

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))),
)
RUN = (
    "README.md",
    "docs/convert.md",
    "docs/corpora.md",
    "docs/deploy.md",
    "docs/project.md",
    "docs/python.md",
    "docs/score.md",
    "docs/spacy.md",
    "docs/tutorial.md",
)
"""Pages whose sessions are run, each from its beginning to its end."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return [body for found, body in BLOCK.findall(text) if found == language]


def make_workspace(tmp_path: Path) -> Path:
    """A folder that looks like the checkout to the README's commands, with `hardner` in ../bin."""
    folder = tmp_path / "hardner"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "corpora").symlink_to(CORPORA)
    command = tmp_path / "bin" / "hardner"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hardner "$@"\n')
    command.chmod(0o755)
    return folder


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it prints."""
    lines = block.splitlines()
    assert lines[0].startswith("$ ")
    number = 0
    numbered = [(number := number + line.startswith("$ "), line) for line in lines]
    groups = [[line for _, line in group] for _, group in groupby(numbered, lambda pair: pair[0])]
    return [(command.removeprefix("$ "), shown) for command, *shown in groups]


def test_blocks_are_read_as_commands_and_their_output() -> None:
    assert steps("$ a | b\none\ntwo\n$ c\n") == [("a | b", ["one", "two"]), ("c", [])]
    assert all(blocks(page, "console") or blocks(page, "pycon") for page in RUN)


SESSIONS = {page: "".join(found) for page in RUN if (found := blocks(page, "console"))}
TUTORIAL, PROJECT = (SESSIONS.pop(f"docs/{page}.md") for page in ("tutorial", "project"))


def run_session(workspace: Path, session: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each command of a session, what the page shows of it, and what it prints."""
    path = f"{workspace.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": source, "COLUMNS": "80"}
    for command, shown in steps(session):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        yield command, shown, [line.rstrip() for line in done.stdout.splitlines()]


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A folder with the tutorial's model, and what its commands print."""
    folder = make_workspace(tmp_path_factory.mktemp("tutorial"))
    return folder, list(run_session(folder, TUTORIAL))


FIGURE = re.compile(r"[+-]?\d+(?:\.\d+| s\b|%)")
UNSURE = re.compile(r"learning will take|  (mentions are missed|too much is found|few sentences)")
"""Lines that are there on a busy machine, or by a few hundredths of an F1."""


def compare_sessions(session: Iterable[tuple[str, list[str], list[str]]], most: float) -> None:
    """Up to the figures of a fit, which differ a little between processors; and the seconds."""
    for command, shown, printed in session:
        text, expected = (
            "\n".join(line for line in lines if not UNSURE.match(line))
            for lines in (printed, shown)
        )
        assert FIGURE.sub("…", text) == FIGURE.sub("…", expected), command
        figures = (FIGURE.findall(re.sub(r"after .*", "", t)) for t in (text, expected))
        for own, right in zip(*figures, strict=True):
            scale = 100 if own.endswith("%") else 1
            assert abs(float(own.strip("%")) - float(right.strip("%"))) <= most * scale, command


def test_the_tutorial_prints_what_is_shown(tutorial: tuple[Path, list[Any]]) -> None:
    compare_sessions(tutorial[1], 0.15)


def test_the_project_prints_what_is_shown(tmp_path: Path) -> None:
    """Its test file holds 33 mentions, so a single one of a rare type moves recall by a tenth."""
    pytest.importorskip("onnx")
    session = on_a_free_port(PROJECT)
    compare_sessions(run_session(make_workspace(tmp_path), session), 0.35)


def on_a_free_port(session: str) -> str:
    """A session with a server, at a port of which no other process hears."""
    pytest.importorskip("onnxruntime")
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return session.replace("8000", str(free.getsockname()[1]))


def marks(session: str) -> list[pytest.MarkDecorator]:
    """What a session needs: the corpora that it names."""
    names = [row for row in builtin_rows() if re.search(rf"(?<![\w-]){row}(?![\w-])", session)]
    return [pytest.mark.shared(*names)] * ("../shared" in session)


@pytest.mark.parametrize(
    "block",
    [pytest.param(session, id=page, marks=marks(session)) for page, session in SESSIONS.items()],
)
def test_commands_print_what_is_shown(tmp_path: Path, block: str) -> None:
    if "curl " in block:
        block = on_a_free_port(block)
    for command, shown, said in run_session(make_workspace(tmp_path), block):
        # Scores in 8 bits differ a little between processors.
        printed, expected = (
            [re.sub(r'"score":0\.\d+', '"score":…', line) for line in lines]
            for lines in (said, shown)
        )
        assert printed == expected, command


@pytest.mark.parametrize("page", [page for page in RUN if blocks(page, "pycon")])
def test_python_prints_what_is_shown(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page in ("docs/spacy.md", "docs/deploy.md"):
        pytest.importorskip("spacy" if page == "docs/spacy.md" else "onnx")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if page in ("docs/score.md", "docs/spacy.md", "docs/tutorial.md"):
        folder, _ = request.getfixturevalue("tutorial")
        (tmp_path / "device-model").symlink_to(folder / "device-model")
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest("".join(blocks(page, "pycon")), {}, page, page, 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(session, out=said.append)
    assert outcome.attempted >= 3
    assert not outcome.failed, "".join(said)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    links = re.findall(r"\]\((?!\w+:|#)([^)#]+)", text)
    paths = re.findall(r"`((?:src|tests|docs|examples|benchmarks|\.ci)/[\w./-]*)`", text)
    here = (ROOT / page).parent
    assert [link for link in links if not (here / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_make_knows_every_target_that_the_pages_name() -> None:
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:^|`)make (\w+)", (ROOT / page).read_text("utf-8"), re.M)
    }
    assert {"setup", "demo", "test", "lint", "bench"} <= named
    for target in sorted(named):
        command = ["make", "--dry-run", target]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert re.search(r"^make test\b", README, re.M)
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert [line for line in script.splitlines() if line.startswith("make ")] == ["make test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
