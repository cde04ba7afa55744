"""The pages in docs/: they build without a warning, ask nobody for anything, and tell the truth."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer

from hardner.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
NEEDED = ("mkdocs", "material", "mkdocstrings", "latex2mathml")
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
FETCHED |= {"video": "src", "audio": "src", "embed": "src", "object": "data", "use": "href"}

named = {"ids": lambda path: str(path.relative_to(ROOT / "docs"))}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"the pages are built with {', '.join(absent)}: pip install hardner[docs]")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


class Requests(HTMLParser):
    """What a browser would fetch from another place to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        places = [given.get(FETCHED.get(tag, ""), ""), *(given.get("srcset") or "").split(",")]
        self.found += [p for p in places if p and re.match(r"\s*(https?:)?//", p)]
        self.found += abroad(given.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self.get_starttag_text() and self.get_starttag_text().startswith("<style"):
            self.found += abroad(data)


def abroad(style: str) -> list[str]:
    """What a style sheet fetches from another place."""
    return re.findall(r"""(?:url\(|@import)\s*['"]?((?:https?:)?//[^'")\s]+)""", style)


def requests(text: str) -> list[str]:
    reader = Requests()
    reader.feed(text)
    return reader.found


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://a.b/c.js"></script>',
        '<link rel="stylesheet" href="//a.b/c.css">',
        '<img src="a.png" srcset="https://a.b/c.png 2x">',
        "<style>@import 'https://a.b/c.css'</style>",
        '<p style="background: url(https://a.b/c.png)">',
    ],
)
def test_the_check_sees_every_kind_of_request(text: str) -> None:
    assert len(requests(text)) == 1
    assert requests('<a href="https://a.b/">a</a><script src="c.js"></script>') == []


def test_pages_ask_nobody_for_anything(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert {p.name: found for p in pages if (found := requests(p.read_text("utf-8")))} == {}
    sheets = sorted(site.rglob("*.css"))
    assert {p.name: found for p in sheets if (found := abroad(p.read_text("utf-8")))} == {}


def test_formulas_are_drawn(site: Path) -> None:
    drawn = 0
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert "arithmatex" not in text, page
        formulas = re.findall(r"<math.*?</math>", text, re.S)
        assert not [f for f in formulas if "\\" in f], f"{page}: a command that is not known"
        drawn += len(formulas)
    assert drawn > 40


def test_every_command_has_its_place_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text("utf-8")
    for name in typer.main.get_command(app).commands:
        assert re.search(rf'<h2 id="hardner-{name}\b', text), name


def commands(page: Path) -> Iterator[list[str]]:
    """The calls of hardner that a page shows, as words."""
    for _, block in BLOCK.findall(page.read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if line.removeprefix("$ ").startswith("hardner "):
                plain = re.split(r"\s\d?[|<>]\s?", line.removeprefix("$ "))[0]
                yield shlex.split(plain, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, **named)
def test_commands_that_are_shown_can_be_called(page: Path) -> None:
    for words in commands(page):
        command = typer.main.get_command(app)
        used = 0
        while below := getattr(command, "commands", None):
            assert words[used] in below, f"no command {' '.join(words[: used + 1])}"
            command, used = below[words[used]], used + 1
        command.make_context(words[used - 1], words[used:])


@pytest.mark.parametrize("page", PAGES, **named)
def test_python_that_is_shown_imports_what_is_there(page: Path) -> None:
    for language, block in BLOCK.findall(page.read_text("utf-8")):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hardner"):
                module = importlib.import_module(node.module)
                assert [a.name for a in node.names if not hasattr(module, a.name)] == []


@pytest.mark.parametrize("page", PAGES, **named)
def test_links_to_code_carry_its_name(page: Path) -> None:
    links = re.findall(r"\[`([\w.]+)`\]\[(hardner[\w.]*)\]", page.read_text("utf-8"))
    assert [f"{label} for {code}" for label, code in links if not _names(label, code)] == []


def _names(label: str, code: str) -> bool:
    """Whether a label is the end of the code's full name, or a field of it."""
    return f".{code}".endswith((f".{label}", f".{label.rpartition('.')[0]}"))


@pytest.mark.parametrize("page", PAGES, **named)
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    paths = re.findall(r"(?<![\w./])((?:examples|experiments|benchmarks|src)/[\w./-]*\w)", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []


ROW = r"(\.\d{3}) to (\.\d{3})"


def test_what_a_setting_brings_stands_in_the_ablation() -> None:
    """ARCHITECTURE quotes figures with the two rows of results/ablation.md they are from."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    lines = (ROOT / "results" / "ablation.md").read_text("utf-8").splitlines()
    quoted = re.findall(rf"((?:(?:at \d+: )?{ROW}[;,]? ?)+)\(\*(.+?)\*, \*(.+?)\*\)", text)
    assert len(quoted) > 10
    for figures, *_, without, beside in quoted:
        for pair in re.findall(ROW, figures):
            for figure, name in zip(pair, (without, beside), strict=True):
                rows = [line for line in lines if line.startswith(f"| {name} |")]
                assert any(f"**0{figure}**" in row for row in rows), f"{figure} of {name}"


QUOTED = re.findall(r"\*\*`(.+?)`", (ROOT / "docs" / "troubleshooting.md").read_text("utf-8"), re.S)


@pytest.fixture(scope="session")
def texts_of_the_source() -> list[str]:
    """Every string of the source as a reader sees it, … in place of what is filled in."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                found.append("".join(map(str, parts)))
    return found


@pytest.mark.parametrize("line", QUOTED)
def test_lines_that_are_explained_stand_in_the_source(
    line: str, texts_of_the_source: list[str]
) -> None:
    assert len(QUOTED) > 20
    for part in (" ".join(part.split()).strip(";:, ") for part in line.split("…")):
        assert any(part in text for text in texts_of_the_source), part
