"""What every long run needs: a folder of its own with a lock on it, and reports of its progress."""

import json
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write, read_json
from hardner.folders import TEMPORARY, FileLock

STATE_FOLDER, MODEL_FOLDER, LOG_FILE = "state", "model", "log.jsonl"
_LOCK = f"{TEMPORARY}lock"
SECONDS = 0.5
"""Between two reports."""


class RunProgress(NamedTuple):
    """What a callback gets about twice a second."""

    stage: str = ""
    """What comes before training, such as "reading the text"; empty once training has begun."""
    done: int = 0  # steps or iterations, or words where vectors are trained
    total: int = 0
    loss: float | None = None
    """Mean over the steps since the last report; None before the first, and for word vectors."""
    devel: float | None = None  # the last loss on devel data, where the run has any
    speed: float = 0.0
    """Subwords or words a second since the last report; 0 where it is not measured."""
    milestone: bool = False
    """Worth a line in a log: the devel loss is new, or ``loss`` and ``speed`` are the means since
    the last milestone."""


ProgressCallback = Callable[[RunProgress], None]


class Meter:
    """Mean loss and speed since it was last read."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._total: Tensor | float = 0.0
        self._steps, self._size, self._clock = 0, 0, time.perf_counter()

    @property
    def due(self) -> bool:
        return time.perf_counter() - self._clock > SECONDS

    def add(self, size: int, loss: Tensor | float = 0.0) -> None:
        """Count a step over ``size`` subwords or words."""
        # The sum stays on the GPU: looking at each loss would wait for it.
        self._total = self._total + loss
        self._steps += 1
        self._size += size

    @property
    def counted(self) -> tuple[float, int]:
        """The sum of the losses, and how many they are."""
        return float(self._total), self._steps

    def go_on(self, total: float, steps: int) -> None:
        """Begin with what an earlier session has counted."""
        self._total, self._steps = total, steps

    def read(self) -> tuple[float, float]:
        """The mean loss and the speed; starts anew."""
        loss = float(self._total) / self._steps
        speed = self._size / (time.perf_counter() - self._clock)
        self._clear()
        return loss, speed


class Diverged(HardnerError):
    """A loss or a parameter is infinite or NaN."""


class SavedState(NamedTuple):
    """All that a run needs to go on."""

    params: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    about: Mapping[str, Any]  # what else the run keeps, such as how many steps are done

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by the names that they have in the folder."""
        params = {f"params.{name}": value for name, value in self.params.items()}
        return params | {f"state.{name}": value for name, value in self.optimizer.items()}

    def form(self) -> dict[str, Any]:
        """What all states of a run have in common: names, shapes and types."""
        tensors = {name: (value.shape, value.dtype) for name, value in self.tensors().items()}
        return tensors | {name: type(value) for name, value in self.about.items()}


@dataclass(frozen=True)
class RunFolder:
    """A folder that this process may write to; made by `open_run_folder`."""

    path: Path

    def save_state(
        self,
        state: SavedState,
        dtype: Mapping[str, torch.dtype] | None = None,
        shard_bytes: int | None = None,
    ) -> None:
        """Replace the state; one that is not finite would be of no use and is refused.

        ``dtype`` and ``shard_bytes`` are as in `save_checkpoint`; what is stored in another type
        must be exact in it.
        """
        tensors = state.tensors()
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise Diverged("a parameter is not finite")
        about = checkpoint.with_checksum(state.about)
        folder = self.path / STATE_FOLDER
        checkpoint.save_checkpoint(folder, tensors, about, shard_bytes=shard_bytes, dtype=dtype)

    def load_state(self, start: SavedState, device: str) -> SavedState | None:
        """The state with its tensors on a device; None where there is none yet.

        It must have the form of the run's first state, ``start``.
        """
        folder = self.path / STATE_FOLDER
        if not folder.is_dir():
            return None
        saved = checkpoint.load_checkpoint(folder)
        about = {n: v for n, v in saved.config.items() if n != checkpoint.CHECKSUM}
        kinds: dict[str, dict[str, Tensor]] = {"params": {}, "state": {}}
        for name, tensor in saved.tensors.items():
            kind, _, own = name.partition(".")
            kinds.setdefault(kind, {})[own] = tensor.to(device)
        found = SavedState(kinds["params"], kinds["state"], about)
        if not checkpoint.agrees_with_checksum(saved.config) or found.form() != start.form():
            raise FileError(folder, "is not a state of this run; delete it to begin again")
        return found


@contextmanager
def open_run_folder(
    path: Path,
    settings_file: str,
    settings: Mapping[str, Any],
    read: Callable[[Path], Mapping[str, Any]] = read_json,
    free: Collection[str] = (),
) -> Iterator[RunFolder]:
    """Make a run's folder, or see that it holds the same run, and keep other processes out.

    The settings, nested tables of JSON values, say what the run is. Those of an earlier session
    are read by ``read``, and may differ in the dotted keys ``free``.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / _LOCK)
    except BlockingIOError:
        raise FileError(path, "another run is at work in it") from None
    except OSError as error:
        raise FileError(path, f"cannot be made: {error.strerror}") from None
    try:
        file = path / settings_file
        present = {p.name for p in path.iterdir() if not p.name.startswith(TEMPORARY)}
        if present <= {file.name}:  # nothing was done yet, so other settings do no harm
            with atomic_write(file) as stream:
                stream.write(json.dumps(settings, indent=1) + "\n")
        elif file.name not in present:
            message = f"is not empty and holds no run ({file.name}); choose another folder"
            raise FileError(path, message)
        else:
            _compare(path, read(file), settings, free)
        # What a killed process left half-written.
        for left in path.glob(f"{TEMPORARY}*"):
            if left.is_dir() and not (left / "old").exists():  # the only copy of what it replaced
                shutil.rmtree(left, ignore_errors=True)
            elif left.is_file() and left.name != _LOCK:
                left.unlink()
        yield RunFolder(path)
    finally:
        lock.release()


def _compare(
    folder: Path, old: Mapping[str, Any], new: Mapping[str, Any], free: Collection[str]
) -> None:
    """Refuse settings that are not those of the run in the folder."""
    there = dict(flat(old))
    here = dict(flat(json.loads(json.dumps(new))))  # tuples become lists, as in the file
    for key in (*here, *there):
        if key not in free and there.get(key) != here.get(key):
            values = f"{_shown(there.get(key))} there and {_shown(here.get(key))} here"
            message = f"holds another run: {key} is {values}; choose another folder"
            raise FileError(folder, message)


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
