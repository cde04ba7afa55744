"""The public names and their signatures: those of docs/reference/public.md, as written down.

After a change that is meant, write them anew and say in CHANGELOG.md how to move:

    python tests/test_public_api.py
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import hardner

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "public.md"
WRITTEN = Path(__file__).with_name("public_api.txt")
CALLED = {"__call__", "__init__", "__len__", "__iter__", "__getitem__", "__enter__", "__exit__"}
"""Methods that are public in spite of their underscores."""


def listed() -> dict[str, list[str]]:
    """The names that the page lists, by module."""
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", PAGE.read_text("utf-8"), re.M)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def signatures() -> list[str]:
    """Each public name with what a caller can rely on, a line for each function and field."""
    return [
        line
        for module, names in listed().items()
        for name in names
        for line in _shown(f"{module}.{name}", getattr(importlib.import_module(module), name))
    ]


def _shown(name: str, thing: object) -> Iterator[str]:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        yield name
    elif thing.__module__ != name.rpartition(".")[0] and thing.__module__ in listed():
        yield f"{name} is {thing.__module__}.{thing.__name__}"
    else:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
        yield from _lines(name, node)


def _lines(name: str, node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef():
            returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            kind = f"@{marks[0]} " if marks and marks[0] in ("property", "classmethod") else ""
            yield f"{kind}{name}({ast.unparse(node.args)}){returned}"
        case ast.ClassDef():
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            yield f"class {name}({bases})" if bases else f"class {name}"
            for inner in node.body:
                own = getattr(inner, "name", "")
                if isinstance(inner, ast.AnnAssign):
                    if not ast.unparse(inner.target).startswith("_"):
                        yield f"{name}.{ast.unparse(inner)}"
                elif own in CALLED or (own and not own.startswith("_")):
                    yield from _lines(f"{name}.{own}", inner)


def test_nothing_public_has_changed() -> None:
    assert signatures() == WRITTEN.read_text("utf-8").splitlines(), __doc__


def test_the_page_lists_what_the_package_gives() -> None:
    assert listed()["hardner"] == hardner.__all__
    assert set(hardner.__all__) <= set(dir(hardner))
    for module, names in listed().items():
        assert names == sorted(names), module
        told = getattr(importlib.import_module(module), "__all__", names)
        assert set(names) <= set(told), module


def test_public_names_are_typed_and_described() -> None:
    assert (Path(hardner.__file__).parent / "py.typed").is_file()
    for module, names in listed().items():
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert inspect.getdoc(thing), f"{module}.{name} has no docstring"
    called = [line for line in signatures() if re.match(r"(@\w+ )?[\w.]+\(", line)]
    assert len(called) > 10
    assert [line for line in called if " -> " not in line] == []


def test_dir_shows_what_is_imported_late() -> None:
    program = "import hardner, sys; print({'Predictor', 'load'} <= set(dir(hardner)))"
    program += "; print('torch' in sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_the_check_sees_a_changed_signature() -> None:
    def lines(source: str) -> list[str]:
        return list(_lines("m.x", ast.parse(source).body[0]))

    assert lines("def x(a: int, *, b: str = '') -> None: ...") == [
        "m.x(a: int, *, b: str='') -> None"
    ]
    assert lines("class x(Y):\n  a: int = 1\n  _b: int = 2\n  def c(self) -> int: ...") == [
        "class m.x(Y)",
        "m.x.a: int = 1",
        "m.x.c(self) -> int",
    ]


if __name__ == "__main__":
    WRITTEN.write_text("\n".join(signatures()) + "\n", "utf-8")
