"""A format in one file, as docs/formats.md shows it: registered by a script, or installed."""

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardner.errors import HardnerError
from hardner.formats import FORMATS, Format, Report, detect, read, register, write
from hardner.types import Document, Entity

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
SECTION = PAGE.read_text("utf-8").partition("## A format of your own")[2]
DOCUMENT = Document(
    "d",
    "A stent\nfailed.",
    (Entity(2, 7, "Device", "stent"), Entity(2, 14, "Event", "stent\nfailed")),
)


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def bracketed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Format]:
    """The page's format, in the table until the test ends."""
    path = tmp_path / "bracketed.py"
    path.write_text(block("python"), encoding="utf-8")
    monkeypatch.setattr(FORMATS, "_formats", dict(FORMATS))
    yield register(runpy.run_path(str(path))["BRACKETED"])


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder as pip leaves it when it has installed the page's file by the page's pyproject."""
    packages = tmp_path / "site-packages"
    about = packages / "hardner_bracketed-1.0.dist-info"
    about.mkdir(parents=True)
    (packages / "bracketed.py").write_text(block("python"), encoding="utf-8")
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: hardner-bracketed\nVersion: 1.0\n"
    )
    point = re.search(r'entry-points\."(.*)"\]\n(\w+) = "(.*)"', block("toml"))
    assert point is not None
    (about / "entry_points.txt").write_text(f"[{point[1]}]\n{point[2]} = {point[3]}\n")
    return packages


def hardner(packages: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "hardner", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_registered_format_is_read_and_written(bracketed: Format, tmp_path: Path) -> None:
    path, report = tmp_path / "a.bracketed.gz", Report()
    write([DOCUMENT], path, report=report)
    assert detect(path) is bracketed
    (found,) = read(path, report=Report())
    assert found == Document("a-1", "A stent failed.", (Entity(2, 14, "Event", "stent failed"),))
    assert report.counts == {
        "document id not kept": 1,
        "overlapping mention left out": 1,
        "line breaks written as spaces": 1,
    }
    with pytest.raises(HardnerError, match="overlapping mention left out"):
        write([DOCUMENT], path, strict=True, report=Report())


def test_a_name_stands_for_one_format(bracketed: Format) -> None:
    assert register(bracketed) is bracketed
    with pytest.raises(HardnerError, match="there is a format 'conll' already"):
        register(Format("conll", (), ""))


def test_endings_stay_with_the_built_in_formats(bracketed: Format, tmp_path: Path) -> None:
    register(Format("mine", (".txt",), "", sniff=lambda start: start.startswith("mine")))
    (tmp_path / "a.txt").write_text("Prose.")
    assert detect(tmp_path / "a.txt").name == "text"
    (tmp_path / "a.txt").write_text("mine")
    assert detect(tmp_path / "a.txt").name == "mine"


def test_an_installed_format_is_known_to_the_commands(installed: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "a.bracketed", tmp_path / "a.jsonl"
    source.write_text("A [stent|Device] failed.\n")
    done = hardner(installed, "convert", source, target, "--strict")
    assert done.returncode == 0, done.stderr
    (document,) = read(target)
    assert document.entities == (Entity(2, 7, "Device", "stent"),)
    done = hardner(installed, "convert", target, tmp_path / "b", "--to", "bracketed")
    assert (tmp_path / "b").read_text() == source.read_text(), done.stderr
    assert "bracketed" in hardner(installed, "convert", "--formats").stdout


@pytest.mark.parametrize(
    ("code", "message"),
    [("import no_such_module", "No module named"), ("BRACKETED = 1", "is not a hardner Format")],
)
def test_a_broken_package_is_one_line(
    installed: Path, tmp_path: Path, code: str, message: str
) -> None:
    (installed / "bracketed.py").write_text(code)
    done = hardner(installed, "convert", "a.tsv", "b.jsonl")
    assert done.returncode == 1
    assert done.stderr.startswith("hardner: hardner-bracketed") and message in done.stderr
    assert len(done.stderr.splitlines()) == 1
