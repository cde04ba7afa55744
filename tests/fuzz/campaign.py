"""All inputs of a kind, by worker processes that are started again where an input ends one."""

import itertools
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fuzz.judge import (
    CLEAN,
    DEFECT,
    LARGE,
    REFUSED,
    SLOW,
    VERDICTS,
    Verdict,
    input_of,
    judge,
    judge_all,
)
from fuzz.kinds import Kind

_FORK = multiprocessing.get_context("fork")
_WAITING = 90.0
"""Seconds without a verdict after which a worker is taken to hang."""


@dataclass
class Tally:
    """What became of the inputs of a kind."""

    kind: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    slowest: float = 0.0
    largest: float = 0.0
    """Megabytes."""
    odd: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    """By verdict and place, the smallest input that is neither clean nor refused."""

    def add(self, verdict: Verdict) -> None:
        """Count it."""
        self.counts[verdict.kind] += 1
        self.slowest = max(self.slowest, verdict.seconds)
        self.largest = max(self.largest, verdict.megabytes)
        key = verdict.kind, verdict.what
        if verdict.kind not in (CLEAN, REFUSED):
            held = self.odd.get(key, verdict)
            self.odd[key] = min(held, verdict, key=lambda v: v.size)

    @property
    def inputs(self) -> int:
        """How many were judged."""
        return sum(self.counts.values())


class _Worker:
    """A process on a run of inputs, and the number of the next one that it will tell of."""

    def __init__(self, kind: Kind, seed: int, numbers: range, folder: Path) -> None:
        self.kind, self.seed, self.numbers, self.folder = kind, seed, numbers, folder
        self._start(numbers.start)

    def _start(self, first: int) -> None:
        self.next, self.made, self.heard = first, False, time.monotonic()
        self.inbox, outbox = _FORK.Pipe(duplex=False)
        left = range(first, self.numbers.stop)
        arguments = self.kind, self.seed, left, self.folder, outbox
        self.process = _FORK.Process(target=judge_all, args=arguments, daemon=True)
        self.process.start()
        outbox.close()

    def hear(self) -> Verdict | None:
        """A verdict; of a process that ended on an input, a verdict all the same."""
        try:
            said = self.inbox.recv()
        except EOFError:
            self.process.join()
            # One that ended while it made an input, with a library that writes, is no reader's.
            said = self._death(self.process.exitcode or 0) if self.made else None
            self._start(self.next + 1)
            return said
        self.made, self.heard = not isinstance(said, Verdict), time.monotonic()
        if self.made:
            return None
        self.next = said.number + 1
        return said

    def hurry(self) -> None:
        """End a process that has said nothing for long."""
        if time.monotonic() - self.heard > _WAITING:
            self.process.kill()

    @property
    def done(self) -> bool:
        return self.next >= self.numbers.stop

    def _death(self, code: int) -> Verdict:
        size = sum(map(len, input_of(self.kind, self.seed, self.next).values()))
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        slow = name in ("SIGXCPU", "SIGKILL", "SIGPROF")
        what = SLOW if slow else (LARGE if name == "SIGABRT" else DEFECT)
        return Verdict(self.next, what, f"the process ended: {name}", 0.0, 0.0, size)


def run(kind: Kind, count: int, seed: int, workers: int, until: float | None = None) -> Tally:
    """Judge so many inputs of a kind.

    Args:
        until: A time of the monotonic clock at which no more are begun.
    """
    tally = Tally(kind.name)
    with tempfile.TemporaryDirectory(dir=in_memory(), prefix="hardner-fuzz-") as work:
        cuts = [count * n // workers for n in range(workers + 1)]
        parts = [range(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        busy = [_Worker(kind, seed, p, Path(work, str(n))) for n, p in enumerate(parts)]
        try:
            for verdict in _verdicts(busy):
                tally.add(verdict)
                if until is not None and time.monotonic() > until:
                    break
        finally:
            for worker in busy:
                worker.process.kill()
                worker.process.join()
    return tally


def _verdicts(busy: list[_Worker]) -> Iterator[Verdict]:
    active = list(busy)
    while active:
        for inbox in wait([w.inbox for w in active], timeout=5):
            worker = next(w for w in active if w.inbox is inbox)
            if (verdict := worker.hear()) is not None:
                yield verdict
        for worker in active:
            worker.hurry()
        active = [worker for worker in active if not worker.done]


def in_memory() -> Path | None:
    """A file system in memory, where there is one."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else None


def smallest(kind: Kind, seed: int, found: Verdict, tries: int = 300) -> dict[str, bytes]:
    """The input with what can be cut out of it without another verdict; in a process of its own."""
    files = dict(input_of(kind, seed, found.number))
    if found.kind != DEFECT or found.what.startswith("the process"):
        return files
    inbox, outbox = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_shrink, args=(kind, files, found, tries, outbox), daemon=True)
    process.start()
    outbox.close()
    try:
        while inbox.poll(_WAITING):
            files = inbox.recv()
    except EOFError:
        pass
    process.kill()
    process.join()
    return files


def _shrink(
    kind: Kind, files: dict[str, bytes], found: Verdict, tries: int, out: Connection
) -> None:
    with tempfile.TemporaryDirectory(dir=in_memory(), prefix="hardner-fuzz-") as work:
        for name in sorted(files):
            part = len(files[name]) // 2
            while part and tries:
                at = 0
                while at < len(files[name]) and tries:
                    fewer = {**files, name: files[name][:at] + files[name][at + part :]}
                    tries -= 1
                    verdict = judge(kind.take, fewer, Path(work, "input"))
                    if (verdict.kind, verdict.what) == (found.kind, found.what):
                        files = fewer
                        out.send(files)
                    else:
                        at += part
                part //= 2


def keep(files: dict[str, bytes], name: str, folder: Path) -> Path:
    """Leave an input for whoever mends it: a file, or a folder of several."""
    target = folder / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for inner, content in files.items():
        path = target / inner
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path if len(files) == 1 else target
