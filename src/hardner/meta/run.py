"""Meta-training in a run folder, in as many sessions as it takes.

The folder holds ``experiment.json``; ``log.jsonl``, a line an iteration; ``state``; and ``model``,
the best on the source devel data so far. The log is cut back to where the state stands, so a run
that was killed at any moment and started again ends as if nothing had happened.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np
import torch

from hardner.config import Whole, make
from hardner.errors import FileError, HardnerError
from hardner.jobs import (
    LOG_FILE,
    MODEL_FOLDER,
    STATE_FOLDER,
    Diverged,
    ProgressCallback,
    RunFolder,
    RunProgress,
    SavedState,
    open_run_folder,
)
from hardner.meta.distributed import ALONE, Ranks
from hardner.meta.experiment import Experiment, read_experiment
from hardner.meta.inner import of_parts
from hardner.meta.log import TrainingLog
from hardner.meta.loop import devel_loss, drawing, initial_state, loop
from hardner.meta.network import build_network
from hardner.meta.source_data import load_source_data
from hardner.model.describe import save_model
from hardner.model.layers import Params, resolve_device
from hardner.vectors import ReadProgress

EXPERIMENT_FILE = "experiment.json"
_FREE = ("device", "data.root", "data.catalogue")
"""Keys in which a run that goes on may differ: the sentences themselves are compared."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run has come, beside its parameters."""

    iteration: Whole = 0  # that are done
    devel: float | None = None  # the last devel loss
    best: float | None = None
    best_at: Whole = 0
    waited: Whole = 0  # devel losses since the best
    finished: bool = False


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    on_progress: ProgressCallback = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    reading: ReadProgress | None = None,
    ranks: Ranks = ALONE,
) -> RunStatus:
    """Train to the end, or until told to stop, which leaves a state to go on from.

    The folder is new, or that of the same experiment; of the ranks, which share out the tasks of
    an iteration, the leading one alone reads and writes it. ``on_progress`` is called at the start,
    about twice a second, and after each devel loss; ``reading`` while word vectors are read.
    """
    path, table = Path(folder), experiment.table()
    if not ranks.leads:
        return _Run(experiment, RunFolder(path), on_progress, reading, ranks).go(stop)

    settings = (EXPERIMENT_FILE, table, lambda file: read_experiment(file).table())
    with open_run_folder(path, *settings, free=_FREE) as held:
        return _Run(experiment, held, on_progress, reading, ranks).go(stop)


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        on_progress: ProgressCallback,
        reading: ReadProgress | None,
        ranks: Ranks,
    ) -> None:
        self.experiment, self.folder, self.ranks = experiment, folder, ranks
        self.on_progress = on_progress
        self.device = resolve_device(experiment.device)
        self.source_data = load_source_data(experiment)
        method, shares = experiment.build_method(), self.source_data.shares(experiment.data.shares)
        self.method = replace(method, objective=replace(method.objective, shares=shares))
        self.training = experiment.training()
        with ranks.first():  # which keeps the word vectors it reads, for the others to find
            cache = folder.path.parent / "vectors"
            self.tagger, start = build_network(experiment, self.source_data, cache, reading)
            if self.tagger.label_encoder:
                texts = self.source_data.label_texts(self.tagger, self.device)
                self.tagger = replace(self.tagger, label_texts=texts)
        self.score = self._scorer()
        log = folder.path / LOG_FILE if ranks.leads else None
        self.log = TrainingLog(log, self.method, self.training)
        self.start_encoder = of_parts(start, {"encoder"})
        if self.tagger.label_encoder:
            labels, fresh = of_parts(start, {"labels"}), self.tagger.init(experiment.seed)
            # Where it was not trained before, there is nothing to stay near.
            self.start_encoder |= {n: p for n, p in labels.items() if not torch.equal(p, fresh[n])}
        params = {n: p.to(self.device).clone() for n, p in start.items()}
        self.progress = initial_state(params, self.method, self.training)
        self.status, self.fingerprint = RunStatus(), self.source_data.fingerprint()
        if ranks.leads:
            self._resume()
        if ranks.joined:
            self._follow()
        self.progress.iteration = self.saved = self.status.iteration

    def _scorer(self) -> Callable[[Params], float] | None:
        """The loss on episodes of source devel sentences, the same ones each time."""
        devel, shots = self.experiment.devel, self.experiment.train.shots
        if not devel.every:
            return None
        method, sources = self.method, self.source_data.devel
        if sources is None:
            raise HardnerError("devel.every: no source has devel sentences; set it to 0")
        mixed = replace(method, draw="shuffled") if method.draw == "in turn" else method
        tasks = self.experiment.tasks
        draw = drawing(mixed, sources, tasks, shots, seed=0)
        try:
            draws = [draw(i) for i in range(-(-devel.episodes // tasks))]
        except HardnerError as error:
            raise HardnerError(f"devel data: {error}") from None
        store = self.source_data.store(self.tagger, sources, self.device)
        return lambda params: devel_loss(self.tagger, method, params, store, draws, self.ranks)

    def _state(self, log: int) -> SavedState:
        """All that a later sitting needs; ``log`` says how many bytes of the log belong to it."""
        about = {"sentences": self.fingerprint, "log": log, "standing": asdict(self.status)}
        return SavedState(self.progress.params, self.progress.state, about)

    def _resume(self) -> None:
        """Go on from the state in the folder, if there is one."""
        saved = self.folder.load_state(self._state(0), self.device)
        if saved is None:
            self.log.cut(0)
            return
        path = self.folder.path
        if saved.about["sentences"] != self.fingerprint:
            raise FileError(path, "its corpora have changed since it began; choose another")
        self.log.cut(saved.about["log"])
        self.status = make(RunStatus, saved.about["standing"], f"{path}/{STATE_FOLDER}")
        self.progress = replace(self.progress, params=saved.params, state=saved.optimizer)

    def _follow(self) -> None:
        """Take the leading rank's state."""
        if self.ranks.told(self.fingerprint) != self.fingerprint:
            raise HardnerError(f"rank {self.ranks.rank}: its corpora are not the leading rank's")
        self.status = RunStatus(**json.loads(self.ranks.told(json.dumps(asdict(self.status)))))
        self.ranks.share(self.progress.params | self.progress.state)

    def go(self, stop: Callable[[], bool]) -> RunStatus:
        self._report()
        try:
            if not self.status.finished:
                self._iterate(stop)
        except Diverged as error:
            left = f"{STATE_FOLDER} holds iteration {self.saved}" if self.saved else "no state yet"
            hint = f"lower train.rate or inner.rate ({left})"
            raise FileError(self.folder.path, f"{error}; {hint}") from None
        return self.status

    def _iterate(self, stop: Callable[[], bool]) -> None:
        train, devel = self.experiment.train, self.experiment.devel
        sources = self.source_data.train
        store = self.source_data.store(self.tagger, sources, self.device)
        draw = drawing(
            self.method, sources, self.experiment.tasks, train.shots, self.experiment.seed
        )
        domains = np.repeat(sources.names, [len(s) for s in sources.sentences.values()])  # by row
        if not self.status.iteration:
            self._evaluate()
        how = (self.tagger, self.method, self.training)
        for step in loop(*how, store, draw, self.progress, self.ranks):
            done = step.iteration + 1
            self.status = replace(self.status, iteration=done)
            if self.log.add(step, domains[step.rows.query[:, 0]].tolist()):
                self._report()
            if done == train.iterations or (devel.every and done % devel.every == 0):
                self._evaluate()
            # Ranks must agree on this, or one would wait for the others for ever.
            halting = self.status.finished or self.ranks.any(stop())
            if self.ranks.leads and (halting or done % train.save == 0):
                self._save()
            if halting:
                return

    def _evaluate(self) -> None:
        """Compute the devel loss, keep the best parameters, and see whether to end."""
        self.log.flush()
        now, patience = self.status, self.experiment.devel.patience
        ending = now.iteration == self.experiment.train.iterations
        better, params = now.iteration > 0, self._interpolated()
        if self.score:
            value = self.score(params)
            if not isfinite(value):
                raise Diverged(f"the devel loss is not finite after {now.iteration} iterations")
            better = better and (now.best is None or value < now.best)
            waited = now.waited + (not better and now.iteration > 0)
            now = replace(now, devel=value, waited=0 if better else waited)
            now = replace(now, best=value, best_at=now.iteration) if better else now
            ending = ending or 0 < patience <= now.waited
            self.log.add_devel_loss(now.iteration, value, better)
        if better and self.ranks.leads:
            save_model(self.folder.path / MODEL_FOLDER, self.tagger, params)
        self.status = replace(now, finished=ending)
        self._report(milestone=self.score is not None)

    def _interpolated(self) -> Params:
        """The parameters, with the encoder's between their start and where they are now."""
        params, share = self.progress.params, self.experiment.train.weight_interpolation
        start = self.start_encoder if share < 1 else {}
        return params | {n: torch.lerp(p.to(params[n]), params[n], share) for n, p in start.items()}

    def _save(self) -> None:
        # The log first: a state must never know more of it than is on the disk.
        self.folder.save_state(self._state(self.log.size()))
        self.saved = self.status.iteration

    def _report(self, milestone: bool = False) -> None:
        now, total = self.status, self.training.iterations
        told = RunProgress("", now.iteration, total, self.log.loss, now.devel, milestone=milestone)
        self.on_progress(told)
