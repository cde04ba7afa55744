"""One iteration of any method: adapt each task, then take the gradient of the outcome."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.meta.distributed import ALONE, Ranks
from hardner.meta.hypergradient import MetaGradient, check_meta_gradient, implicit
from hardner.meta.inner import (
    InnerLoop,
    Losses,
    Term,
    adapt_tasks,
    expand_per_task,
    learners,
    losses_on,
    measure,
    merged_gradient,
    of_parts,
    separate_gradient,
)
from hardner.meta.sparse_embedding import gather_rows, scatter_rows
from hardner.model.layers import Mode, Params, part_of
from hardner.model.tagger import Tagger

Weighting = Literal["uniform", "hardness"]
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Objective:
    """What an iteration descends: how tasks adapt, the terms after it, and the tasks' weights."""

    outer: tuple[Term, ...]
    inner: InnerLoop = field(default_factory=lambda: InnerLoop(steps=0))
    weighting: Weighting = "uniform"
    meta_gradient: MetaGradient = "first"
    iterations: int = 5
    """Of conjugate gradient, where the meta-gradient is implicit."""
    shares: tuple[float, ...] = ()
    """What each domain's losses count, in the domains' order: the lambda_i of MT-BioNER's Eq. 1;
    none: all the same."""
    temperature: float = 1.0
    """Of hardness weights: above 1 they are more even than the losses, below 1 less."""

    def __post_init__(self) -> None:
        check_meta_gradient(self.meta_gradient, self.inner, self.outer)

    @property
    def bilevel(self) -> bool:
        """Whether tasks adapt at all."""
        return self.inner.steps > 0 or self.inner.prototypes

    @property
    def learners(self) -> frozenset[str]:
        """The parts that an iteration moves."""
        return learners(self.outer)


class OuterResult(NamedTuple):
    """What an iteration found."""

    values: list[Tensor]  # the loss of each outer term, [M] each
    weights: dict[str, Tensor]  # the weight of each task for each part, [M] each
    grads: Params  # the gradient of the shared parameters, [1, ...] each


def outer_step(
    tagger: Tagger,
    objective: Objective,
    params: Params,
    supports: Sequence[Batch],
    query: Batch,
    mode: Mode,
    ranks: Ranks = ALONE,
) -> OuterResult:
    """Adapt the shared parameters to each task's support and take the gradient of the outcome.

    Where ``mode`` says that these are but some of the tasks, the result is of them all.
    """
    parts, inner = objective.learners, objective.inner
    mode = replace(mode, twice=inner.steps > 0 and objective.meta_gradient != "first")
    first, tasks = mode.among or (0, query.tasks)
    # A gradient a task is needed where tasks adapt, or are weighed by what they lose.
    per_task = objective.bilevel or objective.weighting != "uniform"
    start, rows = dict(params), dict[str, Tensor]()
    if per_task:
        moving, both = parts | inner.parts, (*supports, query)
        sparse, (*supports, query), rows = gather_rows(tagger.encoder, params, both, moving)
        start = expand_per_task(sparse, moving, query.tasks)
    through = objective.meta_gradient == "exact"
    if through:
        start = _leaves(start, parts | inner.parts)
    points = {"start": start, "old": start, "new": start}
    if objective.bilevel:
        new, old = adapt_tasks(tagger, start, supports, inner, mode, through=through)
        points |= {"old": old, "new": new}

    values: dict[int, Tensor] = {}
    grads: Params = {}
    # Terms on the same sentences at the same parameters share a forward and a backward pass.
    places = [(term.on, term.at) for term in objective.outer]
    for on, at in sorted(set(places)):
        terms = {i: term for i, term in enumerate(objective.outer) if places[i] == (on, at)}
        batches = supports if on == "support" else [query]
        for batch in batches:
            losses = _with_shares(losses_on(tagger, batch, mode), objective.shares, batch)
            own = list(terms.values())
            if through:
                found = losses(points[at], [t.loss for t in own], ())
                slope = separate_gradient(own, found, of_parts(start, parts))
            else:
                leaves = _leaves(of_parts(points[at], learners(own)), parts)
                found = measure(losses, points[at] | leaves, own)
                slope = merged_gradient(own, found, leaves)
            _add_mean(grads, slope, len(batches))
            _add_mean(values, {i: found[t.loss].detach() for i, t in terms.items()}, len(batches))
    if objective.meta_gradient == "implicit" and objective.bilevel:
        inside = _mean([losses_on(tagger, batch, mode) for batch in supports])
        grads = implicit(inside, points["new"], grads, inner, objective.iterations)
    ordered = ranks.gathered([values[i] for i in range(len(objective.outer))], first, tasks)
    how = objective.weighting, objective.outer, ordered, objective.temperature
    weights = task_weights(*how)
    if per_task:
        here = {part: weight[first : first + query.tasks] for part, weight in weights.items()}
        combined = _combine(grads, here, rows, params)
    else:
        combined = {n: g.detach() / tasks for n, g in grads.items()}
    return OuterResult(ordered, weights, ranks.summed(combined))


def hardness_weights(losses: Tensor, temperature: float = 1.0) -> Tensor:
    """HGDA Eq. 2: gamma_i = L_i / sum_j L_j, over the tasks: [M] -> [M].

    With a temperature T, each L is first raised to 1 / T: T = 1 is the paper's, and weights become
    even as T grows.
    """
    losses = losses.detach().clamp(min=0)
    if temperature != 1:  # of shares of the largest, so that no power overflows
        losses = (losses / losses.max().clamp(min=1e-30)) ** (1 / temperature)
    total = losses.sum()
    even = torch.full_like(losses, 1 / losses.shape[0])
    return torch.where(total > 0, losses / total.clamp(min=1e-30), even)


def task_weights(
    weighting: Weighting,
    terms: Sequence[Term],
    values: Sequence[Tensor],
    temperature: float = 1.0,
) -> dict[str, Tensor]:
    """The weight of each task for each part that learns: part -> [M], summing to 1.

    A part's hardness is that of what it learns from: the encoder's L_lab + lambda L_cls, the
    decoder's L_lab, the classifier's L_cls. An adversarial sign does not make a task easier.
    """
    weights = {}
    for part in sorted(learners(terms)):
        pairs = zip(terms, values, strict=True)
        own = [abs(term.signs[part]) * value for term, value in pairs if part in term.parts]
        total = torch.stack(own).sum(0)
        even = torch.full_like(total, 1 / total.shape[0]).detach()
        hard = weighting == "hardness"
        weights[part] = hardness_weights(total, temperature) if hard else even
    return weights


def _with_shares(losses: Losses, shares: Sequence[float], batch: Batch) -> Losses:
    """MT-BioNER Eq. 1: L = sum_i lambda_i L_i, over the domains."""
    if not shares:
        return losses
    # A look-up in a new tensor would wait for the host, and could not be captured.
    scale = torch.stack([share * (batch.domains == i) for i, share in enumerate(shares)]).sum(0)

    return lambda *asked: {name: scale * loss for name, loss in losses(*asked).items()}


def _mean(every: Sequence[Losses]) -> Losses:
    """What successive steps on several supports descend in the long run."""

    def mean(params: Params, names: Collection[str], cut: Collection[str]) -> Params:
        found = [losses(params, names, cut) for losses in every]
        return {name: torch.stack([f[name] for f in found]).mean(0) for name in names}

    return mean


def _add_mean(sums: dict[_Key, Tensor], new: Mapping[_Key, Tensor], of: int) -> None:
    """Add one of several to their mean."""
    for key, value in new.items():
        share = value if of == 1 else value / of
        sums[key] = sums[key] + share if key in sums else share


def _leaves(params: Params, parts: frozenset[str]) -> Params:
    return {n: p.detach().requires_grad_() if part_of(n) in parts else p for n, p in params.items()}


def _combine(
    grads: Params, weights: Mapping[str, Tensor], rows: Mapping[str, Tensor], params: Params
) -> Params:
    """HGDA Alg. 1, lines 10 to 12: sum_i gamma_i g_i, the gammas of each part its own.

    A gradient at some ``rows`` of a parameter becomes one at the whole.
    """
    combined = {}
    for name, grad in grads.items():
        weight, grad = weights[part_of(name)].to(grad.dtype), grad.detach()
        if name in rows:
            combined[name] = scatter_rows(weight[:, None, None] * grad, rows[name], params[name])
        else:
            combined[name] = torch.tensordot(weight, grad, dims=1).unsqueeze(0)
    return combined


def query_loss(
    tagger: Tagger, objective: Objective, params: Params, supports: Sequence[Batch], query: Batch
) -> Tensor:
    """The tagging loss on the query after the method's own adaptation, without learning: [M]."""
    if objective.bilevel:
        parts, both = objective.inner.parts, (*supports, query)
        params, (*supports, query), _ = gather_rows(tagger.encoder, params, both, parts)
        params = adapt_tasks(tagger, params, supports, objective.inner).new
    with torch.no_grad():
        return tagger.losses(params, query, ["tag"])["tag"]
