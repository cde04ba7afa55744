"""Which tasks of a run were hard: HGDA's Table 1 and MetaBioNER's Table 4, from any run.

The log holds the losses, and the sentences are drawn again, as they follow from the iteration.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.jobs import LOG_FILE, STATE_FOLDER
from hardner.meta.experiment import Experiment, read_experiment
from hardner.meta.log import LogEntry, read_log
from hardner.meta.loop import draw_episodes
from hardner.meta.outer import hardness_weights
from hardner.meta.run import EXPERIMENT_FILE
from hardner.meta.source_data import load_source_data
from hardner.types import Sentence

POINTS = 40  # of a curve over a whole run


@dataclass(frozen=True)
class TaskHardness:
    """A task, and its share of the hardness of its iteration's tasks."""

    iteration: int
    domain: str
    weight: float
    sentences: tuple[Sentence, ...]  # of its query


class HardnessCurve(NamedTuple):
    """The mean weight of a domain's tasks, over stretches of a run."""

    domain: str
    iterations: tuple[float, ...]  # the middle of each stretch in which the domain was drawn
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Hardness:
    """What the log of a run says about hardness."""

    experiment: Experiment
    used: bool  # whether the run weighed its tasks by it
    weights: tuple[tuple[float, ...], ...]  # of the tasks of each iteration: Eq. 2, encoder
    domains: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, folder: str | Path) -> "Hardness":
        file, log = Path(folder, EXPERIMENT_FILE), Path(folder, LOG_FILE)
        if not file.is_file():
            raise FileError(folder, f"no run: there is no {EXPERIMENT_FILE} in it")
        experiment = read_experiment(file)
        used = experiment.build_method().objective.weighting == "hardness"
        found = list(read_log(log))
        if not found:
            raise FileError(log, "no iteration is logged yet")
        tasks = experiment.tasks
        if any((e.iteration, len(e.domains)) != (i, tasks) for i, e in enumerate(found)):
            raise FileError(log, "is not the whole log of this experiment")
        weights = tuple(_weights(entry, used) for entry in found)
        return cls(experiment, used, weights, tuple(tuple(e.domains) for e in found))

    def curves(self) -> tuple[HardnessCurve, ...]:
        """The mean weight of each domain over the run."""
        count = len(self.weights)
        edges = np.linspace(0, count, min(POINTS, count) + 1).astype(int)
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for start, end in pairwise(edges.tolist()):
            held: dict[str, list[float]] = defaultdict(list)
            drawn, weights = (chain(*part[start:end]) for part in (self.domains, self.weights))
            for domain, weight in zip(drawn, weights, strict=True):
                held[domain].append(weight)
            for domain, values in held.items():
                points[domain].append(((start + end - 1) / 2, sum(values) / len(values)))
        return tuple(HardnessCurve(d, *zip(*points[d], strict=True)) for d in sorted(points))


def _weights(entry: LogEntry, used: bool) -> tuple[float, ...]:
    if used and "encoder" in entry.weights:
        return tuple(entry.weights["encoder"])
    losses = next(iter(entry.losses.values()))  # as Eq. 2 would have weighed the first term
    return tuple(hardness_weights(torch.tensor(losses, dtype=torch.float64)).tolist())


def hardest_tasks(
    folder: str | Path, found: Hardness, iterations: Collection[int]
) -> dict[int, list[TaskHardness]]:
    """The tasks of some iterations with their sentences, hardest first, drawn anew."""
    last = len(found.weights) - 1
    if wrong := [iteration for iteration in iterations if not 0 <= iteration <= last]:
        raise HardnerError(f"iteration {wrong[0]} is not in the log, which has 0 to {last}")
    e, state = found.experiment, Path(folder) / STATE_FOLDER
    source_data = load_source_data(e)
    if state.is_dir():
        known = checkpoint.load_checkpoint(state).config.get("sentences")
        if known != source_data.fingerprint():
            raise FileError(folder, "its corpora have changed, so its tasks cannot be drawn again")
    sources = source_data.train
    draw = draw_episodes(e.build_method(), sources, e.tasks, e.train.shots, e.seed)

    def tasks(iteration: int) -> Iterator[TaskHardness]:
        queries = [episode.query for episode in draw(iteration)]
        for query, weight in zip(queries, found.weights[iteration], strict=True):
            yield TaskHardness(iteration, query.domain, weight, sources.read(query))

    return {i: sorted(tasks(i), key=lambda task: -task.weight) for i in iterations}


def bracketed(sentence: Sentence) -> str:
    """The words of a sentence with its mentions in brackets, as the papers print them."""
    words = list(sentence.tokens)
    for span in sentence.spans:
        words[span.start] = "[" + words[span.start]
        words[span.end - 1] += "]"
    return " ".join(words)
