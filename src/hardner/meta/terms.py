"""Loss terms, and which parts of the network descend or ascend them.

A term names a loss and, for each part of the network, how its gradient counts there: positive to
descend, negative to ascend, absent or zero not at all. An adversarial term therefore reads
``{"encoder": -weight, "critic": 1}``. A gradient-reversal layer would do the same for the first
derivative, but make every second one wrong.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hardner.errors import HardnerError
from hardner.model.layers import Params, part_of

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
