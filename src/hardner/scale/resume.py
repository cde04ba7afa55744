"""Going on with what an interrupted command has finished; one process at a time writes a place."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from hardner.errors import FileError
from hardner.files import file_errors
from hardner.folders import TEMPORARY, FileLock

_JOURNAL = f"{TEMPORARY}tag"
"""The file of a folder of outputs that says which inputs are done."""
_BLOCK = 1 << 20


def fingerprint(path: str | Path) -> str:
    """A hash of where a file or folder is, and of its sizes and times; nothing of it is read."""
    path = Path(path).resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    with file_errors(path):
        seen = [(str(f), s.st_size, s.st_mtime_ns) for f in files if (s := f.stat())]
    return sha256(json.dumps([str(path), seen]).encode()).hexdigest()


@contextmanager
def sole_writer(out: Path, *, is_dir: bool) -> Iterator[None]:
    """Keep other processes from writing to the same file, or to the same folder, which is made."""
    with file_errors(out):
        if is_dir:
            out.mkdir(parents=True, exist_ok=True)
        name = f"{TEMPORARY}lock" if is_dir else f"{TEMPORARY}{out.name}.lock"
        try:
            lock = FileLock(out / name if is_dir else out.with_name(name))
        except BlockingIOError:
            message = "another process is writing it; wait for it, or choose another --out"
            raise FileError(out, message) from None
    try:
        yield
    finally:
        lock.release()


class FinishedInputs:
    """The inputs whose outputs lie finished in a folder, for the same settings."""

    def __init__(self, folder: Path, settings: str, resume: bool) -> None:
        """Args: ``resume`` says whether what an earlier run has finished counts."""
        self._path, self._settings = folder / _JOURNAL, settings
        with file_errors(self._path):
            if not resume:
                self._path.unlink(missing_ok=True)
            done = self._path.read_bytes() if self._path.exists() else b""
        self._done = set(done.decode(errors="replace").splitlines())

    def holds(self, source: str, target: Path) -> bool:
        """Whether an input, as it is now, is done and its output still there."""
        return self._line(source) in self._done and target.exists()

    def add(self, source: str) -> None:
        """Call it when the output is in its place."""
        with file_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(self._line(source) + "\n")
            # On the disk before the next input is begun, so that a crash repeats one at most.
            file.flush()
            os.fsync(file.fileno())

    def _line(self, source: str) -> str:
        # Folders of earlier versions are gone on with, so these names stay.
        held = {"input": source, "job": self._settings, "stamp": fingerprint(source)}
        return json.dumps(held)


@contextmanager
def growing_file(path: Path, settings: str, resume: bool) -> Iterator[tuple[BinaryIO, int]]:
    """A file of lines, and how many an earlier run has written, to go on with.

    It takes its place when the block ends well. Until then it is ``NAME.part``, and
    ``NAME.part.job`` holds the settings.
    """
    part, note = (path.with_name(path.name + ending) for ending in (".part", ".part.job"))
    with sole_writer(path, is_dir=False), file_errors(path):
        done = _whole_lines(part, note, settings) if resume and part.exists() else 0
        note.write_text(settings, "utf-8")
        with part.open("ab" if done else "wb") as file:
            yield file, done
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        note.unlink()


def _whole_lines(part: Path, note: Path, settings: str) -> int:
    """How many there are; half a line behind them is cut off."""
    if not note.exists() or note.read_bytes() != settings.encode():
        message = "was begun for other inputs or settings; without --resume it is begun anew"
        raise FileError(part, message)
    count = end = at = 0
    with part.open("r+b") as file:
        while block := file.read(_BLOCK):
            count += block.count(b"\n")
            end = at + last + 1 if (last := block.rfind(b"\n")) >= 0 else end
            at += len(block)
        file.truncate(end)
    return count
