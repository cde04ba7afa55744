"""Adaptation: a few labelled sentences and shared parameters -> parameters of each task.

Meta-training takes a step or a few and may differentiate through them; `hardner.adapt.fit` takes
many by the same `inner_step`. Any number of tasks adapt together.

What a step descends are terms. A term names a loss and, for each part of the network, how its
gradient counts there: positive to descend, negative to ascend, absent or zero not at all. An
adversarial term therefore reads ``{"encoder": -weight, "critic": 1}``. A gradient-reversal layer
would do the same for the first derivative, but make every second one wrong.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.errors import HardnerError
from hardner.meta.optim import Optimizer, State, clip
from hardner.model.layers import SCORING, Mode, Params, part_of
from hardner.model.tagger import Tagger

Losses = Callable[[Params, Collection[str], Collection[str]], dict[str, Tensor]]
"""(parameters, names of losses, those that must not reach the encoder) -> one loss a task, [M]."""


@dataclass(frozen=True)
class Term:
    """A loss, and how each part learns from it."""

    loss: str
    signs: Mapping[str, float]
    on: Literal["support", "query"] = "query"
    """The sentences it is measured on."""
    at: Literal["start", "old", "new"] = "new"
    """The parameters it is measured at: before, or after the inner steps (`InnerLoop.old`)."""

    @property
    def parts(self) -> frozenset[str]:
        """The parts that learn from it."""
        return frozenset(part for part, sign in self.signs.items() if sign)


def tag_term(**signs: float) -> Term:
    """The tagging loss; without arguments encoder and decoder descend it."""
    return Term("tag", signs or {"encoder": 1.0, "decoder": 1.0})


def sentence_tag_term() -> Term:
    """The tagging loss in the unit of the domain loss: a sum over the words of a sentence."""
    return Term("tag of sentences", {"encoder": 1.0, "decoder": 1.0})


def domain_term(weight: float) -> Term:
    """The domain loss: the critic descends it, the encoder by ``weight`` (negative: ascends)."""
    return Term("domain", {"encoder": weight, "critic": 1.0})


def label_term(weight: float, frozen: bool = False) -> Term:
    """The loss of decoders made of label texts; the encoder descends it unless it is frozen."""
    return Term("label", {"encoder": 0.0 if frozen else weight, "labels": weight})


def learners(terms: Sequence[Term]) -> frozenset[str]:
    """The parts that learn from any of the terms."""
    return frozenset().union(*(term.parts for term in terms))


def of_parts(params: Params, parts: Collection[str]) -> Params:
    """The parameters of some parts."""
    return {name: value for name, value in params.items() if part_of(name) in parts}


def adversarial(terms: Sequence[Term]) -> bool:
    """Whether no single function is minimised: a term is ascended, or counts unevenly."""
    signs = [{sign for sign in term.signs.values() if sign} for term in terms]
    return any(len(found) > 1 or min(found, default=0) < 0 for found in signs)


def measure(losses: Losses, params: Params, terms: Sequence[Term]) -> dict[str, Tensor]:
    """The terms' losses, for `merged_gradient`: cut off from an encoder that has no sign."""
    names = [term.loss for term in terms]
    if len(set(names)) < len(names):
        raise HardnerError(f"a loss stands twice among the terms: {', '.join(names)}")
    cut = {term.loss for term in terms if not term.signs.get("encoder")}
    return losses(params, names, cut)


def merged_gradient(
    terms: Sequence[Term], values: Params, leaves: Params, create_graph: bool = False
) -> Params:
    """The signed gradient of all terms at the leaves by one backward pass.

    The sum is weighted with the encoder's signs. Any other part has a gradient of one term alone,
    which only has to be rescaled from the encoder's sign to its own.
    """
    scale: dict[str, float] = {}
    total = torch.zeros((), device=next(iter(values.values())).device)
    for term in terms:
        # With no sign for the encoder the loss is cut off from it (`measure`), so any weight does.
        anchor = term.signs.get("encoder") or 1.0
        total = total + anchor * values[term.loss].sum()
        for part in term.parts - {"encoder"}:
            if part in scale:
                raise HardnerError(f"two terms move {part}; only the encoder may follow several")
            scale[part] = term.signs[part] / anchor
    grads = _gradient(total, of_parts(leaves, {*scale, "encoder"}), create_graph)
    return {n: g if (s := scale.get(part_of(n), 1.0)) == 1.0 else s * g for n, g in grads.items()}


def separate_gradient(
    terms: Sequence[Term], values: Params, leaves: Params, create_graph: bool = False
) -> Params:
    """The signed gradient by one backward pass a term.

    Needed where a part also acts through the inner steps, so that every term reaches every part
    and only the signs say which of that counts.
    """
    sums: Params = {}
    for term in terms:
        wanted = of_parts(leaves, term.parts)
        grads = _gradient(values[term.loss].sum(), wanted, create_graph, retain=True)
        sums = add_gradients(sums, {n: term.signs[part_of(n)] * grad for n, grad in grads.items()})
    return sums


def add_gradients(one: Params, other: Params) -> Params:
    """The sum of two gradients; what one of them alone has stays as it is."""
    return one | {n: one[n] + grad if n in one else grad for n, grad in other.items()}


def _gradient(total: Tensor, leaves: Params, create_graph: bool, retain: bool = False) -> Params:
    if not leaves:
        return {}
    # `materialize_grads`: a parameter that a loss does not touch has a gradient of zero, not None.
    grads = torch.autograd.grad(
        total,
        list(leaves.values()),
        create_graph=create_graph,
        retain_graph=retain or create_graph,
        materialize_grads=True,
    )
    return dict(zip(leaves, grads, strict=True))


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
