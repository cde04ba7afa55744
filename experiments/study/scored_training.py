"""A training that stops at some iterations for its tasks to be scored on test data."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch, Store
from hardner.episodes import Sources
from hardner.errors import HardnerError
from hardner.evaluate.score import ErrorCounts, Score, Scorer
from hardner.meta.experiment import Experiment
from hardner.meta.loop import drawing, initial_state, loop
from hardner.meta.methods import Method
from hardner.meta.network import build_network
from hardner.meta.source_data import SourceData
from hardner.model.heads import sentence_labels
from hardner.model.layers import SCORING, Params, autocast, mask_of, resolve_device, scoped
from hardner.model.tagger import Tagger
from hardner.tag.predictor import Predictor
from hardner.types import Corpus

WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 18}
"""Words that are encoded at once, padding counted."""


class Snapshot(NamedTuple):
    """The parameters after some iterations."""

    iteration: int
    """Iterations done."""
    params: Params
    """Overwritten when the training goes on."""


@dataclass(frozen=True)
class ScoredTraining:
    """An experiment on the train and devel sentences of corpora, scored on their test sentences."""

    experiment: Experiment
    corpora: Sequence[Corpus]
    cache: Path | None = None
    """A folder to cache word vectors in."""

    @cached_property
    def _source_data(self) -> SourceData:
        return SourceData(Sources.of({c.name: (*c.train, *c.devel) for c in self.corpora}), None)

    @cached_property
    def _network(self) -> tuple[Tagger, Params]:
        tagger, start = build_network(self.experiment, self._source_data, self.cache)
        return tagger, {name: value.to(self.device) for name, value in start.items()}

    @cached_property
    def device(self) -> str:
        """The device to train on."""
        return resolve_device(self.experiment.device)

    @property
    def tagger(self) -> Tagger:
        """The network."""
        return self._network[0]

    @cached_property
    def store(self) -> Store:
        """The training sentences."""
        return self._source_data.store(self.tagger, self._source_data.train, self.device)

    @cached_property
    def _test_sets(self) -> dict[str, tuple[Scorer, Store]]:
        places = {name: place for place, name in enumerate(self._source_data.names)}
        made = {}
        for corpus in self.corpora:
            place = places[corpus.name]
            store = self.tagger.store(corpus.test, [place] * len(corpus.test), self.device)
            made[corpus.name] = Scorer(corpus.test), store
        return made

    def passes(self, iteration: int) -> float:
        """Epochs after so many iterations."""
        size, tasks = self.experiment.train.shots, self.experiment.train.tasks
        batches = sum(-(-len(s) // size) for s in self._source_data.train.sentences.values())
        return iteration * tasks / batches

    def train(self, losses: Collection[str], points: int) -> Iterator[Snapshot]:
        """Train by some of the method's losses alone, from the same initial parameters each time.

        Args:
            losses: The losses to train by.
            points: Snapshots to yield, at equal distances; the last is the end.
        """
        e = self.experiment
        method, training = restricted(e.build_method(), losses), e.training()
        shares = self._source_data.shares(e.data.shares)
        method = replace(method, objective=replace(method.objective, shares=shares))
        start = {name: value.clone() for name, value in self._network[1].items()}
        progress = initial_state(start, method, training)
        draw = drawing(method, self._source_data.train, e.train.tasks, e.train.shots, e.seed)
        seen = {-(-training.iterations * (i + 1) // points) for i in range(points)}
        for step in loop(self.tagger, method, training, self.store, draw, progress):
            done = step.iteration + 1
            if done in seen:
                if not bool(step.losses.isfinite().all()):
                    raise HardnerError(f"the loss is no number after {done}; lower train.rate")
                yield Snapshot(done, progress.params)

    def score(self, params: Params, losses: Collection[str]) -> dict[str, dict[str, Score]]:
        """By corpus and loss, on the test sentences."""
        found = {}
        with autocast(self.experiment.train.precision, torch.device(self.device)):
            for corpus in self.corpora:
                scorer, store = self._test_sets[corpus.name]
                heads = [loss for loss in losses if loss != "tag"]
                own = head_scores(self.tagger, params, store, heads) if heads else {}
                if "tag" in losses:
                    predictor = Predictor(self.tagger, params, device=self.device)
                    counts = scorer(predictor, corpus.name)
                    own["tag"] = sum(counts.values(), ErrorCounts()).score
                found[corpus.name] = {loss: own[loss] for loss in losses}
        return found


def restricted(method: Method, losses: Collection[str]) -> Method:
    """The method with some of its losses alone."""
    kept = tuple(term for term in method.objective.outer if term.loss in losses)
    if {term.loss for term in kept} != set(losses):
        known = ", ".join(term.loss for term in method.objective.outer)
        raise HardnerError(
            f"{method.name} has only the losses {known}, not all of {sorted(losses)}"
        )
    return replace(method, objective=replace(method.objective, outer=kept))


@torch.no_grad()
def head_scores(
    tagger: Tagger,
    params: Params,
    store: Store,
    losses: Sequence[str],
) -> dict[str, Score]:
    """Micro-averaged counts of each head's classes; the first class, none, does not count."""
    totals = {loss: torch.zeros(3, dtype=torch.long, device=store.device) for loss in losses}
    for rows in store.groups(WORDS_AT_ONCE[store.device.type]):
        batch = store.batch(torch.from_numpy(rows[None]).to(store.device), store.widths(rows))
        encoded = tagger.encoder(params, batch, SCORING)
        for loss in losses:
            predicted = tagger.heads[loss].logits(scoped(params, loss), encoded, batch).argmax(-1)
            totals[loss] += count_classes(predicted, *gold(batch, loss))
    return {loss: Score(*counts.tolist()) for loss, counts in totals.items()}


def gold(batch: Batch, loss: str) -> tuple[Tensor, Tensor]:
    """The right classes, and which places are not padding: [M, B], or of words [M, B, T]."""
    if loss == "mtcls":
        return batch.extent, mask_of(batch.lengths, batch.extent.shape[2])
    return sentence_labels(batch, loss), batch.lengths > 0


def count_classes(predicted: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """tp, fp and fn of all classes but the first: three of [...] -> [3]."""
    tp = (mask & (predicted == right) & (right > 0)).sum()
    return torch.stack((tp, (mask & (predicted > 0)).sum() - tp, (mask & (right > 0)).sum() - tp))
