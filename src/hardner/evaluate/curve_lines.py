"""What is known of tasks as they are learnt, as JSON lines: scores over time, task vectors."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

from hardner.errors import FileError
from hardner.evaluate.score import Score
from hardner.files import lines


@dataclass(frozen=True)
class Point:
    """The score of a task on a corpus's test data at a moment of a training."""

    method: str
    encoder: str
    preset: str
    corpora: tuple[str, ...]
    """That were trained on."""
    tasks: tuple[str, ...]
    """That were trained, as `TASKS` names them."""
    whole: bool
    """Whether these are all tasks of the method."""
    iteration: int
    of: int
    """How many iterations the training had in all."""
    passes: float
    """Over the sentences, by then."""
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
    """Of training and scoring, since the start."""

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two the same."""
        own = (self.config, self.seed, self.tasks, self.iteration)
        return (*own, self.corpus, self.task)

    @property
    def f1(self) -> float:
        """Strict for NER; of a head, micro over all classes but none."""
        return Score(self.tp, self.fp, self.fn).f1

    @property
    def last(self) -> bool:
        """Whether the training was over."""
        return self.iteration == self.of


@dataclass(frozen=True)
class Place:
    """A task's vector, after the task was learnt alone."""

    corpus: str
    task: str
    encoder: str
    preset: str
    sentences: int
    """That the Fisher information is a mean over."""
    vector: tuple[float, ...]
    seed: int
    config: str
    versions: Mapping[str, str]
    commit: str

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two the same."""
        return self.config, self.seed, self.corpus, self.task


Line = TypeVar("Line", Point, Place)


def read(path: str | Path, kind: type[Line]) -> list[Line]:
    """The lines of a file, each once; none where there is no file."""
    if not Path(path).is_file():
        return []
    names = {field.name for field in fields(kind)}
    made: Callable[..., Line] = kind
    found: dict[tuple[object, ...], Line] = {}
    for number, text in lines(path):
        try:
            record = json.loads(text)
        except ValueError:
            raise FileError(path, "not a line of JSON", number) from None
        if not isinstance(record, dict) or not names <= record.keys():
            raise FileError(path, "not what `hardner curves` writes", number)
        values = {name: record[name] for name in names}
        line = made(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})
        found[line.key] = line
    return list(found.values())


def append(path: str | Path, found: Sequence[Point | Place]) -> None:
    """Add lines in one write, and see them to the disk."""
    text = "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in found)
    try:
        with Path(path).open("ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def mend(path: str | Path) -> None:
    """Cut off what a killed writer left of a line."""
    if Path(path).is_file() and (text := Path(path).read_bytes()) and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)
