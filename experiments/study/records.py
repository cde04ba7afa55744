"""The files that curves.py writes: scores over a training, and task vectors, as JSON lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hardner.evaluate.results import checked_record, json_lines
from hardner.evaluate.score import Score

TASKS = {"tag": "NER", "mtcls": "mtCLS", "bcls": "bCLS", "mcls": "mCLS"}
"""Losses by the names of their tasks, token-level ones first."""
CURVES, VECTORS = "curves.jsonl", "task_space.jsonl"


@dataclass(frozen=True)
class CurvePoint:
    """The score of a task on a corpus's test data at some iteration of a training."""

    method: str
    encoder: str
    preset: str
    corpora: tuple[str, ...]
    """Trained on together."""
    tasks: tuple[str, ...]
    """Trained together, by the names in `TASKS`."""
    whole: bool
    """Whether these are all tasks of the method."""
    iteration: int
    of: int
    """Iterations of the whole training."""
    passes: float
    """Epochs so far."""
    corpus: str
    task: str
    tp: int
    fp: int
    fn: int
    seed: int
    config: str
    versions: Mapping[str, str]
    commit: str
    seconds: float
    """Training and scoring since the start."""

    @property
    def key(self) -> tuple[object, ...]:
        """Two points with the same key are the same measurement."""
        own = (self.config, self.seed, self.tasks, self.iteration)
        return (*own, self.corpus, self.task)

    @property
    def f1(self) -> float:
        """Strict F1 for NER; for a head, micro F1 over all classes but the first (none)."""
        return Score(self.tp, self.fp, self.fn).f1

    @property
    def last(self) -> bool:
        """Whether the training was over."""
        return self.iteration == self.of


@dataclass(frozen=True)
class TaskVector:
    """What a task asks of the encoder, after it was learnt alone."""

    corpus: str
    task: str
    encoder: str
    preset: str
    sentences: int
    """The Fisher information is a mean over these."""
    vector: tuple[float, ...]
    seed: int
    config: str
    versions: Mapping[str, str]
    commit: str

    @property
    def key(self) -> tuple[object, ...]:
        """Two vectors with the same key are the same measurement."""
        return self.config, self.seed, self.corpus, self.task


Record = TypeVar("Record", CurvePoint, TaskVector)


def read_records(path: str | Path, kind: type[Record]) -> list[Record]:
    """The records of a file, each once; none where there is no file."""
    if not Path(path).is_file():
        return []
    found = (checked_record(kind, line, path, number) for number, line in json_lines(path))
    return list({record.key: record for record in found}.values())
