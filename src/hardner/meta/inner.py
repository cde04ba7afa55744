"""Adaptation: a few labelled sentences and shared parameters -> parameters of each task.

Meta-training takes a step or a few and may differentiate through them; `hardner.adapt.fit` takes
many by the same `inner_step`. Any number of tasks adapt together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.meta.optim import Optimizer, State, clip
from hardner.meta.terms import (
    Losses,
    Term,
    add_gradients,
    measure,
    merged_gradient,
    of_parts,
    separate_gradient,
    tag_term,
)
from hardner.model.layers import SCORING, Mode, Params, part_of
from hardner.model.tagger import Tagger


@dataclass(frozen=True)
class InnerLoop:
    """How a task adapts."""

    steps: int = 1
    prototypes: bool = False
    """Whether decoders are first set to the mean vectors of the tags in the support (WPZ)."""
    fresh: bool = False
    """Whether decoders start from zero, as that of a new type does."""
    rate: float = 1e-2
    """Of the first step."""
    terms: tuple[Term, ...] = (tag_term(),)
    parts: frozenset[str] = frozenset({"encoder", "decoder"})
    """What is adapted; everything else stays as it was."""
    optimizer: Optimizer = field(default_factory=Optimizer)
    scales: dict[str, float] = field(default_factory=dict)
    """By the start of a parameter's name, what its rate is multiplied with."""
    decay: bool = False
    """Whether the rate falls linearly to zero over the steps."""
    clip: float = 0.0
    proximal: float = 0.0
    """Strength of the pull back to the start, as the implicit meta-gradient assumes."""
    old: frozenset[str] = frozenset()
    """Losses left out at the point ``old`` (MetaNER's theta_old); none: there is no such point."""

    def scale(self, name: str) -> float:
        """What the rate of a parameter is multiplied with: the longest matching start's."""
        matches = [start for start in self.scales if name.startswith(start)]
        return self.scales[max(matches, key=len)] if matches else 1.0


PROTOTYPES = InnerLoop(steps=0, prototypes=True, terms=(), parts=frozenset())
"""Decoders that are the mean vectors of the tags, and nothing else learnt."""


class AdaptedParams(NamedTuple):
    """Where the inner steps led: with all terms, and with `InnerLoop.old` left out of the last."""

    new: Params
    old: Params


class InnerStep(NamedTuple):
    """What a single step did."""

    moved: Params  # the adapted parts
    state: State  # of the optimiser
    old: Params  # the same with `InnerLoop.old` left out; ``moved`` itself where none is asked


def expand_per_task(params: Params, parts: frozenset[str], tasks: int) -> Params:
    """Give each task its own view of some parts, so that each gets its own gradient."""
    return {
        name: value.expand(tasks, *value.shape[1:])
        if part_of(name) in parts and value.shape[0] < tasks
        else value
        for name, value in params.items()
    }


def inner_step(
    losses: Losses,
    current: Params,
    start: Params,
    inner: InnerLoop,
    state: State,
    share: Tensor | float = 1.0,
    *,
    through: bool = False,
    split: bool = False,
    inplace: bool = False,
) -> InnerStep:
    """One step: theta_i <- theta_i - beta grad L_i(theta_i), each task on its own copy.

    Args:
        losses: What the step descends.
        current: Where it starts from; the adapted parts have a copy for each task.
        start: Where the first step started, which the proximal term pulls back to.
        inner: Terms, rates and optimiser.
        state: Of the optimiser.
        share: Of the first step's rate.
        through: Keep the graph, so that the outcome can be differentiated by the start.
        split: Also work out where the step leads with `InnerLoop.old` left out.
        inplace: Move ``current`` and ``state`` themselves; AdamW alone can.
    """
    leaves = of_parts(current, inner.parts)
    if not through:
        leaves = {n: p.detach().requires_grad_() for n, p in leaves.items()}
    values = measure(losses, current | leaves, inner.terms)
    partial: Params = {}
    if split and inner.old:
        # MetaNER Eq. 17 leaves some terms out of theta_old; Eq. 18 adds them for theta_new.
        apart = [t for t in inner.terms if t.loss in inner.old]
        rest = [t for t in inner.terms if t.loss not in inner.old]
        partial = separate_gradient(rest, values, leaves, through)
        grads = add_gradients(partial, separate_gradient(apart, values, leaves, through))
    else:
        grads = merged_gradient(inner.terms, values, leaves, through)
    if inner.proximal:  # of rho / 2 ||theta_i - theta||^2
        grads = {n: g + inner.proximal * (leaves[n] - start[n]) for n, g in grads.items()}
    if inner.clip:
        grads = clip(grads, inner.clip, tasks=True, inplace=inplace)
    # One tensor for each different rate, so that the optimiser can group parameters by it.
    scales = {n: inner.scale(n) for n in grads}
    levels = {scale: inner.rate * scale * share for scale in set(scales.values())}
    rates: dict[str, Tensor | float] = {n: levels[scale] for n, scale in scales.items()}
    if inplace:
        inner.optimizer.move(leaves, grads, state, rates)
        return InnerStep(leaves, state, leaves)
    with torch.set_grad_enabled(through):
        moved, kept = inner.optimizer.step(leaves, grads, state, rates)
        old = inner.optimizer.step(leaves, partial, state, rates)[0] if partial else moved
    return InnerStep(moved, kept, old)


def losses_on(tagger: Tagger, batch: Batch, mode: Mode = SCORING) -> Losses:
    """The tagger's losses on a batch, as a function of its parameters."""
    return lambda params, names, cut: tagger.losses(params, batch, names, mode, cut)


def adapt_tasks(
    tagger: Tagger,
    params: Params,
    supports: Sequence[Batch],
    inner: InnerLoop,
    mode: Mode = SCORING,
    through: bool = False,
) -> AdaptedParams:
    """Fit the parameters to the supports, each task on its own copy of the adapted parts.

    The start may be shared or have a copy for each task, and is left as it is. Step ``s`` learns
    from ``supports[s % len(supports)]``. With ``through``, the outcome can be differentiated by
    the start.
    """
    start = expand_per_task(params, inner.parts, supports[0].tasks)
    if inner.fresh:  # a product keeps the graph that an exact meta-gradient goes through
        start |= {name: 0 * value for name, value in start.items() if part_of(name) == "decoder"}
    if inner.prototypes:
        start = tagger.prototypes(start, supports[0], mode)
    losses = [losses_on(tagger, batch, mode) for batch in supports]
    state = inner.optimizer.init(of_parts(start, inner.parts))
    current = old = dict(start)
    for step in range(inner.steps):
        share = 1 - step / inner.steps if inner.decay else 1.0
        last = step == inner.steps - 1
        own = losses[step % len(losses)]
        done = inner_step(own, current, start, inner, state, share, through=through, split=last)
        state, old = done.state, current | done.old
        current = current | done.moved
    return AdaptedParams(current, old)
