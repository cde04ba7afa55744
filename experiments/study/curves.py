"""python experiments/study/curves.py EXPERIMENT... [--pairs] [--out FOLDER]

F1 over a training: trains the tasks of a method together and, with --pairs, alone and two by two,
and scores them on test data on the way (MT-BioNER's Figure 3; the multi-granularity paper's Figures
4 to 6). Writes ``curves.jsonl``, a line for each score; ``task_space.jsonl``, a line for each task
vector; and ``task_relations.json``, which task helps which. plot.py draws them.
"""

import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from fisher import fisher_diagonal, unit_means
from records import CURVES, TASKS, VECTORS, CurvePoint, TaskVector, read_records
from relations import write_relations
from scored_training import ScoredTraining

from hardner.corpora import Corpora
from hardner.episodes import distinct, random_numbers
from hardner.errors import HardnerError
from hardner.evaluate.results import (
    append_lines,
    code_commit,
    cut_partial_line,
    record_config,
    software_versions,
)
from hardner.meta.experiment import Experiment, load_experiment
from hardner.model.layers import Params


class StudiedTraining(NamedTuple):
    """A training that is on the disk now."""

    tasks: tuple[str, ...]
    f1: Mapping[tuple[str, str], float] | None
    """At its end, by corpus and task; None if it was on the disk before."""


def loss_combinations(losses: Sequence[str], pairs: bool) -> list[tuple[str, ...]]:
    """What to train: everything together and, for pairs, each loss alone and any two."""
    whole = tuple(losses)
    if not pairs:
        return [whole]
    if len(losses) < 2:
        raise HardnerError("there are no pairs of tasks in a method with a single one")
    return list(dict.fromkeys([whole, *((one,) for one in losses), *combinations(losses, 2)]))


@dataclass(frozen=True)
class Study:
    """What to measure of an experiment, and where to write it."""

    experiment: Experiment
    corpora: tuple[str, ...]
    """Trained on together, each with a decoder of its own."""
    root: Path
    out: Path
    points: int = 20
    """Scores over a training."""
    pairs: bool = False
    """Whether also to train each task alone and each pair, and to compute task vectors."""
    sentences: int = 2000
    """For a task vector, at most."""

    def trainings(self) -> list[tuple[str, ...]]:
        """The losses of each training."""
        outer = self.experiment.build_method().objective.outer
        if unknown := {term.loss for term in outer} - TASKS.keys():
            raise HardnerError(f"{self.experiment.method}: {min(unknown)} is no task to be scored")
        if self.pairs and len(self.corpora) > 1:
            raise HardnerError("pairs of tasks are compared on one corpus at a time")
        return loss_combinations([x for x in TASKS if x in {t.loss for t in outer}], self.pairs)

    def run(self) -> Iterator[StudiedTraining]:
        """Do what is missing; yields after each training, when its lines are on the disk."""
        trainings = self.trainings()
        table = self.experiment.table()
        del table["device"], table["data"]["root"], table["data"]["catalogue"], table["seed"]
        config = record_config(self.out, {"experiment": table, "corpora": list(self.corpora)})
        scored, with_vector = self._done(config)
        training: ScoredTraining | None = None
        for losses in trainings:
            names = tuple(TASKS[loss] for loss in losses)
            needs_vector = self.pairs and len(losses) == 1 and names[0] not in with_vector
            if names in scored and not needs_vector:
                yield StudiedTraining(names, None)
                continue
            if training is None:
                corpora = Corpora.under(self.root, self.experiment.data.catalogue)
                found = [corpora.load(name) for name in self.corpora]
                training = ScoredTraining(self.experiment, found, self.out / "runs" / "vectors")
            whole = len(losses) == len(trainings[0])
            points, params = self._train(training, losses, whole, config)
            if needs_vector:
                vector = self._vector(training, params, losses[0], config)
                append_lines(self.out / VECTORS, [asdict(vector)])
            if names not in scored:
                append_lines(self.out / CURVES, map(asdict, points))
            yield StudiedTraining(names, {(p.corpus, p.task): p.f1 for p in points if p.last})

    def _done(self, config: str) -> tuple[set[tuple[str, ...]], set[str]]:
        """The tasks that were trained to the end, and those that have a vector."""
        for name in (CURVES, VECTORS):
            cut_partial_line(self.out / name)
        own = config, self.experiment.seed
        points = read_records(self.out / CURVES, CurvePoint)
        ended = {(p.tasks, p.corpus) for p in points if p.last and (p.config, p.seed) == own}
        scored = {tasks for tasks, _ in ended if all((tasks, c) in ended for c in self.corpora)}
        vectors = read_records(self.out / VECTORS, TaskVector)
        return scored, {v.task for v in vectors if (v.config, v.seed) == own}

    def _train(
        self, training: ScoredTraining, losses: Collection[str], whole: bool, config: str
    ) -> tuple[list[CurvePoint], Params]:
        e, began = self.experiment, time.perf_counter()
        points: list[CurvePoint] = []
        params: Params = {}
        for iteration, params in training.train(losses, min(self.points, e.train.iterations)):
            for corpus, scores in training.score(params, losses).items():
                for loss, score in scores.items():
                    points.append(
                        CurvePoint(
                            method=e.method,
                            encoder=e.encoder.kind,
                            preset=e.preset,
                            corpora=self.corpora,
                            tasks=tuple(TASKS[name] for name in losses),
                            whole=whole,
                            iteration=iteration,
                            of=e.train.iterations,
                            passes=round(training.passes(iteration), 3),
                            corpus=corpus,
                            task=TASKS[loss],
                            **asdict(score),
                            seed=e.seed,
                            config=config,
                            versions=software_versions(),
                            commit=code_commit(),
                            seconds=round(time.perf_counter() - began, 1),
                        )
                    )
        return points, params

    def _vector(
        self, training: ScoredTraining, params: Params, loss: str, config: str
    ) -> TaskVector:
        """The vector of a task that was learnt alone."""
        (corpus,) = self.corpora
        there = len(training.store.tags.widths) - 1
        count = min(self.sentences, there)
        rows = np.array(distinct(there, count, random_numbers("fisher", corpus)), np.int64)
        found = unit_means(fisher_diagonal(training.tagger, params, training.store, rows, loss))
        return TaskVector(
            corpus=corpus,
            task=TASKS[loss],
            encoder=self.experiment.encoder.kind,
            preset=self.experiment.preset,
            sentences=count,
            vector=tuple(float(f"{value:.3g}") for value in found.tolist()),
            seed=self.experiment.seed,
            config=config,
            versions=software_versions(),
            commit=code_commit(),
        )


def curves(
    files: Annotated[list[Path], typer.Argument(metavar="EXPERIMENT...")],
    corpora: Annotated[
        str, typer.Option(help="Corpora to train on, comma-separated; default: the experiment's.")
    ] = "",
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs", help="Also train each task alone and any two, and compute task vectors."
        ),
    ] = False,
    points: Annotated[int, typer.Option(min=1, help="Scores over a training.")] = 20,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Of a training; by default the experiment's.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeat everything with so many seeds.")] = 1,
    sentences: Annotated[
        int, typer.Option(min=1, help="For a task vector, at most so many sentences.")
    ] = 2000,
    root: Annotated[
        Path | None, typer.Option(help="The folder that holds the corpora's folders.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for results.")] = Path("results"),
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
) -> None:
    """Train on the train and devel data of corpora, and score their test data on the way.

    What is in the results' folder already is not measured again.

    Examples:

        python experiments/study/curves.py multigranularity/ncbi-disease --pairs
        python experiments/study/curves.py mtbioner/four mtbioner/four-in-turn
    """
    overrides: dict[str, object] = {} if device == "auto" else {"device": device}
    overrides |= {"train": {"iterations": iterations}} if iterations else {}
    studies = []
    for path in files:
        experiment = load_experiment(path, overrides)
        names = tuple(corpora.split(",")) if corpora else experiment.data.corpora
        if not names:
            raise HardnerError(f"{path} names no corpora: give --corpora")
        where = root or Path(experiment.data.root)
        for seed in range(experiment.seed, experiment.seed + seeds):
            own = replace(experiment, seed=seed)
            studies.append(Study(own, names, where, out, points, pairs, sentences))
    for study in studies:
        study.trainings()  # refuses what cannot be studied, before anything is trained
    for study in studies:
        name = f"{study.experiment.method}, {' + '.join(study.corpora)}"
        for training in study.run():
            f1 = "measured before"
            if training.f1 is not None:
                f1 = ", ".join(f"{c} {t} {value:.3f}" for (c, t), value in training.f1.items())
            typer.echo(f"{name}, {' + '.join(training.tasks)}: {f1}", err=True)
    if pairs:
        write_relations(
            out / "task_relations.json",
            read_records(out / CURVES, CurvePoint),
            read_records(out / VECTORS, TaskVector),
        )
    plot = Path(__file__).with_name("plot.py")
    typer.echo(f"{out / CURVES}; next: python {plot} curves {out / CURVES}", err=True)


if __name__ == "__main__":
    try:
        typer.run(curves)
    except HardnerError as error:
        sys.exit(f"curves.py: {error}")
