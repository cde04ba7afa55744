"""Fit one model to many samples at once, a captured step at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil

import numpy as np
import torch
from torch import Tensor

from hardner.batch import Ints, Store, TagSet
from hardner.errors import HardnerError
from hardner.learn.adapt import adapt, losses_on
from hardner.learn.adaptation import Adaptation
from hardner.learn.background import background
from hardner.learn.graph import Replay, arithmetic
from hardner.learn.inner import Inner, spread, stride
from hardner.learn.lessons import Lessons, teach
from hardner.learn.lift import lift, lifted, lowered, mean_decoder
from hardner.model.layers import Mode, Params, part_of
from hardner.model.tagger import Tagger
from hardner.seeds import seed_of
from hardner.types import Sentence

Heard = Callable[[int, int], None]
"""Told how many steps are done, of how many."""
POOL = 50
"""Background sentences that there are for each one of a step."""


def newcomer(
    tagger: Tagger, params: Params, tag_set: TagSet, adaptation: Adaptation, seeds: Sequence[int]
) -> tuple[Tagger, Params]:
    """The tagger with a decoder for a target alone, and its parameters: a new decoder a sample."""
    target = tagger.with_domains([tag_set])
    if adaptation.decoder:
        target = replace(target, decoder=adaptation.decoder)
    device = next(iter(params.values())).device
    fresh = [target.init_decoder(torch.Generator().manual_seed(seed)) for seed in seeds]
    decoder = {n: torch.cat([p[n] for p in fresh]).to(device) for n in fresh[0]}  # [M, 1, ...]
    if adaptation.start == "zero":
        decoder = {n: torch.zeros_like(p) for n, p in decoder.items()}
    elif adaptation.start == "mean" and len(tag_set.labels) == 1:
        mean = mean_decoder(tagger, params)
        decoder |= {n: p.expand_as(decoder[n]).clone() for n, p in mean.items() if n in decoder}
    shared = {n: p for n, p in params.items() if part_of(n) in ("encoder", "frozen")}
    return target, shared | decoder


def background_for(adaptation: Adaptation) -> tuple[Sentence, ...]:
    """What must lie behind the sentences in a store that is fitted to: what a step draws from."""
    return background()[: POOL * adaptation.background]


def fit(
    tagger: Tagger,
    params: Params,
    store: Store,
    rows: Ints,
    adaptation: Adaptation,
    seeds: Sequence[int],
    unlabelled: Ints | None = None,
    heard: Heard | None = None,
) -> Params:
    """The parameters fitted to each sample: those of the adapted parts have a task axis.

    Where a sample has sentences without labels as well, what is fitted to the others is its
    teacher: it says what it thinks of them, and from the same start a pupil is fitted to all.

    Args:
        tagger: The network, with a decoder for the target.
        params: Where to start, shared or with a copy for each sample; left as they are.
        store: The sentences; its last ones are `background_for` the rule.
        rows: Of each sample, [M, K]; -1 for none.
        adaptation: The rule.
        seeds: Of each sample; they decide the order of its sentences.
        unlabelled: Rows whose labels do not count, of each sample, [M, N]; -1 for none.
        heard: Called after each step of a pupil.
    """
    if adaptation.prototypes:
        if unlabelled is not None:
            raise HardnerError("prototypes cannot be learnt from text without labels")
        batch = store.batch(torch.from_numpy(rows).to(store.device), store.widths(rows.ravel()))
        return adapt(tagger, params, [batch], adaptation.inner(rows.shape[1])).new
    given = params
    if adaptation.layers:
        tagger = lift(tagger, params, adaptation.layers)
        store = lifted(tagger, params, store)
        params = {n: p for n, p in params.items() if n not in lowered(tagger)}
    mean = partial(_mean, tagger, params, store, rows, adaptation, seeds)
    found = mean()
    if unlabelled is not None:
        with arithmetic(adaptation.precision, store.device):
            lessons = teach(tagger, found, store, unlabelled)
        found = mean(lessons, heard)
    if adaptation.caution:
        bias = found["decoder.bias"].clone()
        bias[..., 0] += adaptation.caution
        found["decoder.bias"] = bias
    return given | found


def _mean(
    tagger: Tagger,
    params: Params,
    store: Store,
    rows: Ints,
    adaptation: Adaptation,
    seeds: Sequence[int],
    lessons: Lessons | None = None,
    heard: Heard | None = None,
) -> Params:
    """Of the parameters fitted to each sample in different orders."""
    ways = adaptation.soup
    many = np.repeat(rows, ways, axis=0)  # [M * ways, K]
    orders = [seed_of(way, seed) if way else seed for seed in seeds for way in range(ways)]
    each = {n: p.repeat_interleave(ways, 0) if p.shape[0] > 1 else p for n, p in params.items()}
    taught = lessons and lessons.repeat(ways)
    return {
        name: value.unflatten(0, (-1, ways)).mean(1) if value.shape[0] == len(many) else value
        for name, value in _fit(
            tagger, each, store, many, adaptation, orders, taught, heard
        ).items()
    }


def _fit(
    tagger: Tagger,
    params: Params,
    store: Store,
    rows: Ints,
    adaptation: Adaptation,
    seeds: Sequence[int],
    lessons: Lessons | None,
    heard: Heard | None,
) -> Params:
    inner = adaptation.inner(rows.shape[1])
    if lessons:
        pupil = adaptation.pupil
        inner = replace(inner, steps=max(inner.steps, pupil.steps), rate=inner.rate * pupil.rate)
    order = _order(store, rows, adaptation, inner, seeds, lessons)
    start = spread(params, inner.parts, len(rows))
    moving = [name for name in start if part_of(name) in inner.parts]
    current = start | {name: start[name].detach().clone() for name in moving}
    state = inner.optimizer.init({name: current[name] for name in moving})
    replay = Replay([current[name] for name in moving] + list(state.values()))
    here = store.device.type == "cpu"
    fused = here and inner.optimizer.rule == "adamw"
    mode = Mode(adaptation.dropout)
    for step, drawn in enumerate(order):
        # On a GPU each width is captured anew, so that there is one for all steps.
        widths = store.widths((drawn if here else order).ravel())
        torch.manual_seed(seed_of("dropout", step, *seeds))

        def compute(
            rate: Tensor, drawn: Tensor, widths: dict[str, int] = widths
        ) -> tuple[list[Tensor], list[Tensor]]:
            batch = store.batch(drawn, widths)
            if lessons:
                last = drawn[:, -min(adaptation.pupil.batch, lessons.rows.shape[1]) :]
                losses = lessons.losses(tagger, batch, last, adaptation.pupil.trust, mode)
            else:
                losses = losses_on(tagger, batch, mode)
            with arithmetic(adaptation.precision, store.device):
                done = stride(losses, current, start, inner, state, rate, inplace=fused)
            return [done.moved[name] for name in moving] + [done.state[k] for k in state], []

        share = 1 - step / inner.steps
        inputs = [torch.tensor(share), torch.from_numpy(drawn)]
        replay((tuple(widths.items()), drawn.shape), compute, inputs)
        if lessons and heard:
            heard(step + 1, inner.steps)
    return current


def _order(
    store: Store,
    rows: Ints,
    adaptation: Adaptation,
    inner: Inner,
    seeds: Sequence[int],
    lessons: Lessons | None,
) -> Ints:
    """What each step learns from: [steps, M, sentences], those without labels at the end."""
    parts = [batches(rows, inner.steps, adaptation.batch, seeds)]
    if adaptation.background:
        parts.append(_beside(store, parts[0], adaptation, seeds))
    if lessons:
        others = [seed_of("unlabelled", seed) for seed in seeds]
        parts.append(batches(lessons.rows, inner.steps, adaptation.pupil.batch, others))
    return np.concatenate(parts, axis=2)


def _beside(store: Store, order: Ints, adaptation: Adaptation, seeds: Sequence[int]) -> Ints:
    """Background sentences for each step and sample: [steps, M, background]."""
    size = len(background_for(adaptation))
    last = len(store.tags.widths) - 1
    shape = (len(order), adaptation.background)
    drawn = [np.random.default_rng(seed).integers(last - size, last, shape) for seed in seeds]
    return np.stack(drawn, axis=1)


def batches(rows: Ints, steps: int, size: int, seeds: Sequence[int]) -> Ints:
    """What each step learns from: passes over each sample, shuffled anew, cut into batches.

    rows [M, K] -> [steps, M, size], or all of them in each step where there are no more.
    """
    tasks, shots = rows.shape
    if size >= shots:
        return np.broadcast_to(rows, (steps, tasks, shots)).copy()
    passes = ceil(steps * size / shots)
    order = np.stack([_passes(shots, passes, seed) for seed in seeds])  # [M, passes * K]
    drawn = np.take_along_axis(rows, order, axis=1)[:, : steps * size]
    return np.ascontiguousarray(drawn.reshape(tasks, steps, size).swapaxes(0, 1))


def _passes(shots: int, passes: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(shots) for _ in range(passes)])
