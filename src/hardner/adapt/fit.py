"""The training loop of adaptation: many samples fitted at once, on a GPU by CUDA graphs."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import ceil
from threading import Event, Lock
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from hardner.adapt.cached_layers import cache_lower_layers, cached_names, upper_tagger
from hardner.adapt.recipe import Recipe
from hardner.adapt.self_training import TextLosses, TextTeacher, label_by_teacher
from hardner.batch import Store
from hardner.features import Ints
from hardner.meta.inner import (
    PROTOTYPES,
    InnerLoop,
    adapt_tasks,
    expand_per_task,
    inner_step,
    losses_on,
)
from hardner.meta.optim import CudaGraphRunner
from hardner.model.layers import Mode, Params, autocast, fit_autocast, part_of
from hardner.model.tagger import Tagger
from hardner.types import seed_of

OnStep = Callable[[int], object]
"""Callback: so many models have taken a step."""

_LENGTH_JITTER = 0.3
"""Lengths are scaled by up to this share before sentences are batched by length: without it, a
batch would hold the same sentences in every pass."""
_GRAPH_SHAPES = 3
"""Batch shapes of a fit on a GPU, at most: each is captured as a CUDA graph of its own."""
_SIDE_BY_SIDE = min(2, torch.get_num_threads())
"""Fits that are computed at once on a CPU, each in a thread; more of them would fill its memory."""
_SHORT = 50
"""Steps of a fit that is over in seconds, for which no second one is worth its memory."""
_WITHIN = ContextVar("_WITHIN", default=False)
"""Whether what is being computed is one of several side by side."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def side_by_side(
    compute: Callable[[_Item, OnStep], _Result],
    items: Sequence[_Item],
    on_step: OnStep | None = None,
    steps: int = _SHORT,
) -> Iterator[_Result]:
    """What a function makes of each item, in order, some of them at once.

    Each is computed with one thread, so what comes out is the same; what it computes side by side
    in turn, it computes alone. When it is closed or interrupted, those that run stop at their next
    step.

    Args:
        compute: Of an item, with what it calls after each step.
        items: What it is called with.
        on_step: Called by whichever has taken a step, one at a time.
        steps: Of the longest; if they are few, one item is computed after another.
    """
    stopped, alone = Event(), Lock()

    def count(models: int) -> None:
        if stopped.is_set():
            raise CancelledError
        with alone:
            if on_step:
                on_step(models)

    def computed(item: _Item) -> _Result:
        with one_thread():
            return compute(item, count)

    def beside(item: _Item) -> _Result:
        _WITHIN.set(True)  # of this thread
        return computed(item)

    if min(_SIDE_BY_SIDE, len(items)) < 2 or steps < _SHORT or _WITHIN.get():
        yield from map(computed, items)
        return
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        try:
            yield from pool.map(beside, items)
        finally:
            stopped.set()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread on a CPU.

    Steps are so small that a second one gains nothing, and on a busy machine they wait for each
    other; and sums that are split in another way are rounded in another way.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def fit_samples(
    tagger: Tagger,
    params: Params,
    store: Store,
    rows: Ints,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    negatives: Ints | None = None,
    unlabelled: Ints | None = None,
    replaced: Ints | None = None,
    partial: Ints | None = None,
    teach: TextTeacher = label_by_teacher,
    on_step: OnStep | None = None,
) -> Params:
    """The parameters fitted to each sample: those of the fitted parts have a task axis.

    `hardner.adapt.adapter.Adapter` puts the store and its rows together.

    Args:
        tagger: The network, with a decoder for the target.
        params: Where to start, shared or with a copy for each sample; left as they are.
        store: The sentences that the rows point into.
        rows: The labelled sentences of each sample, [M, K]; -1 for none.
        recipe: How to fit.
        seeds: Of each sample; they decide the order of its sentences.
        negatives: Negative sentences that steps draw from, [N], if the recipe wants any.
        unlabelled: Sentences for self-training of each sample, [M, N]; -1 for none.
        replaced: Sentences with replaced mentions of each sample, [M, V]; -1 for none.
        partial: Sentences labelled in part of each sample, [M, P]; -1 for none.
        teach: How unlabelled sentences are learnt from.
        on_step: Called after each step.
    """
    if recipe.negatives and (negatives is None or not len(negatives)):
        raise ValueError("the recipe learns from negative sentences, and none are given")
    if recipe.prototypes:
        batch = store.batch(torch.from_numpy(rows).to(store.device), store.widths(rows.ravel()))
        params = adapt_tasks(tagger, params, [batch], PROTOTYPES).new
    given = params
    if recipe.layers:
        tagger = upper_tagger(tagger, params, recipe.layers)
        store = cache_lower_layers(tagger, params, store, recipe.precision)
        cached = frozenset(cached_names(tagger))
        params = {n: p for n, p in params.items() if n not in cached}
    learnt = rows if replaced is None else np.concatenate((rows, replaced), axis=1)
    inner = recipe.inner(rows.shape[1], store.heads)
    fits = _Fits(tagger, params, store, learnt, recipe, seeds, negatives, inner, partial)
    found = fits.averaged(None, on_step)
    if unlabelled is not None:
        with autocast(recipe.precision, store.device):
            labels = teach(tagger, found, store, unlabelled)
        found = fits.averaged(labels, on_step)
    return given | found


class _Fits(NamedTuple):
    """What `fit_samples` is given, with the lower layers' outputs in place of the sentences."""

    tagger: Tagger
    params: Params
    store: Store
    rows: Ints
    recipe: Recipe
    seeds: Sequence[int]
    negatives: Ints | None
    inner: InnerLoop
    partial: Ints | None

    def averaged(self, labels: TextLosses | None, on_step: OnStep | None) -> Params:
        """The mean of the parameters fitted to each sample in different orders."""
        ways = self.recipe.restarts
        many = self._replace(
            params={
                n: p.repeat_interleave(ways, 0) if p.shape[0] > 1 else p
                for n, p in self.params.items()
            },
            rows=np.repeat(self.rows, ways, axis=0),  # [M * ways, K]
            partial=None if self.partial is None else np.repeat(self.partial, ways, axis=0),
            seeds=[seed_of(w, seed) if w else seed for seed in self.seeds for w in range(ways)],
        )
        found = many.fitted(labels and labels.repeat(ways), on_step)
        return {
            n: p.unflatten(0, (-1, ways)).mean(1) if p.shape[0] == len(many.rows) else p
            for n, p in found.items()
        }

    def fitted(self, labels: TextLosses | None, on_step: OnStep | None) -> Params:
        """The parameters fitted to each sample, and to soft labels if there are any."""
        tagger, params, store, rows, recipe, seeds, _, inner, _ = self
        teaching = recipe.self_training
        if labels:
            steps = max(inner.steps, teaching.steps)
            inner = replace(inner, steps=steps, rate=inner.rate * teaching.rate)
        order, unlabelled = self.order(inner.steps, labels)
        start = expand_per_task(params, inner.parts, len(rows))
        moving = [name for name in start if part_of(name) in inner.parts]
        current = start | {name: start[name].detach().clone() for name in moving}
        state = inner.optimizer.init({name: current[name] for name in moving})
        values = [current[name] for name in moving]
        run = CudaGraphRunner(values + list(state.values()))
        in_place = inner.optimizer.rule == "adamw"  # torch's fused kernel moves them itself
        on_cpu = store.device.type == "cpu"
        own = torch.Generator() if on_cpu else None  # fits may run side by side
        mode = Mode(recipe.dropout, generator=own)
        averaged = int(recipe.iterate_averaging * inner.steps)
        sums = [torch.zeros_like(value) for value in values]
        for step, (drawn, widths) in enumerate(zip(order, batch_widths(store, order), strict=True)):
            draws = seed_of("dropout", step, *seeds)
            if own:
                own.manual_seed(draws)
            else:
                torch.manual_seed(draws)

            def compute(
                rate: Tensor, drawn: Tensor, widths: dict[str, int] = widths
            ) -> tuple[list[Tensor], list[Tensor]]:
                batch = store.batch(drawn, widths)
                losses = losses_on(tagger, batch, mode)
                if labels:
                    weight, others = teaching.pseudo_label_weight, drawn[:, -unlabelled:]
                    losses = labels.losses(tagger, batch, others, weight, mode)
                with fit_autocast(recipe.precision, store.device):
                    done = inner_step(losses, current, start, inner, state, rate, inplace=in_place)
                return [done.moved[name] for name in moving] + [done.state[k] for k in state], []

            inputs = [torch.tensor(1 - step / inner.steps), torch.from_numpy(drawn)]
            run((tuple(widths.items()), drawn.shape), compute, inputs)
            if step >= inner.steps - averaged:
                torch._foreach_add_(sums, values)
            if on_step:
                on_step(len(rows) // recipe.restarts)
        found = [total.div_(averaged) for total in sums] if averaged else values
        return current | dict(zip(moving, found, strict=True))

    def order(self, steps: int, labels: TextLosses | None) -> tuple[Ints, int]:
        """Rows of each step, [steps, M, B], and how many at the end of B are unlabelled."""
        widths = self.store.tags.widths
        size = self.recipe.batch_of(self.store.heads)
        parts = [length_batches(self.rows, widths, steps, size, self.seeds)]
        beside = self.partial_of_a_step(size)
        if self.recipe.negatives and self.negatives is not None:
            draws = [np.random.default_rng(seed) for seed in self.seeds]
            shape = (steps, self.recipe.negatives)
            drawn = [draw.integers(len(self.negatives), size=shape) for draw in draws]
            chosen = self.negatives[np.stack(drawn, axis=1)]
            for task, count in enumerate(beside):
                chosen[:, task, :count] = -1
            parts.append(chosen[:, :, min(beside) :])
        if self.partial is not None:
            chosen = np.full((steps, len(beside), max(beside)), -1, np.int64)
            for task, (count, seed) in enumerate(zip(beside, self.seeds, strict=True)):
                if count:
                    rows, others = self.partial[task : task + 1], [seed_of("partial", seed)]
                    own = length_batches(rows, widths, steps, count, others)
                    chosen[:, task : task + 1, : own.shape[2]] = own
            parts.append(chosen)
        if labels is None:
            return np.concatenate(parts, axis=2), 0
        others = [seed_of("unlabelled", seed) for seed in self.seeds]
        size = self.recipe.self_training.batch
        parts.append(length_batches(labels.rows, widths, steps, size, others))
        return np.concatenate(parts, axis=2), parts[-1].shape[2]

    def partial_of_a_step(self, labelled: int) -> list[int]:
        """How many of each sample's sentences labelled in part join so many labelled ones; they
        come in place of negatives.

        Each is seen as often as a labelled one. Most say that something is no mention: seen more
        often, or beside all negatives, they teach to miss mentions.
        """
        if self.partial is None:
            return [0] * len(self.rows)
        found = []
        for rows, partial in zip(self.rows >= 0, self.partial >= 0, strict=True):
            count, more = int(rows.sum()), int(partial.sum())
            wanted = max(1, round(min(labelled, count) * more / count))
            found.append(min(wanted, more, self.recipe.partial))
        return found


def length_batches(rows: Ints, widths: Ints, steps: int, size: int, seeds: Sequence[int]) -> Ints:
    """Mini-batches of each sample, [steps, M, B], pass after pass.

    Sentences of about the same length come together, the long ones of all samples in the same
    steps, so that little of a batch is padding. Each pass groups them anew.

    Args:
        rows: Of each sample, [M, K]; -1 for none.
        widths: Of each sentence, by row.
        steps: Number of batches.
        size: The most sentences of a batch; a smaller sample is one batch.
        seeds: Of each sample.
    """
    tasks, shots = rows.shape
    if size >= shots:
        return np.broadcast_to(rows, (steps, tasks, shots)).copy()
    each = [own[own >= 0] for own in rows]
    parts = [max(1, ceil(len(own) / size)) for own in each]
    most = max(ceil(len(own) / cut) for own, cut in zip(each, parts, strict=True))
    found = np.full((steps, tasks, most), -1, np.int64)
    for task, (own, cut, seed) in enumerate(zip(each, parts, seeds, strict=True)):
        rng = np.random.default_rng(seed)
        for first in range(0, steps, cut):
            about = widths[own] * rng.uniform(1 - _LENGTH_JITTER, 1 + _LENGTH_JITTER, len(own))
            alike = np.array_split(own[about.argsort(kind="stable")], cut)
            turns = np.random.default_rng(first).permutation(cut)  # the same for all samples
            for step, turn in zip(range(first, steps), turns, strict=False):
                found[step, task, : len(alike[turn])] = alike[turn]
    return found


def batch_widths(store: Store, order: Ints) -> list[dict[str, int]]:
    """The padded widths of each step's batch.

    A CPU pads no more than it must. A GPU captures a CUDA graph for each shape, so that all steps
    together have `_GRAPH_SHAPES` at most.
    """
    each = [store.packed_widths(drawn) for drawn in order]
    if store.device.type == "cpu":
        return each
    wide = np.array([widths.get("packed", widths["words"]) for widths in each])
    levels = np.unique(
        np.quantile(wide, np.arange(1, _GRAPH_SHAPES + 1) / _GRAPH_SHAPES, method="higher")
    )
    level = levels.searchsorted(wide)
    made = [
        store.packed_widths(order[level == i].reshape(-1, order.shape[-1]))
        for i in range(len(levels))
    ]
    return [made[i] for i in level]
