"""A folder in which commands are run, from the same inputs each time, and looked at."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crash.commands import Command, comparable

Snapshot = Mapping[str, bytes]
"""The files of a folder by name, and its folders, whose names end in a slash."""


class Server:
    """Runs commands in forks of a process that has everything imported."""

    def __init__(self, environment: Mapping[str, str] = {}) -> None:
        own = {
            "OMP_NUM_THREADS": "1",
            "SOURCE_DATE_EPOCH": "0",
            "HARDNER_COMMIT": "test",
            "COLUMNS": "400",
            **environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crash.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, **own},
        )
        assert self._process.stdout and self._process.stdout.readline() == "ready\n"

    def start(self, **request: Any) -> int:
        """The process id of a command."""
        return self._ask(request)

    def wait(self, pid: int) -> int:
        """The exit code of a command, or minus the signal that ended it."""
        return self._ask({"wait": pid})

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: int = json.loads(self._process.stdout.readline())
        return answer


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Reference:
    """A command that nothing disturbs."""

    before: Snapshot
    after: Snapshot
    events: int
    """How often it does something to files."""
    seconds: float
    err: str
    early: Snapshot = field(default_factory=dict)
    """What lies there once the first of several outputs is whole."""


@dataclass
class Bench:
    """A folder in which commands are run, and what they are given."""

    server: Server
    inputs: Path
    folder: Path
    """Where a command runs; always the same, as outputs may name it."""
    old: dict[str, Path] = field(default_factory=dict)
    """By command, a folder with what an earlier one left."""

    def reset(self, command: Command | None = None, old: bool = False) -> Snapshot:
        """The inputs anew, and what an earlier command left if that is asked for."""
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():  # not the folder itself, which may be a mount
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.inputs, self.folder, dirs_exist_ok=True)
        if command and old:
            for name in command.old:
                source, target = self.old[command.name] / name, self.folder / name
                (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
        return snapshot(self.folder)

    def begin(self, arguments: tuple[str, ...], name: str = "said", **how: Any) -> int:
        """Start a command."""
        said = {key: str(self.folder.with_name(f"{name}.{key}")) for key in ("out", "err")}
        for path in said.values():  # empty from the start, for whoever waits for a line
            Path(path).write_text("")
        return self.server.start(folder=str(self.folder), arguments=arguments, **{**said, **how})

    def end(self, pid: int, name: str = "said") -> Ended:
        """Wait for a command."""
        code = self.server.wait(pid)
        out, err = (self.folder.with_name(f"{name}.{key}") for key in ("out", "err"))
        return Ended(code, _text(out), _text(err))

    def run(self, arguments: tuple[str, ...], **how: Any) -> Ended:
        """Run a command to its end."""
        return self.end(self.begin(arguments, **how))

    def reference(self, command: Command, old: bool = False) -> Reference:
        """Run it undisturbed."""
        before = self.reset(command, old)
        counted = self.folder.with_name("events")
        began = time.monotonic()
        ended = self.run(command.arguments, events=str(counted))
        seconds = time.monotonic() - began
        assert ended.code == 0, ended.err
        after = snapshot(self.folder)
        return Reference(before, after, int(counted.read_text()), seconds, ended.err)

    def with_early(self, command: Command, reference: Reference) -> Reference:
        """Find the first output: what a kill leaves as early as it leaves anything."""
        low, high = 0, reference.events
        while high - low > 1:
            at = (low + high) // 2
            low, high = (low, at) if self._killed(command, at) else (at, high)
        self._killed(command, high)
        return replace(reference, early=snapshot(self.folder))

    def _killed(self, command: Command, at: int) -> bool:
        """Whether an output stands after a kill at something that the command does to files."""
        self.reset(command)
        self.run(command.arguments, at=at, signal=int(signal.SIGKILL))
        return (self.folder / command.early).exists()

    def make_old(self, command: Command) -> None:
        """Keep what the command makes of its other input."""
        self.reset()
        assert self.run(command.other).code == 0
        kept = self.folder.with_name(f"old {command.name}")
        shutil.copytree(self.folder, kept)
        self.old[command.name] = kept


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def snapshot(folder: Path) -> Snapshot:
    """What lies there, without how long things took."""
    held = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        held[f"{name}/" if path.is_dir() else name] = (
            b"" if path.is_dir() else comparable(name, path.read_bytes())
        )
    return held


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system in memory at this place."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mount("-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Whether this process may mount file systems."""
    try:
        with mounted(folder, "size=1m"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
