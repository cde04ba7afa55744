"""One thing per name: a public name at the top of a module is defined once in the whole package."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hardner

PACKAGE = Path(hardner.__file__).parent
ROUTES = {"router"}
"""Each module of `serve/routes/` is a FastAPI router."""
ANYWHERE = {"main"}


def defined(source: str) -> Iterator[str]:
    """The public names that a module defines at its top level; imports are not definitions."""
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.Assign():
                names = [part.id for target in node.targets for part in _names(target)]
            case ast.AnnAssign(target=ast.Name() as target):
                names = [target.id]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def _names(target: ast.expr) -> list[ast.Name]:
    return [node for node in ast.walk(target) if isinstance(node, ast.Name)]


def allowed(name: str, place: str) -> bool:
    return name in ANYWHERE or (name in ROUTES and place.startswith("serve/routes/"))


def homonyms(sources: dict[str, str]) -> dict[str, list[str]]:
    """Public names that more than one module defines, with the modules, by the path of a module."""
    places: dict[str, list[str]] = defaultdict(list)
    for place, source in sources.items():
        for name in sorted(set(defined(source))):
            if not allowed(name, place):
                places[name].append(place)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def test_public_names_are_defined_once() -> None:
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    assert homonyms(sources) == {}


def test_the_check_sees_every_way_to_define_a_name() -> None:
    first = "def a(): ...\nclass B: ...\nC = 1\nD: int = 2\nE, F = 3, 4\nasync def g(): ...\n"
    assert list(defined(first)) == ["a", "B", "C", "D", "E", "F", "g"]
    assert list(defined("from x import a\n_b = 1\nclass C:\n    def d(self): ...\n")) == ["C"]
    assert homonyms({"x.py": first, "y.py": "a = 1\n"}) == {"a": ["x.py", "y.py"]}
    routes = {f"serve/routes/{name}.py": "router = 1" for name in "xy"}
    assert homonyms(routes) == {}
    assert homonyms({"x.py": "read = 1", "y.py": "read = 1"}) == {"read": ["x.py", "y.py"]}
