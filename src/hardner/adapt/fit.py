"""Fit one model to many samples at once, a captured step at a time."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardner.adapt.cached_layers import cache_lower_layers, cached_names, upper_tagger
from hardner.adapt.recipe import Recipe
from hardner.adapt.self_training import TeacherLabels, label_by_teacher
from hardner.batch import Ints, Store
from hardner.meta.inner import (
    PROTOTYPES,
    InnerLoop,
    adapt_tasks,
    expand_per_task,
    inner_step,
    losses_on,
)
from hardner.model.layers import Mode, Params, part_of
from hardner.model.runtime import CudaGraphRunner, autocast, fit_autocast
from hardner.model.tagger import Tagger
from hardner.seeds import seed_of
from hardner.types import Progress

_LENGTH_JITTER = 0.3
"""Lengths are scaled by up to this share before sentences are batched by length: without it, a
batch would hold the same sentences in every pass."""
_GRAPH_SHAPES = 3
"""Batch shapes of a fit on a GPU, at most: each is captured as a CUDA graph of its own."""


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
    on_progress: Progress | None = None,
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
        on_progress: Called after each step of self-training.
    """
    if recipe.negatives and (negatives is None or not len(negatives)):
        raise ValueError("the recipe learns from negative sentences, and none are given")
    if recipe.prototypes:
        batch = store.batch(torch.from_numpy(rows).to(store.device), store.widths(rows.ravel()))
        params = adapt_tasks(tagger, params, [batch], PROTOTYPES).new
    given = params
    if recipe.layers:
        tagger = upper_tagger(tagger, params, recipe.layers)
        store = cache_lower_layers(tagger, params, store)
        params = {n: p for n, p in params.items() if n not in cached_names(tagger)}
    learnt = rows if replaced is None else np.concatenate((rows, replaced), axis=1)
    inner = recipe.inner(rows.shape[1])
    samples = _Samples(tagger, params, store, learnt, recipe, inner, seeds, negatives)
    found = samples.averaged()
    if unlabelled is not None:
        with autocast(recipe.precision, store.device):
            teacher_labels = label_by_teacher(tagger, found, store, unlabelled)
        found = samples.averaged(teacher_labels, on_progress)
    return given | found


class _Samples(NamedTuple):
    """What `fit_samples` is given."""

    tagger: Tagger
    params: Params
    store: Store
    rows: Ints
    recipe: Recipe
    inner: InnerLoop
    seeds: Sequence[int]
    negatives: Ints | None

    def averaged(
        self, teacher_labels: TeacherLabels | None = None, on_progress: Progress | None = None
    ) -> Params:
        """The mean of the parameters fitted to each sample in different orders."""
        ways = self.recipe.restarts
        many = self._replace(
            params={
                n: p.repeat_interleave(ways, 0) if p.shape[0] > 1 else p
                for n, p in self.params.items()
            },
            rows=np.repeat(self.rows, ways, axis=0),  # [M * ways, K]
            seeds=[seed_of(w, seed) if w else seed for seed in self.seeds for w in range(ways)],
        )
        found = many.fitted(teacher_labels and teacher_labels.repeat(ways), on_progress)
        return {
            n: p.unflatten(0, (-1, ways)).mean(1) if p.shape[0] == len(many.rows) else p
            for n, p in found.items()
        }

    def fitted(self, teacher_labels: TeacherLabels | None, on_progress: Progress | None) -> Params:
        """The parameters fitted to each sample, and to lessons if there are any."""
        tagger, params, store, rows, recipe, inner, seeds, _ = self
        if teacher_labels:
            steps = max(inner.steps, recipe.self_training.steps)
            inner = replace(inner, steps=steps, rate=inner.rate * recipe.self_training.rate)
        order, more = self.order(inner.steps, teacher_labels)
        start = expand_per_task(params, inner.parts, len(rows))
        moving = [name for name in start if part_of(name) in inner.parts]
        current = start | {name: start[name].detach().clone() for name in moving}
        state = inner.optimizer.init({name: current[name] for name in moving})
        replay = CudaGraphRunner([current[name] for name in moving] + list(state.values()))
        fused = inner.optimizer.rule == "adamw"
        mode = Mode(recipe.dropout)
        iterate_averaging = IterateAverage(
            [current[name] for name in moving],
            inner.steps - int(recipe.iterate_averaging * inner.steps),
        )
        for step, (drawn, widths) in enumerate(zip(order, batch_widths(store, order), strict=True)):
            torch.manual_seed(seed_of("dropout", step, *seeds))

            def compute(
                rate: Tensor, drawn: Tensor, widths: dict[str, int] = widths
            ) -> tuple[list[Tensor], list[Tensor]]:
                batch = store.batch(drawn, widths)
                if teacher_labels:
                    losses = teacher_labels.losses(
                        tagger,
                        batch,
                        drawn[:, -more:],
                        recipe.self_training.pseudo_label_weight,
                        mode,
                    )
                else:
                    losses = losses_on(tagger, batch, mode)
                with fit_autocast(recipe.precision, store.device):
                    done = inner_step(losses, current, start, inner, state, rate, inplace=fused)
                return [done.moved[name] for name in moving] + [done.state[k] for k in state], []

            inputs = [torch.tensor(1 - step / inner.steps), torch.from_numpy(drawn)]
            replay((tuple(widths.items()), drawn.shape), compute, inputs)
            iterate_averaging.after(step)
            if teacher_labels and on_progress:
                on_progress(step + 1, inner.steps)
        return current | dict(zip(moving, iterate_averaging.mean(), strict=True))

    def order(self, steps: int, teacher_labels: TeacherLabels | None) -> tuple[Ints, int]:
        """What each step learns from: [steps, M, sentences]; so many at the end have no labels."""
        widths = self.store.tags.widths
        parts = [length_batches(self.rows, widths, steps, self.recipe.batch, self.seeds)]
        if self.recipe.negatives and self.negatives is not None:
            draws = [np.random.default_rng(seed) for seed in self.seeds]
            shape = (steps, self.recipe.negatives)
            drawn = [draw.integers(len(self.negatives), size=shape) for draw in draws]
            parts.append(self.negatives[np.stack(drawn, axis=1)])
        if teacher_labels:
            others = [seed_of("unlabelled", seed) for seed in self.seeds]
            parts.append(
                length_batches(
                    teacher_labels.rows, widths, steps, self.recipe.self_training.batch, others
                )
            )
        return np.concatenate(parts, axis=2), parts[-1].shape[2] if teacher_labels else 0


class IterateAverage:
    """The mean of parameters over the last steps: the path of few large steps is not smooth."""

    def __init__(self, current: list[Tensor], first: int) -> None:
        """Args: ``current`` is moved in place; steps from ``first`` on count."""
        self._current, self._first = current, first
        self._sums: list[Tensor] = []
        self._steps = 0

    def after(self, step: int) -> None:
        """Take in what a step has led to."""
        if step < self._first:
            return
        self._steps += 1
        if self._sums:
            torch._foreach_add_(self._sums, self._current)
        else:
            self._sums = [tensor.clone() for tensor in self._current]

    def mean(self) -> list[Tensor]:
        """Of the steps that counted; where there was none, the parameters as they are."""
        return [total / self._steps for total in self._sums] or self._current


def length_batches(rows: Ints, widths: Ints, steps: int, size: int, seeds: Sequence[int]) -> Ints:
    """What each step learns from: passes over each sample, cut into batches of like lengths.

    Sentences of about the same length lie together, so that little of a batch is padding, and the
    long ones of all samples in the same steps. Which ones go together is drawn for each pass.

    Args:
        rows: Of each sample, [M, K]; -1 for none.
        widths: Of each sentence, by row.
        steps: How many batches there are to be.
        size: The most sentences of a batch.
        seeds: Of each sample.

    Returns:
        [steps, M, sentences of a batch], or all of a sample in each step where there are no more.
    """
    tasks, shots = rows.shape
    if size >= shots:
        return np.broadcast_to(rows, (steps, tasks, shots)).copy()
    each = [own[own >= 0] for own in rows]
    parts = [ceil(len(own) / size) for own in each]
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
    """How wide the batch of each step is: on a CPU no wider than it must be.

    On a GPU, where every shape is captured anew, there are `_GRAPH_SHAPES` for all steps at most.
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
