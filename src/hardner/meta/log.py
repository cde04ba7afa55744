"""The log of meta-training: one JSON line an iteration, and one for each devel loss."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

from hardner.errors import FileError
from hardner.files import lines
from hardner.jobs.progress import SECONDS
from hardner.jobs.run_folder import Diverged
from hardner.meta.loop import Training, TrainingStep
from hardner.meta.methods import Method
from hardner.meta.terms import Term, learners


@dataclass(frozen=True)
class LogEntry:
    """An iteration as the log tells it; lists have a number a task."""

    iteration: int
    losses: dict[str, list[float]]
    """By outer term."""
    weights: dict[str, list[float]]
    """By part of the network, summing to 1."""
    domains: list[str]
    rate: float
    seconds: float


class TrainingLog:
    """Appends iterations to a file, in blocks: to look at a loss is to wait for the GPU."""

    def __init__(self, file: BinaryIO, method: Method, training: Training) -> None:
        self.loss: float | None = None
        """Mean tagging loss of the last block."""
        self._file, self._method, self._training = file, method, training
        self._waiting: list[tuple[TrainingStep, list[str]]] = []
        self._clock = time.monotonic()

    def cut(self, size: int) -> None:
        """Drop what was written after a state was saved."""
        self._file.truncate(size)

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
        for entry in entries:
            if not all(isfinite(v) for found in entry.losses.values() for v in found):
                raise Diverged(f"the loss is not finite at iteration {entry.iteration}")
            self._write(vars(entry))
        tags = [v for e in entries for n, f in e.losses.items() if n.startswith("tag") for v in f]
        self.loss = sum(tags) / len(tags) if tags else self.loss
        self._file.flush()

    def add_devel_loss(self, iterations: int, loss: float, best: bool) -> None:
        """Write the devel loss after so many iterations."""
        self._write({"after": iterations, "devel_loss": loss, "best": best})
        self._file.flush()

    def size(self) -> int:
        """Bytes of the log, once all of them are on the disk."""
        self.flush()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")

    def _entry(self, step: TrainingStep, domains: list[str]) -> LogEntry:
        terms = terms_at(self._method, step.iteration)
        losses, weights = (_rounded(t.tolist()) for t in (step.losses, step.weights))
        return LogEntry(
            step.iteration,
            dict(zip(term_names(terms), losses, strict=True)),
            dict(zip(sorted(learners(terms)), weights, strict=True)),
            domains,
            self._training.rate_at(step.iteration),
            round(step.seconds, 6),
        )


def terms_at(method: Method, iteration: int) -> tuple[Term, ...]:
    """The outer terms of an iteration: all, or the one whose turn it is."""
    outer = method.objective.outer
    return (outer[iteration % len(outer)],) if method.alternate else outer


def term_names(terms: Sequence[Term]) -> list[str]:
    """The terms' losses, with where they are measured if a loss occurs twice."""
    losses = [term.loss for term in terms]
    return [t.loss if losses.count(t.loss) == 1 else f"{t.loss}, {t.on}" for t in terms]


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
        except (ValueError, TypeError):
            damaged = number
