"""How tasks do while they are learnt, alone and together, and what each asks of the encoder.

MT-BioNER's Figure 3 and the multi-granularity paper's Figures 4 to 6 are drawn from what is written
here: ``curves.jsonl``, the score of each task at some moments of a training, and
``task_space.jsonl``, a vector a task. A training that is there already is not done again.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hardner.corpora import Corpora
from hardner.episodes import distinct, random_numbers
from hardner.errors import HardnerError
from hardner.evaluate.curve_lines import Place, Point, append, mend, read
from hardner.evaluate.fisher import fisher, task_vector
from hardner.evaluate.provenance import commit, versions
from hardner.evaluate.results import record_config
from hardner.evaluate.watch import Watch
from hardner.meta.experiment import Experiment
from hardner.model.layers import Params

TASKS = {"tag": "NER", "mtcls": "mtCLS", "bcls": "bCLS", "mcls": "mCLS"}
"""Losses by the names of their tasks, token-level ones first."""
CURVES, SPACE = "curves.jsonl", "task_space.jsonl"


class Job(NamedTuple):
    """A training, and how it ended: the F1 by corpus and task, or None where it had been there."""

    tasks: tuple[str, ...]
    ended: Mapping[tuple[str, str], float] | None


def combined(losses: Sequence[str], pairs: bool) -> list[tuple[str, ...]]:
    """What to train: everything together and, for pairs, each loss alone and any two."""
    whole = tuple(losses)
    if not pairs:
        return [whole]
    if len(losses) < 2:
        raise HardnerError("there are no pairs of tasks in a method with a single one")
    return list(dict.fromkeys([whole, *((one,) for one in losses), *combinations(losses, 2)]))


@dataclass(frozen=True)
class Study:
    """What to find out about an experiment, and where to write it."""

    experiment: Experiment
    corpora: tuple[str, ...]
    """Trained on together, each with a decoder of its own."""
    root: Path
    out: Path
    points: int = 20
    """Moments of a training."""
    pairs: bool = False
    """Whether also to train each task alone and each pair, and to make the tasks' vectors."""
    sentences: int = 2000
    """For a task's vector, at most."""

    def jobs(self) -> list[tuple[str, ...]]:
        """The losses of each training."""
        outer = self.experiment.way().objective.outer
        if unknown := {term.loss for term in outer} - TASKS.keys():
            raise HardnerError(f"{self.experiment.method}: {min(unknown)} is no task to be scored")
        if self.pairs and len(self.corpora) > 1:
            raise HardnerError("pairs of tasks are compared on one corpus at a time")
        return combined([loss for loss in TASKS if loss in {t.loss for t in outer}], self.pairs)

    def run(self) -> Iterator[Job]:
        """Do what is missing; yields after each training, when its lines are on the disk."""
        jobs = self.jobs()
        table = self.experiment.table()
        del table["device"], table["data"]["root"], table["data"]["catalogue"], table["seed"]
        about = {"experiment": table, "corpora": list(self.corpora)}
        config = record_config(self.out, about)
        scored, placed = self._there(config)
        watch: Watch | None = None
        for losses in jobs:
            names = tuple(TASKS[loss] for loss in losses)
            mapped = not self.pairs or len(losses) > 1 or names[0] in placed
            if mapped and names in scored:
                yield Job(names, None)
                continue
            if watch is None:
                corpora = Corpora.under(self.root, self.experiment.data.catalogue)
                found = [corpora.load(name) for name in self.corpora]
                watch = Watch(self.experiment, found, self.out / "runs" / "vectors")
            points, params = self._trained(watch, losses, len(losses) == len(jobs[0]), config)
            if not mapped:
                append(self.out / SPACE, [self._place(watch, params, losses[0], config)])
            if names not in scored:
                append(self.out / CURVES, points)
            yield Job(names, {(p.corpus, p.task): p.f1 for p in points if p.last})

    def _there(self, config: str) -> tuple[set[tuple[str, ...]], set[str]]:
        """The tasks that were trained to the end, and those that have a vector."""
        for name in (CURVES, SPACE):
            mend(self.out / name)
        own = config, self.experiment.seed
        points, places = read(self.out / CURVES, Point), read(self.out / SPACE, Place)
        ended = {(p.tasks, p.corpus) for p in points if p.last and (p.config, p.seed) == own}
        scored = {tasks for tasks, _ in ended if all((tasks, c) in ended for c in self.corpora)}
        return scored, {p.task for p in places if (p.config, p.seed) == own}

    def _trained(
        self, watch: Watch, losses: Collection[str], whole: bool, config: str
    ) -> tuple[list[Point], Params]:
        e, began = self.experiment, time.perf_counter()
        points: list[Point] = []
        params: Params = {}
        for iteration, params in watch.train(losses, min(self.points, e.train.iterations)):
            for corpus, scores in watch.score(params, losses).items():
                for loss, score in scores.items():
                    points.append(
                        Point(
                            method=e.method,
                            encoder=e.encoder.kind,
                            preset=e.preset,
                            corpora=self.corpora,
                            tasks=tuple(TASKS[name] for name in losses),
                            whole=whole,
                            iteration=iteration,
                            of=e.train.iterations,
                            passes=round(watch.passes(iteration), 3),
                            corpus=corpus,
                            task=TASKS[loss],
                            **asdict(score),
                            seed=e.seed,
                            config=config,
                            versions=versions(),
                            commit=commit(),
                            seconds=round(time.perf_counter() - began, 1),
                        )
                    )
        return points, params

    def _place(self, watch: Watch, params: Params, loss: str, config: str) -> Place:
        """The vector of a task that was learnt alone."""
        (corpus,) = self.corpora
        have = len(watch.store.tags.widths) - 1
        count = min(self.sentences, have)
        rows = np.array(distinct(have, count, random_numbers("fisher", corpus)), np.int64)
        found = task_vector(fisher(watch.tagger, params, watch.store, rows, loss))
        e = self.experiment
        vector = tuple(float(f"{value:.3g}") for value in found.tolist())
        return Place(
            corpus,
            TASKS[loss],
            e.encoder.kind,
            e.preset,
            count,
            vector,
            e.seed,
            config,
            versions(),
            commit(),
        )
