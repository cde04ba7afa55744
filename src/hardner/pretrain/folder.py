"""A run's folder: claimed by what the run is, and held so that only one works in it."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hardner.errors import FileError
from hardner.files import atomic_write

SETTINGS = "pretraining.json"
ASIDE = ".hardner-"
"""How the names begin of what is written aside; a killed run leaves some behind."""


@contextmanager
def claimed(folder: Path, settings: Mapping[str, Any]) -> Iterator[None]:
    """Make the folder that of a run, or see that it is, and let no other run in meanwhile."""
    settings = json.loads(json.dumps(settings))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, f"cannot be made: {error.strerror}") from None
    with _locked(folder):
        path, aside = folder / SETTINGS, set(folder.glob(f"{ASIDE}*"))
        if set(folder.iterdir()) - aside - {path}:
            _compare(path, settings)
        else:
            with atomic_write(path) as file:
                file.write(json.dumps(settings, indent=1) + "\n")
        for left in aside:
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # on Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(folder, "another run is at work in it") from None
        yield
    finally:
        os.close(handle)


def _compare(path: Path, settings: Mapping[str, Any]) -> None:
    if not path.is_file():
        message = "is not empty and holds no pre-training; choose another folder"
        raise FileError(path.parent, message)
    try:
        there = dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise FileError(path, "damaged; choose another folder") from None
    for key in (*settings, *there):
        old, new = there.get(key), settings.get(key)
        if old != new:
            message = f"holds another run: {key} is {_shown(old)} there and {_shown(new)} here"
            raise FileError(path.parent, f"{message}; choose another folder")


def _shown(value: object) -> str:
    return "not given" if value in (None, "") else str(value)
