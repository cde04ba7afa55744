"""A method from outside: one short file, which the commands take as their own."""

import ast
import json
import sys
from pathlib import Path

import pytest
import tiny

from hardner.cli import main
from hardner.meta.log import read_log
from hardner.meta.methods import METHODS

PLUGIN = Path(__file__).with_name("own_method.py")
NAME = "fomaml-domains"
EXPERIMENT = f"""
method = "{NAME}"
device = "cpu"
[data]
root = {json.dumps(str(tiny.ROOT))}
layout = "folders"
[encoder]
dimension = 8
hidden = 6
[train]
iterations = 3
tasks = 2
shots = 2
[devel]
every = 3
episodes = 4
"""


def run(*arguments: object) -> int:
    sys.argv = ["hardner", *map(str, arguments)]
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.delitem(METHODS, NAME, raising=False)
    return tmp_path


def test_a_method_is_one_file_of_under_15_lines_of_code() -> None:
    tree = ast.parse(PLUGIN.read_text("utf-8"))
    documented = ast.get_docstring(tree) is not None
    code = {
        node.lineno
        for part in tree.body[documented:]
        for node in ast.walk(part)
        if hasattr(node, "lineno")
    }
    assert 0 < len(code) < 15


def test_the_page_shows_the_same_file() -> None:
    page = Path(__file__).parents[2] / "docs" / "methods" / "index.md"
    code = PLUGIN.read_text("utf-8")
    assert code[code.index("from hardner") :] in page.read_text("utf-8")


def test_hardner_train_runs_a_method_of_the_users_own(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", folder / "run")
    try:
        assert run("train", folder / "mine.toml", "--plugin", PLUGIN, *out) == 0
        assert run("hardness", folder / "run", "--plugin", PLUGIN, "--json") == 0
    finally:
        METHODS.pop(NAME, None)
    steps = list(read_log(folder / "run" / "log.jsonl"))
    assert len(steps) == 3
    for step in steps:
        assert step.losses.keys() == {"tag", "domain"}
        assert step.weights.keys() == {"encoder", "decoder", "critic"}
        assert step.weights["encoder"] == [0.5, 0.5]
    capfd.readouterr()
    assert run("train", folder / "mine.toml", *out) == 1
    assert f"method: none is '{NAME}'; " in (told := capfd.readouterr().err)
    assert told.endswith("; --plugin FILE.py adds your own\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "is no Python file"), ("1 / 0", "cannot be run: ZeroDivisionError: division by zero")],
)
def test_a_file_that_is_no_plugin_gets_one_line(
    content: str | None, says: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = folder / "wrong.py"
    if content is not None:
        path.write_text(content)
    assert run("train", folder / "mine.toml", "--plugin", path) == 1
    assert capfd.readouterr().err == f"hardner: {path}: {says}\n"
