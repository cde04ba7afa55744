"""The log of a run: one JSON line an iteration, written in blocks so that a GPU is not held up."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

from hardner.errors import FileError, HardnerError
from hardner.meta.loop import Training, TrainingStep
from hardner.meta.methods import Method
from hardner.meta.terms import Term, learners

_FLUSH_SECONDS = 0.5
"""Seconds between two blocks."""


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


class Diverged(HardnerError):
    """A loss that is no number any more."""


class RunLog:
    """Collects steps, and writes them when asked or when it is time."""

    def __init__(self, file: BinaryIO, method: Method, training: Training) -> None:
        """Args: ``file`` stands where the next line belongs."""
        self.loss = float("nan")
        """The mean tagging loss of the last block."""
        self._file, self._method, self._training = file, method, training
        self._waiting: list[tuple[TrainingStep, list[str]]] = []
        self._clock = time.monotonic()

    def add(self, step: TrainingStep, domains: list[str]) -> bool:
        """Keep a step; says whether a block was written."""
        self._waiting.append((step, domains))
        if time.monotonic() - self._clock < _FLUSH_SECONDS:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Write what was kept; a loss that is no number is an error, and not written."""
        entries = [self._entry(step, domains) for step, domains in self._waiting]
        self._waiting = []
        self._clock = time.monotonic()
        for entry in entries:
            values = [v for found in entry.losses.values() for v in found]
            if not all(map(isfinite, values)):
                raise Diverged(f"the loss is no number any more at iteration {entry.iteration}")
            self._write(vars(entry))
        tags = [v for e in entries for n, f in e.losses.items() if n.startswith("tag") for v in f]
        self.loss = sum(tags) / len(tags) if tags else self.loss
        self._file.flush()

    def scored(self, iteration: int, value: float, best: bool) -> None:
        """Write the devel loss after so many iterations."""
        self._write({"after": iteration, "devel_loss": value, "best": best})
        self._file.flush()

    def size(self) -> int:
        """Bytes of the log, all of them on the disk."""
        self.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")

    def _entry(self, step: TrainingStep, domains: list[str]) -> LogEntry:
        terms = terms_at(self._method, step.iteration)
        parts = sorted(learners(terms))
        losses, weights = (_rounded(t.tolist()) for t in (step.losses, step.weights))
        return LogEntry(
            step.iteration,
            dict(zip(term_names(terms), losses, strict=True)),
            dict(zip(parts, weights, strict=True)),
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
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            if "iteration" in found:
                yield LogEntry(**found)
        except (ValueError, TypeError):
            if number < len(lines):  # a last line may still be on its way to the disk
                raise FileError(path, "not a line of a run's log", number) from None
