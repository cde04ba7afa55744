"""The inner rule: how each task's own parameters come about, for any losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.learn.optim import Optimizer, clip
from hardner.learn.terms import (
    Losses,
    Term,
    measure,
    merged_gradient,
    separate_gradient,
    tag,
)
from hardner.model.layers import Params, part_of


@dataclass(frozen=True)
class Inner:
    """How a task's own parameters come about."""

    steps: int = 1
    prototypes: bool = False
    """Whether decoders are first set to the mean vectors of the tags in the support (WPZ)."""
    rate: float = 1e-2
    """Of the first step."""
    terms: tuple[Term, ...] = (tag(),)
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


class Adapted(NamedTuple):
    """Where the inner steps led: with all terms, and with `Inner.old` left out of the last."""

    new: Params
    old: Params


def spread(params: Params, parts: frozenset[str], tasks: int) -> Params:
    """Give each task its own view of some parts, so that each gets its own gradient."""
    return {
        name: value.expand(tasks, *value.shape[1:])
        if part_of(name) in parts and value.shape[0] < tasks
        else value
        for name, value in params.items()
    }


def descend(
    losses: Sequence[Losses],
    start: Params,
    inner: Inner,
    *,
    through: bool = False,
    heard: Callable[[int, dict[str, Tensor]], None] | None = None,
) -> Adapted:
    """Fit ``start``, which has a copy of the adapted parts for each task, to the tasks' losses.

    Args:
        losses: Step ``s`` descends ``losses[s % len(losses)]``.
        start: Left as it is.
        inner: The rule.
        through: Keep the graph, so that the outcome can be differentiated by the start.
        heard: Called with each step's number and losses.
    """
    current, state = dict(start), None
    old = current
    for step in range(inner.steps):
        leaves = {n: p for n, p in current.items() if part_of(n) in inner.parts}
        if not through:
            leaves = {n: p.detach().requires_grad_() for n, p in leaves.items()}
        point = current | leaves
        values = measure(losses[step % len(losses)], point, inner.terms)
        if heard:
            heard(step, values)
        last = step == inner.steps - 1
        kept = [t for t in inner.terms if t.loss not in inner.old]
        if inner.old and last:
            grads = separate_gradient(inner.terms, values, leaves, through)
            partial = separate_gradient(kept, values, leaves, through)
        else:
            grads = merged_gradient(inner.terms, values, leaves, through)
            partial = grads
        grads = {n: g for n, g in grads.items() if n in leaves}
        if inner.proximal:
            grads = {n: g + inner.proximal * (leaves[n] - start[n]) for n, g in grads.items()}
        if inner.clip:
            grads = clip(grads, inner.clip, tasks=True)
        state = inner.optimizer.init(leaves) if state is None else state
        share = 1 - step / inner.steps if inner.decay else 1.0
        rates: dict[str, Tensor | float] = {n: inner.rate * inner.scale(n) * share for n in grads}
        with torch.set_grad_enabled(through):
            moved, new_state = inner.optimizer.step(leaves, grads, state, rates)
            if inner.old and last:
                old = current | inner.optimizer.step(leaves, partial, state, rates)[0]
        state = new_state
        current = current | moved
    return Adapted(current, old if inner.old else current)
