"""A worker process that judges one input after another, within limits of time and memory."""

import contextlib
import os
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import FrameType

from fuzz.kinds import Kind
from fuzz.mutate import Files, damaged

import hardner
from hardner.errors import HardnerError

SECONDS, MEMORY = 10, 1 << 30
"""The most that an input may take: of a core's time, and of memory beyond what was held before."""
CLEAN, REFUSED, DEFECT, SLOW, LARGE = "clean", "one-line error", "defect", "too slow", "too large"
VERDICTS = (CLEAN, REFUSED, DEFECT, SLOW, LARGE)
_PACKAGE = Path(hardner.__file__).parent
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Verdict:
    """What became of an input."""

    number: int
    kind: str
    what: str
    """The exception, and the innermost line of hardner that it passed."""
    seconds: float
    megabytes: float
    size: int


class _TooSlow(BaseException):
    pass


def input_of(kind: Kind, seed: int, number: int) -> Files:
    """The same for the same numbers, whichever process asks."""
    rng = Random(f"{kind.name} {seed} {number}")
    made = damaged(rng, rng.choice(kind.seeds), kind.seeds)
    return kind.mend(made) if rng.random() < 0.5 else made


def judge_all(kind: Kind, seed: int, numbers: range, folder: Path, out: Connection) -> None:
    """Judge these inputs in this process; send the number of each once it is made, its verdict."""
    with _quiet():
        _limit_memory()
        for number in numbers:
            files = input_of(kind, seed, number)
            out.send(number)
            out.send(judge(kind.take, files, folder, number))


def judge(take: Callable[[Path], object], files: Files, folder: Path, number: int = 0) -> Verdict:
    """Take in an input, and say what became of it."""
    path = laid_out(files, folder)
    _forget_peak()
    held, began = _status("VmRSS"), time.process_time()
    try:
        with _time_limit():
            verdict, what = _taken(take, path)
    except _TooSlow as error:
        verdict, what = SLOW, _place(error)
    seconds, size = time.process_time() - began, sum(map(len, files.values()))
    grown = _status("VmHWM") - held
    if verdict in (CLEAN, REFUSED) and grown > MEMORY:
        verdict, what = LARGE, "peak"
    return Verdict(number, verdict, what, seconds, grown / _MEGABYTE, size)


def laid_out(files: Files, folder: Path) -> Path:
    """The files on the disk: their folder, or the file where there is one alone."""
    if folder.is_dir():
        shutil.rmtree(folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / next(iter(files)) if len(files) == 1 else folder


def _taken(take: Callable[[Path], object], path: Path) -> tuple[str, str]:
    try:
        take(path)
    except HardnerError as error:
        if "\n" in str(error) or not str(error):
            return DEFECT, f"{type(error).__name__} of several lines or none, {_place(error)}"
        return REFUSED, ""
    except (KeyboardInterrupt, _TooSlow):
        raise
    except BaseException as error:
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            return LARGE, _place(error)
        said = f": {error}" if type(error).__name__ == "Unsound" else ""
        return DEFECT, f"{type(error).__name__}{said}, {_place(error)}"
    return CLEAN, ""


def _place(error: BaseException) -> str:
    """The innermost line of hardner on the way to the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if Path(f.filename).is_relative_to(_PACKAGE)]
    if not inside:
        return "outside"
    last = inside[-1]
    return f"{Path(last.filename).relative_to(_PACKAGE)}:{last.lineno} {last.name}"


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """An exception after so many seconds of a core; where none can be raised, the kernel kills."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    signal.signal(signal.SIGPROF, stop)
    used, before = time.process_time(), resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + SECONDS) + 5, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(
            resource.RLIMIT_CPU, before
        )  # a test that judges goes on in this process


def _limit_memory() -> None:
    most = _status("VmSize") + MEMORY + (MEMORY >> 3)  # a little more, to see what is above
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(key: str) -> int:
    """Bytes of this process, as Linux counts them."""
    with open("/proc/self/status") as file:  # noqa: PTH123 - read for every input
        line = next(line for line in file if line.startswith(key))
    return int(line.split()[1]) << 10


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing on the terminal, and no core on the disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with warnings.catch_warnings(action="ignore"):
        yield
