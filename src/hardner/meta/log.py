"""The log of meta-training: one JSON line an iteration, and one for each devel loss."""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from hardner.errors import FileError
from hardner.files import append_lines, file_errors, lines
from hardner.jobs import SECONDS, STATE_FOLDER, Diverged
from hardner.meta.inner import learners
from hardner.meta.loop import Training, TrainingStep
from hardner.meta.methods import Method


@dataclass(frozen=True)
class LogEntry:
    """An iteration as the log tells it; lists have a number a task."""

    iteration: int
    losses: dict[str, list[float]]  # by outer term
    weights: dict[str, list[float]]  # by part of the network, summing to 1
    domains: list[str]
    rate: float
    seconds: float

    def __post_init__(self) -> None:
        """Refuse what no training has written."""
        tasks = len(self.domains)
        if type(self.iteration) is not int or not all(type(d) is str for d in self.domains):
            raise TypeError("no iteration")
        for rows in (self.losses, self.weights):
            if not isinstance(rows, dict) or not rows:
                raise TypeError("no table of losses or weights")
            if any([*map(type, row)] != [float] * tasks for row in rows.values()):
                raise TypeError("no number a task")


class TrainingLog:
    """Appends iterations to a file, in blocks: to look at a loss is to wait for the GPU."""

    def __init__(self, path: Path | None, method: Method, training: Training) -> None:
        """Args: ``path`` of the file; without one nothing is written."""
        self.loss: float | None = None  # mean tagging loss of the last block
        self._path, self._turns, self._training = path, method.turns, training
        self._waiting: list[tuple[TrainingStep, list[str]]] = []
        self._clock = time.monotonic()

    def cut(self, size: int) -> None:
        """Drop what was written after a state was saved."""
        held = self.size()
        if not self._path or held == size:
            return
        if held < size:
            lost = f"is cut short: {held:,} bytes, and {STATE_FOLDER} is of {size:,}"
            raise FileError(self._path, f"{lost}; delete {STATE_FOLDER} to begin again")
        with file_errors(self._path):
            os.truncate(self._path, size)

    def add(self, step: TrainingStep, domains: list[str]) -> bool:
        """Keep a step; says whether a block was written."""
        self._waiting.append((step, domains))
        if time.monotonic() - self._clock < SECONDS:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Write what was kept, up to the first loss that is not finite, which is an error."""
        entries = [self._entry(step, domains) for step, domains in self._waiting]
        self._waiting = []
        self._clock = time.monotonic()
        finite = [all(map(isfinite, chain(*entry.losses.values()))) for entry in entries]
        good = [*finite, False].index(False)
        self._write([vars(entry) for entry in entries[:good]])
        if good < len(entries):
            raise Diverged(f"the loss is not finite at iteration {entries[good].iteration}")
        tags = [v for e in entries for n, f in e.losses.items() if n.startswith("tag") for v in f]
        self.loss = sum(tags) / len(tags) if tags else self.loss

    def add_devel_loss(self, iterations: int, loss: float, best: bool) -> None:
        """Write the devel loss after so many iterations."""
        self._write([{"after": iterations, "devel_loss": loss, "best": best}])

    def size(self) -> int:
        """Bytes of the log, all of which are on the disk."""
        self.flush()
        return self._path.stat().st_size if self._path and self._path.exists() else 0

    def _write(self, found: Collection[Mapping[str, Any]]) -> None:
        if self._path and found:
            append_lines(self._path, found)

    def _entry(self, step: TrainingStep, domains: list[str]) -> LogEntry:
        terms = self._turns[step.iteration % len(self._turns)].outer
        known = [term.loss for term in terms]
        # A loss that occurs twice is named with where it is measured.
        names = [t.loss if known.count(t.loss) == 1 else f"{t.loss}, {t.on}" for t in terms]
        losses, weights = (_rounded(t.tolist()) for t in (step.losses, step.weights))
        by_term = dict(zip(names, losses, strict=True))
        by_part = dict(zip(sorted(learners(terms)), weights, strict=True))
        rate, seconds = self._training.rate_at(step.iteration), round(step.seconds, 6)
        return LogEntry(step.iteration, by_term, by_part, domains, rate, seconds)


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[float(f"{value:.7g}") for value in row] for row in rows]


def read_log(path: Path) -> Iterator[LogEntry]:
    """The iterations of a log, in their order."""
    damaged = 0
    for number, line in lines(path):
        if damaged:  # the last line alone may still be on its way to the disk
            raise FileError(path, "not a line of a run's log", damaged)
        try:
            found = json.loads(line)
            if "iteration" in found:
                yield LogEntry(**found)
        except (ValueError, TypeError, RecursionError):
            damaged = number
