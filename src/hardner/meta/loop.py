"""The one training loop: a generator that yields what each iteration found.

Logging, scoring, saving and progress bars live outside it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardner.batch import Store
from hardner.episodes import Sources, across, mini_batches, paired
from hardner.features import Ints
from hardner.meta.distributed import ALONE, Ranks
from hardner.meta.inner import of_parts
from hardner.meta.methods import Draw, Method
from hardner.meta.optim import CudaGraphRunner, Optimizer, State, clip
from hardner.meta.outer import Objective, outer_step, query_loss
from hardner.model.layers import Mode, Params, Precision, autocast
from hardner.model.tagger import Tagger
from hardner.types import Episode, Task, seed_of


@dataclass(frozen=True)
class Training:
    """How the outer parameters move."""

    iterations: int = 10_000
    rate: float = 1e-2
    """Of the first iteration after the warm-up; it falls linearly to zero."""
    warmup: float = 0.0
    """Share of the iterations over which the rate rises from zero."""
    optimizer: Optimizer = field(default_factory=lambda: Optimizer(momentum=0.9, weight_decay=1e-6))
    clip: float = 5.0
    """The largest norm of a gradient."""
    dropout: float = 0.2
    precision: Precision = "float32"
    """Of the networks' arithmetic on a GPU; parameters and losses stay float32."""
    seed: int = 0

    def rate_at(self, iteration: int) -> float:
        """Linear up, then linear down."""
        rising = self.warmup * self.iterations
        if iteration < rising:
            return self.rate * (iteration + 1) / rising
        return self.rate * (self.iterations - iteration) / max(self.iterations - rising, 1)


class EpisodeRows(NamedTuple):
    """The sentences of an iteration, as rows of a store; -1 fills up."""

    supports: tuple[Ints, ...]  # for each inner step in turn, [M, K]
    query: Ints  # [M, K]

    @property
    def each(self) -> tuple[Ints, ...]:
        """The supports, then the query."""
        return *self.supports, self.query


def draw_episodes(
    method: Method, sources: Sources, tasks: int, shots: int, seed: int
) -> Callable[[int], tuple[Episode, ...]]:
    """What an iteration draws, by its number."""
    draws: dict[Draw, Callable[..., tuple[Episode, ...]]] = {
        "tasks": partial(paired, entities=method.entities, entity_queries=method.entity_queries),
        "split": partial(across, steps=max(method.objective.inner.steps, 1)),
        "shuffled": partial(mini_batches, mixed=True),
        "in turn": partial(mini_batches, mixed=False),
    }
    return lambda iteration: draws[method.draw](sources, shots, seed, iteration, tasks)


def drawing(
    method: Method, sources: Sources, tasks: int, shots: int, seed: int
) -> Callable[[int], EpisodeRows]:
    """What `loop` asks for: the rows of an iteration, a pure function of its number.

    Rows count the sentences of all domains laid end to end, in the domains' order.
    """
    draw = draw_episodes(method, sources, tasks, shots, seed)
    ends = accumulate(len(found) for found in sources.sentences.values())
    starts = dict(zip(sources.names, (0, *ends), strict=False))

    def lay(tasks: Sequence[Task]) -> Ints:
        rows = np.full((len(tasks), shots), -1, np.int64)
        for row, task in zip(rows, tasks, strict=True):
            row[: len(task.rows)] = np.array(task.rows) + starts[task.domain]
        return rows

    def rows_of(iteration: int) -> EpisodeRows:
        episodes = draw(iteration)
        supports = zip(*(episode.supports for episode in episodes), strict=True)
        return EpisodeRows(tuple(map(lay, supports)), lay([e.query for e in episodes]))

    return rows_of


class TrainingStep(NamedTuple):
    """What an iteration found; its tensors stay on the device, so that nothing waits for them."""

    iteration: int
    rows: EpisodeRows
    losses: Tensor  # of each outer term and task, [terms, M]
    weights: Tensor  # of each part (in alphabetical order) and task, [parts, M]
    seconds: float  # since the iteration before


@dataclass
class TrainingState:
    """All that is needed to go on from an iteration."""

    params: Params
    state: State
    iteration: int = 0


def initial_state(params: Params, method: Method, training: Training) -> TrainingState:
    learnt = of_parts(params, method.objective.learners)
    return TrainingState(params, training.optimizer.init(learnt))


def loop(
    tagger: Tagger,
    method: Method,
    training: Training,
    store: Store,
    draw: Callable[[int], EpisodeRows],
    progress: TrainingState,
    ranks: Ranks = ALONE,
) -> Iterator[TrainingStep]:
    """Train, from wherever ``progress`` stands, and keep it up to date: its tensors move in place.

    It is on the device of the store, which holds the source sentences; ``draw`` gives the rows of
    an iteration by its number. The tasks of an iteration are shared out among the ranks.
    """
    learnt = list(of_parts(progress.params, method.objective.learners))
    kept = list(progress.state)
    moving = [progress.params[n] for n in learnt] + [progress.state[k] for k in kept]
    replay, objectives = CudaGraphRunner(moving), method.turns
    clock = time.perf_counter()
    while progress.iteration < training.iterations:
        iteration = progress.iteration
        turn, rows = iteration % len(objectives), draw(iteration)
        own, tasks = ranks.own(len(rows.query)), len(rows.query)
        mode = Mode(training.dropout, among=(own.start, tasks) if ranks.joined else None)
        widths = store.packed_widths(np.concatenate(rows.each))
        torch.manual_seed(seed_of(training.seed, iteration))  # of dropout, whatever came before

        def compute(
            rate: Tensor,
            *drawn: Tensor,
            objective: Objective = objectives[turn],
            widths: dict[str, int] = widths,
            mode: Mode = mode,
        ) -> tuple[list[Tensor], list[Tensor]]:
            *supports, query = (store.batch(r, widths) for r in drawn)
            params = progress.params
            with autocast(training.precision, store.device):
                result = outer_step(tagger, objective, params, supports, query, mode, ranks)
            grads = clip(result.grads, training.clip)
            # A part without a gradient still decays, and keeps its momentum.
            grads |= {n: torch.zeros_like(params[n]) for n in learnt if n not in grads}
            rates = dict.fromkeys(grads, rate)
            moved, state = training.optimizer.step(params, grads, progress.state, rates)
            found = [torch.stack(result.values), torch.stack(list(result.weights.values()))]
            return [moved[n] for n in learnt] + [state[k] for k in kept], found

        rate = torch.tensor(training.rate_at(iteration))
        drawn = [torch.from_numpy(r[own]) for r in rows.each]
        # Whatever changes shapes or terms needs a graph of its own; the rate is an input.
        key = (turn, tuple(widths.items()), *(tuple(r.shape) for r in drawn))
        losses, weights = replay(key, compute, [rate, *drawn])
        progress.iteration += 1
        now = time.perf_counter()
        yield TrainingStep(iteration, rows, losses, weights, now - clock)
        clock = now


def devel_loss(
    tagger: Tagger,
    method: Method,
    params: Params,
    store: Store,
    draws: Sequence[EpisodeRows],
    ranks: Ranks = ALONE,
) -> float:
    """The mean tagging loss over fixed episodes of devel sentences, after the method's own way."""
    total = torch.zeros((), device=store.device)
    for rows in draws[ranks.rank :: ranks.of]:
        widths = store.packed_widths(np.concatenate(rows.each))
        drawn = (torch.from_numpy(r).to(store.device) for r in rows.each)
        *supports, query = (store.batch(r, widths) for r in drawn)
        total += query_loss(tagger, method.objective, params, supports, query).mean()
    return ranks.total(float(total)) / len(draws)
