"""The folder of a run that may end at any moment and go on to the same bits.

It holds the run's settings, ``state`` (all that is needed to go on) and ``model``; some runs add
``log.jsonl`` or files of their own. Each is written whole or not at all, by one process at a time.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from torch import Tensor

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write, file_errors
from hardner.jobs.lock import FileLock
from hardner.unfinished import TEMPORARY

STATE_FOLDER, MODEL_FOLDER, LOG_FILE = "state", "model", "log.jsonl"
_LOCK = f"{TEMPORARY}lock"


class Diverged(HardnerError):
    """A loss or a parameter is infinite or NaN."""


class SavedState(NamedTuple):
    """All that a run needs to go on."""

    params: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    about: Mapping[str, Any]
    """What else the run keeps, such as how many steps are done."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that this process may write to; made by `open_run_folder`."""

    path: Path

    def open_log(self) -> BinaryIO:
        """The log, to append lines to."""
        path = self.path / LOG_FILE
        with file_errors(path):
            return path.open("ab")

    def save_state(self, state: SavedState) -> None:
        """Replace the state; one that is not finite would be of no use and is refused."""
        tensors = {f"params.{name}": value for name, value in state.params.items()}
        tensors |= {f"state.{name}": value for name, value in state.optimizer.items()}
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise Diverged("a parameter is not finite")
        checkpoint.save_checkpoint(self.path / STATE_FOLDER, tensors, state.about)

    def load_state(self, device: str) -> SavedState | None:
        """The state with its tensors on a device; None where the run is at its start."""
        if not (self.path / STATE_FOLDER).is_dir():
            return None
        saved = checkpoint.load_checkpoint(self.path / STATE_FOLDER)
        kinds: dict[str, dict[str, Tensor]] = {"params": {}, "state": {}}
        for name, tensor in saved.tensors.items():
            kind, _, own = name.partition(".")
            kinds[kind][own] = tensor.to(device)
        return SavedState(kinds["params"], kinds["state"], saved.config)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise FileError(path, "damaged; choose another folder") from None


@contextmanager
def open_run_folder(
    path: Path,
    settings_file: str,
    settings: Mapping[str, Any],
    read: Callable[[Path], Mapping[str, Any]] = _read_json,
    free: Collection[str] = (),
) -> Iterator[RunFolder]:
    """Make a run's folder, or see that it holds the same run, and keep other processes out.

    Args:
        path: A new or empty folder, or that of the same run.
        settings_file: The name of the file that says what the run is.
        settings: What it says, as nested tables of JSON values.
        read: Reads the settings of an earlier session.
        free: Dotted keys in which that session may differ.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / _LOCK)
    except BlockingIOError:
        raise FileError(path, "another run is at work in it") from None
    except OSError as error:
        raise FileError(path, f"cannot be made: {error.strerror}") from None
    try:
        _claim(path, path / settings_file, settings, read, free)
        # What a killed process left half-written.
        for left in path.glob(f"{TEMPORARY}*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            elif left.name != _LOCK:
                left.unlink()
        yield RunFolder(path)
    finally:
        lock.release()


def _claim(
    folder: Path,
    file: Path,
    settings: Mapping[str, Any],
    read: Callable[[Path], Mapping[str, Any]],
    free: Collection[str],
) -> None:
    present = {p.name for p in folder.iterdir() if not p.name.startswith(TEMPORARY)}
    if present <= {file.name}:  # nothing was done yet, so other settings do no harm
        with atomic_write(file) as stream:
            stream.write(json.dumps(settings, indent=1) + "\n")
        return
    if file.name not in present:
        message = f"is not empty and holds no run ({file.name}); choose another folder"
        raise FileError(folder, message)
    there = dict(flat(read(file)))
    here = dict(flat(json.loads(json.dumps(settings))))  # tuples become lists, as in the file
    for key in (*here, *there):
        old, new = there.get(key), here.get(key)
        if key not in free and old != new:
            message = f"holds another run: {key} is {_shown(old)} there and {_shown(new)} here"
            raise FileError(folder, f"{message}; choose another folder")


def flat(table: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by dotted key."""
    for name, value in table.items():
        key = f"{section}.{name}" if section else name
        if isinstance(value, Mapping):
            yield from flat(value, key)
        else:
            yield key, value


def _shown(value: object) -> str:
    if value in (None, ""):
        return "not given"
    return value if isinstance(value, str) else json.dumps(value)
