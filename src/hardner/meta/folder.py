"""A run's folder: whose it is, and a log that one run alone holds."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hardner.errors import FileError
from hardner.files import atomic_write
from hardner.meta.experiment import Experiment, differing, read_experiment

EXPERIMENT, LOG, STATE, MODEL = "experiment.json", "log.jsonl", "state", "model"
FREE = ("device", "data.root", "data.catalogue")
"""Keys in which a run that goes on may differ: the sentences themselves are compared."""
ASIDE = ".hardner-"
"""How the names begin of what is written aside; a killed run leaves some behind."""


def claim(folder: Path, experiment: Experiment) -> None:
    """Make the folder that of the experiment, or see that it is."""
    path = folder / EXPERIMENT
    if path.is_file():
        if key := differing(read_experiment(path), experiment, FREE):
            raise FileError(folder, f"holds another run: {key}; choose another folder")
        return
    if folder.is_dir() and any(not p.name.startswith(ASIDE) for p in folder.iterdir()):
        raise FileError(folder, "is not empty and holds no run; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, f"cannot be made: {error.strerror}") from None
    with atomic_write(path) as file:
        file.write(json.dumps(experiment.table(), indent=1) + "\n")


@contextmanager
def held_log(folder: Path) -> Iterator[BinaryIO]:
    """The log, held so that no other run works in the folder, and what a killed one left gone."""
    path = folder / LOG
    try:
        path.touch()
        file = path.open("r+b")
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror}") from None
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # not on Windows
            pass
        except OSError:
            raise FileError(folder, "another run is at work in it") from None
        for left in folder.glob(f"{ASIDE}*"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
        yield file
