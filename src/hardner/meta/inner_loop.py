"""Adaptation: a tagger's parameters and a few labelled sentences -> parameters that fit them.

This is the only place where that happens. Meta-training calls it with a step or a few and may
differentiate through it; evaluation and the user's command call it with many. Any number of tasks
adapt together.
"""

from collections.abc import Callable, Collection, Sequence

from torch import Tensor

from hardner.batch import Batch
from hardner.meta.inner import AdaptedParams, InnerLoop, expand_per_task, run_inner_loop
from hardner.meta.terms import Losses
from hardner.model.layers import SCORING, Mode, Params, part_of
from hardner.model.tagger import Tagger


def losses_on(tagger: Tagger, batch: Batch, mode: Mode = SCORING) -> Losses:
    """The tagger's losses on a batch, as a function of its parameters."""

    def losses(params: Params, names: Collection[str], cut: Collection[str]) -> dict[str, Tensor]:
        return tagger.losses(params, batch, names, mode, cut)

    return losses


def adapt_tasks(
    tagger: Tagger,
    params: Params,
    supports: Sequence[Batch],
    inner: InnerLoop,
    mode: Mode = SCORING,
    *,
    through: bool = False,
    on_progress: Callable[[int, dict[str, Tensor]], None] | None = None,
) -> AdaptedParams:
    """Fit the parameters to the supports, each task on its own copy of the adapted parts.

    Args:
        tagger: The network.
        params: Where to start, shared or with a copy for each task; left as they are.
        supports: Step ``s`` learns from ``supports[s % len(supports)]``.
        inner: The rule.
        mode: How to compute the losses.
        through: Keep the graph, so that the outcome can be differentiated by the start.
        heard: Called with each step's number and losses.
    """
    start = expand_per_task(params, inner.parts, supports[0].tasks)
    if inner.fresh:  # a product keeps the graph that an exact meta-gradient goes through
        start |= {name: 0 * value for name, value in start.items() if part_of(name) == "decoder"}
    if inner.prototypes:
        start = tagger.prototypes(start, supports[0], mode)
    losses = [losses_on(tagger, batch, mode) for batch in supports]
    return run_inner_loop(losses, start, inner, through=through, on_progress=on_progress)
