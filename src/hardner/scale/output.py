"""Long jobs that can be gone on with: what is finished is kept, and known for what it is.

A job is what was asked for, as text: settings and inputs. Work done for another job is not reused.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from hardner.errors import FileError

JOURNAL = ".hardner-tag"
"""The file of a folder of outputs that says which inputs are done."""
_BLOCK = 1 << 20


def stamp(path: str | Path) -> str:
    """Where a file or folder is and what can be seen of it without reading: sizes and times."""
    path = Path(path).resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    with told(path):
        seen = [(str(f), s.st_size, s.st_mtime_ns) for f in files if (s := f.stat())]
    return sha256(json.dumps([str(path), seen]).encode()).hexdigest()


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Whatever the system refuses, as one line about a file."""
    try:
        yield
    except OSError as error:
        full = error.errno == errno.ENOSPC
        reason = "no space left on the device" if full else error.strerror or str(error)
        raise FileError(path, reason) from None


class FinishedInputs:
    """The inputs whose outputs lie finished in a folder."""

    def __init__(self, folder: Path, job: str, resume: bool) -> None:
        """Args: ``resume`` says whether what an earlier run has finished counts."""
        self._path, self._job = folder / JOURNAL, job
        with told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not resume:
                self._path.unlink(missing_ok=True)
            lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        self._done = set(lines)

    def holds(self, source: str, target: Path) -> bool:
        """Whether an input, as it is now, is done and its output still there."""
        return self._line(source) in self._done and target.exists()

    def add(self, source: str) -> None:
        """Call it when the output is in its place."""
        with told(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(self._line(source) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _line(self, source: str) -> str:
        return json.dumps({"input": str(source), "job": self._job, "stamp": stamp(source)})


class PartFile:
    """An output that grows line by line beside its place."""

    def __init__(self, file: BinaryIO, done: int) -> None:
        """Args: ``done`` is how many lines are there already."""
        self._file, self.done = file, done

    def add(self, line: str) -> None:
        """Write a line."""
        self._file.write(line.encode() + b"\n")


@contextmanager
def part_file(path: Path, job: str, resume: bool) -> Iterator[PartFile]:
    """A file of lines that takes its place when the block ends well, else waits to be gone on with.

    Until then it is ``NAME.part``, and ``NAME.part.job`` says what for.
    """
    part, note = (path.with_name(path.name + ending) for ending in (".part", ".part.job"))
    with told(path):
        done = _lines(part, note, job) if resume and part.exists() else 0
        note.write_text(job, "utf-8")
        with part.open("ab" if done else "wb") as file:
            yield PartFile(file, done)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        note.unlink()


def _lines(part: Path, note: Path, job: str) -> int:
    """How many whole lines there are; half a line behind them is cut off."""
    if not note.exists() or note.read_text("utf-8") != job:
        message = "was begun for other inputs or settings; without --resume it is begun anew"
        raise FileError(part, message)
    lines = end = at = 0
    with part.open("r+b") as file:
        while block := file.read(_BLOCK):
            lines += block.count(b"\n")
            end = at + last + 1 if (last := block.rfind(b"\n")) >= 0 else end
            at += len(block)
        file.truncate(end)
    return lines
