"""The one exception a user may see: a single line that says what is wrong and where."""

from importlib import import_module
from pathlib import Path
from typing import Any


class HardnerError(Exception):
    """What went wrong, where, and, if it helps, what to do. Commands print it and exit with 1."""

    def __str__(self) -> str:
        """One line, whatever the names in it hold."""
        return " ".join(super().__str__().splitlines())


class FileError(HardnerError):
    """Something wrong in or with a file; reads ``path:line: message``."""

    def __init__(self, path: str | Path, message: str, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{where}: {message}")
        self.path, self.line = Path(path), line


def import_extra(module: str, extra: str) -> Any:
    """A module of an optional dependency; without it, an error that says what to install."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        message = f"{name} is not installed; run: pip install 'hardner[{extra}]'"
        raise HardnerError(message) from None
