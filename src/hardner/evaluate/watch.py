"""Train while the test data look on: how every task of a method does as its training goes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardner.batch import Batch, Store
from hardner.episodes import Sources
from hardner.errors import HardnerError
from hardner.evaluate.score import Breakdown, Score
from hardner.evaluate.test_set import _WORDS_AT_ONCE, TestSet
from hardner.jobs.device import resolve_device
from hardner.meta.experiment import Experiment
from hardner.meta.loop import drawing, initial_state, loop
from hardner.meta.methods import Method
from hardner.meta.network import build_network
from hardner.meta.source_data import SourceData
from hardner.model.heads import sentence_labels
from hardner.model.layers import SCORING, Params, mask_of, scoped
from hardner.model.runtime import autocast
from hardner.model.tagger import Tagger
from hardner.types import Corpus, Sentence


class Moment(NamedTuple):
    """A stage of a training."""

    iteration: int
    """How many are done."""
    params: Params
    """As they are now; they change when the training goes on."""


@dataclass(frozen=True)
class Watch:
    """An experiment on the training and devel sentences of corpora, seen by their test data."""

    experiment: Experiment
    corpora: Sequence[Corpus]
    cache: Path | None = None
    """A folder that keeps word vectors."""

    @cached_property
    def _material(self) -> SourceData:
        return SourceData(Sources.of({c.name: (*c.train, *c.devel) for c in self.corpora}), None)

    @cached_property
    def _network(self) -> tuple[Tagger, Params]:
        tagger, start = build_network(self.experiment, self._material, self.cache)
        return tagger, {name: value.to(self.device) for name, value in start.items()}

    @cached_property
    def device(self) -> str:
        """Where it is computed."""
        return resolve_device(self.experiment.device)

    @property
    def tagger(self) -> Tagger:
        """The network."""
        return self._network[0]

    @cached_property
    def store(self) -> Store:
        """The sentences that are learnt from."""
        return self._material.store(self.tagger, self._material.train, self.device)

    @cached_property
    def _exams(self) -> dict[str, tuple[TestSet, Store]]:
        places = {name: place for place, name in enumerate(self._material.names)}
        made = {}
        for corpus in self.corpora:
            place = places[corpus.name]
            test_set = TestSet(self.tagger, corpus.test, place, self.device)
            store = self.tagger.store(corpus.test, [place] * len(corpus.test), self.device)
            made[corpus.name] = test_set, store
        return made

    def passes(self, iteration: int) -> float:
        """How often each sentence was seen by then."""
        size, tasks = self.experiment.train.shots, self.experiment.train.tasks
        batches = sum(-(-len(s) // size) for s in self._material.train.sentences.values())
        return iteration * tasks / batches

    def train(self, losses: Collection[str], points: int) -> Iterator[Moment]:
        """Train by some of the method's losses alone, from the same start each time.

        Args:
            losses: Those that count.
            points: Moments to look at, at equal distances; the last is the end.
        """
        e = self.experiment
        way, training = narrowed(e.way(), losses), e.training()
        shares = self._material.shares(e.data.shares)
        way = replace(way, objective=replace(way.objective, shares=shares))
        start = {name: value.clone() for name, value in self._network[1].items()}
        progress = initial_state(start, way, training)
        draw = drawing(way, self._material.train, e.train.tasks, e.train.shots, e.seed)
        seen = {-(-training.iterations * (i + 1) // points) for i in range(points)}
        for step in loop(self.tagger, way, training, self.store, draw, progress):
            done = step.iteration + 1
            if done in seen:
                if not bool(step.losses.isfinite().all()):
                    raise HardnerError(f"the loss is no number after {done}; lower train.rate")
                yield Moment(done, progress.params)

    def score(self, params: Params, losses: Collection[str]) -> dict[str, dict[str, Score]]:
        """By corpus and loss, on the test sentences."""
        found = {}
        with autocast(self.experiment.train.precision, torch.device(self.device)):
            for corpus in self.corpora:
                test_set, store = self._exams[corpus.name]
                heads = [loss for loss in losses if loss != "tag"]
                own = head_scores(self.tagger, params, store, corpus.test, heads) if heads else {}
                if "tag" in losses:
                    own["tag"] = sum(test_set(params)[0].values(), Breakdown()).score
                found[corpus.name] = {loss: own[loss] for loss in losses}
        return found


def narrowed(way: Method, losses: Collection[str]) -> Method:
    """The method with some of its losses alone."""
    kept = tuple(term for term in way.objective.outer if term.loss in losses)
    if {term.loss for term in kept} != set(losses):
        known = ", ".join(term.loss for term in way.objective.outer)
        raise HardnerError(f"{way.name} has only the losses {known}, not all of {sorted(losses)}")
    return replace(way, objective=replace(way.objective, outer=kept))


@torch.no_grad()
def head_scores(
    tagger: Tagger,
    params: Params,
    store: Store,
    sentences: Sequence[Sentence],
    losses: Sequence[str],
) -> dict[str, Score]:
    """How the heads answer, by loss: all classes but the first, which is none, as mentions are."""
    totals = {loss: torch.zeros(3, dtype=torch.long, device=store.device) for loss in losses}
    for batch in in_batches(store, sentences):
        encoded = tagger.encoder(params, batch, SCORING)
        for loss in losses:
            said = tagger.heads[loss].logits(scoped(params, loss), encoded, batch).argmax(-1)
            right, there = gold(batch, loss)
            totals[loss] += agreement(said, right, there)
    return {loss: Score(*counts.tolist()) for loss, counts in totals.items()}


def gold(batch: Batch, loss: str) -> tuple[Tensor, Tensor]:
    """What a head should answer, and where it is asked: [M, B], of words [M, B, T]."""
    if loss == "mtcls":
        return batch.extent, mask_of(batch.lengths, batch.extent.shape[2])
    return sentence_labels(batch, loss), batch.lengths > 0


def agreement(said: Tensor, right: Tensor, there: Tensor) -> Tensor:
    """tp, fp and fn of all classes but the first: three of [...] -> [3]."""
    same = said == right
    hits = (there & same & (right > 0)).sum()
    return torch.stack(
        (hits, (there & (said > 0)).sum() - hits, (there & (right > 0)).sum() - hits)
    )


def in_batches(store: Store, sentences: Sequence[Sentence]) -> Iterator[Batch]:
    """All sentences of a store, as one task, those of like length together."""
    lengths: Mapping[int, int] = {row: len(s) for row, s in enumerate(sentences)}
    order = np.array(sorted(lengths, key=lambda row: -lengths[row]), np.int64)
    start = 0
    while start < len(order):
        widest = max(store.widths(order[start : start + 1]).values())
        rows = order[start : start + max(1, _WORDS_AT_ONCE[store.device.type] // widest)]
        yield store.batch(torch.from_numpy(rows[None]).to(store.device), store.widths(rows))
        start += len(rows)
