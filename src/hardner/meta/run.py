"""A run: an experiment in a folder, from wherever it stands there to its end.

The folder holds ``experiment.json``; ``log.jsonl``, a line an iteration; ``state``, all that is
needed to go on; and ``model``, the best on the source devel data so far. Every one of them is
replaced whole, and the log is cut back to where the state stands, so that a run that was killed at
any moment and started again ends as if nothing had happened.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.jobs.device import resolve_device
from hardner.meta.distributed import ALONE, Ranks
from hardner.meta.experiment import Experiment
from hardner.meta.folder import MODEL, STATE, claim, held_log
from hardner.meta.log import Diverged, RunLog
from hardner.meta.loop import EpisodeRows, TrainingState, devel_loss, drawing, initial_state, loop
from hardner.meta.network import Reading, build_network
from hardner.meta.source_data import SourceData, load_source_data
from hardner.model.describe import save_model
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger


@dataclass(frozen=True)
class RunStatus:
    """How far a run has come, beside its parameters."""

    iteration: int = 0
    """How many are done."""
    devel: float | None = None
    """The last devel loss."""
    best: float | None = None
    best_at: int = 0
    waited: int = 0
    """Scorings since the best."""
    finished: bool = False


@dataclass(frozen=True)
class TrainingProgress:
    """What a listener is told now and then."""

    standing: RunStatus
    loss: float
    """The mean tagging loss of the last block of iterations."""
    scored: bool = False
    """Whether the devel loss is new."""


TrainingCallback = Callable[[TrainingProgress], None]


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    on_progress: TrainingCallback = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    reading: Reading | None = None,
    ranks: Ranks = ALONE,
) -> RunStatus:
    """Train to the end, or until told to stop, which leaves a state to go on from.

    Args:
        experiment: What to do.
        folder: New, or that of the same experiment.
        heard: Called at the start, about twice a second, and after each scoring.
        stop: Asked after each iteration.
        reading: Called now and then while word vectors are read.
        ranks: Among whom the tasks of an iteration are shared out; the leading one alone reads
            and writes the folder.
    """
    folder = Path(folder)
    if ranks.leads:
        claim(folder, experiment)
    with held_log(folder) if ranks.leads else Path(os.devnull).open("wb") as file:
        return _Run(experiment, folder, file, on_progress, reading, ranks).go(stop)


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        file: BinaryIO,
        on_progress: TrainingCallback,
        reading: Reading | None,
        ranks: Ranks,
    ) -> None:
        self.experiment, self.folder, self.on_progress, self.ranks = (
            experiment,
            folder,
            on_progress,
            ranks,
        )
        self.device = resolve_device(experiment.device)
        self.source_data = load_source_data(experiment)
        self.fingerprint = self.source_data.fingerprint()
        way, shares = experiment.way(), self.source_data.shares(experiment.data.shares)
        self.method = replace(way, objective=replace(way.objective, shares=shares))
        self.training = experiment.training()
        with ranks.first():
            cache = folder.parent / "vectors"
            self.tagger, start = build_network(experiment, self.source_data, cache, reading)
        self.score = _scorer(experiment, self.source_data, self.tagger, self.device, ranks)
        self.log = RunLog(file, self.method, self.training)
        self.standing, self.progress = RunStatus(), TrainingState({}, {})
        self.began = {n: p for n, p in start.items() if part_of(n) == "encoder"}
        self._begin(start, file)
        if ranks.joined:
            self._follow()
        self.saved = self.standing.iteration

    def _begin(self, start: Params, file: BinaryIO) -> None:
        """From the state in the folder, if there is one, else from the very beginning."""
        if not (self.ranks.leads and (self.folder / STATE).is_dir()):
            if self.ranks.leads:
                file.truncate(0)
            params = {n: p.to(self.device).clone() for n, p in start.items()}
            self.progress = initial_state(params, self.method, self.training)
            return
        saved = checkpoint.load_checkpoint(self.folder / STATE)
        if saved.config["sentences"] != self.fingerprint:
            raise FileError(self.folder, "its corpora have changed since it began; choose another")
        file.truncate(saved.config["log"])
        file.seek(saved.config["log"])
        self.standing = RunStatus(**saved.config["standing"])
        kinds: dict[str, Params] = {"params": {}, "state": {}}
        for name, tensor in saved.tensors.items():
            kind, _, own = name.partition(".")
            kinds[kind][own] = tensor.to(self.device)
        self.progress = TrainingState(kinds["params"], kinds["state"], self.standing.iteration)

    def _follow(self) -> None:
        """Stand where the leading rank stands."""
        if self.ranks.told(self.fingerprint) != self.fingerprint:
            raise HardnerError(f"rank {self.ranks.rank}: its corpora are not the leading rank's")
        standing = self.ranks.told(json.dumps(asdict(self.standing)))
        self.standing = RunStatus(**json.loads(standing))
        self.ranks.share(self.progress.params | self.progress.state)
        self.progress.iteration = self.standing.iteration

    def go(self, stop: Callable[[], bool]) -> RunStatus:
        """Iterate to the end."""
        self._tell()
        try:
            if not self.standing.finished:
                self._iterate(stop)
        except Diverged as error:
            left = (
                f"{STATE} holds iteration {self.saved}" if self.saved else "there is no state yet"
            )
            advice = "lower train.rate or inner.rate"
            raise FileError(self.folder, f"{error}; {advice} ({left})") from None
        return self.standing

    def _iterate(self, stop: Callable[[], bool]) -> None:
        train, devel = self.experiment.train, self.experiment.devel
        sources = self.source_data.train
        store = self.source_data.store(self.tagger, sources, self.device)
        rows_of = drawing(self.method, sources, train.tasks, train.shots, self.experiment.seed)
        names = np.repeat(sources.names, [len(s) for s in sources.sentences.values()])
        domains: dict[int, list[str]] = {}

        def draw(iteration: int) -> EpisodeRows:
            rows = rows_of(iteration)
            domains[iteration] = names[rows.query[:, 0]].tolist()
            return rows

        if not self.standing.iteration:
            self._judge()
        way = (self.tagger, self.method, self.training)
        for step in loop(*way, store, draw, self.progress, self.ranks):
            done = step.iteration + 1
            self.standing = replace(self.standing, iteration=done)
            if self.log.add(step, domains.pop(step.iteration)):
                self._tell()
            if done == train.iterations or (devel.every and done % devel.every == 0):
                self._judge()
            halting = self.standing.finished or self.ranks.any(stop())
            if self.ranks.leads and (halting or done % train.save == 0):
                self._save()
            if halting:
                return

    def _judge(self) -> None:
        """Score the devel data, keep the best parameters, and see whether to end."""
        self.log.flush()
        now, patience = self.standing, self.experiment.devel.patience
        ending = now.iteration == self.experiment.train.iterations
        better, kept = now.iteration > 0, self._blended()
        if self.score:
            value = self.score(kept)
            if not isfinite(value):
                raise Diverged(f"the devel loss is no number after {now.iteration} iterations")
            better = better and (now.best is None or value < now.best)
            waited = now.waited + (not better and now.iteration > 0)
            now = replace(now, devel=value, waited=0 if better else waited)
            now = replace(now, best=value, best_at=now.iteration) if better else now
            ending = ending or 0 < patience <= now.waited
            self.log.scored(now.iteration, value, better)
        if better and self.ranks.leads:
            save_model(self.folder / MODEL, self.tagger, kept)
        self.standing = replace(now, finished=ending)
        self._tell(scored=True)

    def _blended(self) -> Params:
        """The parameters, their encoder mixed with the one that it began as."""
        params, share = self.progress.params, self.experiment.train.weight_interpolation
        if share == 1:
            return params
        return params | {
            n: torch.lerp(p.to(params[n]), params[n], share) for n, p in self.began.items()
        }

    def _save(self) -> None:
        """Leave a state to go on from, unless it is of no use."""
        size = self.log.size()
        params, state = self.progress.params, self.progress.state
        tensors = {f"params.{n}": p for n, p in params.items()}
        tensors |= {f"state.{n}": p for n, p in state.items()}
        if not all(bool(t.isfinite().all()) for t in tensors.values()):
            raise Diverged(f"a parameter is no number after {self.standing.iteration} iterations")
        about = {"sentences": self.fingerprint, "log": size, "standing": asdict(self.standing)}
        checkpoint.save_checkpoint(self.folder / STATE, tensors, about)
        self.saved = self.standing.iteration

    def _tell(self, scored: bool = False) -> None:
        self.on_progress(
            TrainingProgress(self.standing, self.log.loss, scored and self.score is not None)
        )


def _scorer(
    experiment: Experiment, source_data: SourceData, tagger: Tagger, device: str, ranks: Ranks
) -> Callable[[Params], float] | None:
    """The loss on episodes of source devel sentences, the same ones each time."""
    if not experiment.devel.every:
        return None
    if source_data.devel is None:
        raise HardnerError("devel.every: no source has devel sentences; set it to 0")
    method, train = experiment.way(), experiment.train
    mixed = replace(method, draw="shuffled") if method.draw == "in turn" else method
    draw = drawing(mixed, source_data.devel, train.tasks, train.shots, seed=0)
    try:
        draws = [draw(i) for i in range(-(-experiment.devel.episodes // train.tasks))]
    except HardnerError as error:
        raise HardnerError(f"devel data: {error}") from None
    store = source_data.store(tagger, source_data.devel, device)
    return lambda params: devel_loss(tagger, method, params, store, draws, ranks)
