"""Meta-gradients: how the loss after adaptation depends on the parameters before it.

* ``first``: the query gradient at the adapted point, as if adaptation added a constant;
* ``exact``: through the unrolled inner steps;
* ``implicit``: from the optimality of a proximal inner problem, (I + H / rho) x = g, by conjugate
  gradient on Hessian-vector products, wherever the steps went (Rajeswaran et al., 2019).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from hardner.errors import HardnerError
from hardner.meta.inner import InnerLoop, Losses, Term, adversarial, merged_gradient, of_parts
from hardner.model.layers import Params

MetaGradient = Literal["first", "implicit", "exact"]


def check_meta_gradient(
    meta_gradient: MetaGradient, inner: InnerLoop, outer: Sequence[Term]
) -> None:
    """Refuse what has no meaning, with the reason."""
    if meta_gradient != "implicit":
        return
    if adversarial(inner.terms):
        raise HardnerError(
            "implicit meta-gradients need an inner problem that minimises one function: an "
            "adversarial term, or one that parts follow by different amounts, has no symmetric "
            "positive Hessian, and conjugate gradient is wrong there; use exact or first"
        )
    if not inner.proximal:
        raise HardnerError("implicit meta-gradients need a proximal inner problem: set it above 0")
    if any((term.on, term.at) != ("query", "new") for term in outer):
        raise HardnerError(
            "implicit meta-gradients are of losses on the query set after adaptation; a term "
            "measured elsewhere has none"
        )


def implicit(
    losses: Losses, adapted: Params, grads: Params, inner: InnerLoop, iterations: int = 10
) -> Params:
    """Turn query gradients at the adapted point into gradients at the start.

    Args:
        losses: Of the support, which the inner problem minimises.
        adapted: Its solution, each task its own.
        grads: Of all parts that learn outside, [M, ...].
        inner: Its terms, adapted parts, and proximal strength rho.
        iterations: Of conjugate gradient.
    """
    solution = {n: p.detach().requires_grad_() for n, p in adapted.items() if n in grads}
    point = adapted | solution
    # One gradient with a graph; every Hessian-vector product below is one more pass through it.
    values = losses(point, [t.loss for t in inner.terms], ())
    slope = merged_gradient(inner.terms, values, solution, create_graph=True)
    slope = of_parts(slope, inner.parts)
    moved = {n: solution[n] for n in slope}
    rho = inner.proximal

    def curved(x: Params) -> Params:
        """(I + H / rho) x."""
        product = _vector_product(slope, moved, x)
        return {n: v + product[n] / rho for n, v in x.items()}

    x = conjugate_gradient(curved, {n: grads[n] for n in slope}, iterations)
    # What is not adapted moves the solution too: by -(rho I + H)^-1 d2L / (d theta d psi), and
    # (rho I + H)^-1 g = x / rho.
    still = {n: p for n, p in solution.items() if n not in slope}
    mixed = _vector_product(slope, still, x) if still else {}
    return {n: grads[n] - mixed[n] / rho for n in still} | x


def _vector_product(slope: Params, by: Mapping[str, Tensor], x: Params) -> Params:
    """The derivative of ``<slope, x>``: Hessian-vector products, task by task."""
    out = torch.autograd.grad(
        [slope[n] for n in x],
        list(by.values()),
        grad_outputs=[x[n].detach() for n in x],
        retain_graph=True,
        materialize_grads=True,
    )
    return dict(zip(by, out, strict=True))


def conjugate_gradient(
    product: Callable[[Params], Params], goal: Params, iterations: int
) -> Params:
    """Solve ``product(x) = goal`` for every task at once.

    A task stops where it meets a direction without positive curvature, so that an inner problem
    whose proximal term is too weak to make it convex gives a shortened, never a wild, solution.
    """
    x = {n: torch.zeros_like(g) for n, g in goal.items()}
    rest = {n: g.detach().clone() for n, g in goal.items()}
    way, size = rest, _dot(rest, rest)
    going = torch.ones_like(size, dtype=torch.bool)
    for _ in range(iterations):
        image = product(way)
        curvature = _dot(way, image)
        going = going & (curvature > 1e-6 * _dot(way, way)) & (size > 0)
        alpha = torch.where(going, size / torch.where(going, curvature, 1.0), 0.0)
        x = _add(x, alpha, way)
        rest = _add(rest, -alpha, image)
        new = _dot(rest, rest)
        way = _add(rest, torch.where(going, new / torch.where(size > 0, size, 1.0), 0.0), way)
        size = new
    return x


def _dot(a: Params, b: Params) -> Tensor:
    """Per task: [M]."""
    return torch.stack([(a[n] * b[n]).flatten(1).sum(1) for n in a]).sum(0)


def _add(a: Params, scale: Tensor, b: Params) -> Params:
    """a + scale * b, the scale per task."""
    return {n: a[n] + scale.view(-1, *[1] * (a[n].dim() - 1)) * b[n] for n in a}
