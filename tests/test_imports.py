"""Imports point downward only."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import hardner

PACKAGE = Path(hardner.__file__).parent
LAYERS = (
    {"types", "errors"},
    {"config", "schemes", "text", "folders"},
    {"files", "features", "partial"},
    {"manifest"},
    {"checkpoint"},
    {"formats", "episodes", "batch", "vectors", "jobs"},
    {"catalogue"},
    {"corpora"},
    {"model"},
    {"meta"},
    {"tag", "pretrain"},
    {"adapt"},
    {"evaluate"},
    {"export", "scale", "serve"},
    {"cli"},
    {"__init__", "__main__"},
)
UPWARD = {("tag/predictor.py", "adapt"), ("tag/predictor.py", "evaluate")}
"""`Predictor.adapt`, `score` and `compare`, public methods, import what they call when called."""
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def part_of(path: Path) -> str:
    """The module or package right under the root that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(source: str) -> set[str]:
    """The parts of the package that a module imports, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("hardner.")}
    return {name for name in found if _is_part(name)}


def _is_part(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_point_downward(path):
    part = part_of(path)
    assert part in LEVEL, f"give {part} a place in LAYERS"
    for other in imported(path.read_text("utf-8")) - {part}:
        if (path.relative_to(PACKAGE).as_posix(), other) in UPWARD:
            continue
        assert LEVEL[other] < LEVEL[part], f"{part} must not import {other}"


def test_the_check_sees_every_way_to_import():
    source = """
import hardner.cli
from hardner import text, __version__
def later():
    from hardner.formats.conll import read_sentences
"""
    assert imported(source) == {"cli", "text", "formats"}
    with pytest.raises(AssertionError, match="relative"):
        imported("from . import cli")


def test_the_architecture_shows_these_layers():
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (`.+`) \|$", page, re.M)
    shown = [set(re.findall(r"`(\w+)`", parts)) for _, parts in rows]
    assert shown == [set(parts) for parts in LAYERS if "__init__" not in parts]
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))


SCRIPTS = [
    path
    for folder in ("benchmarks", "experiments")
    for path in sorted((Path(__file__).parents[1] / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: "/".join(path.parts[-3:]))
def test_scripts_import_what_is_there(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hardner"):
            module = import_module(node.module)
            missing = [a.name for a in node.names if not hasattr(module, a.name)]
            for name in missing:  # a module of a package may not be imported yet
                import_module(f"{node.module}.{name}")
