"""Muon: momentum whose matrices are made orthogonal (Jordan et al., 2024); AdamW for the rest.

Matrices inside the transformer take orthogonalised steps, scaled so that AdamW's learning rate
suits them (Liu et al., 2025); tables, norms and biases take AdamW's. Weight decay is decoupled
(Loshchilov and Hutter, 2019), and for matrices and tables only.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from hardner.meta.optim import Optimizer
from hardner.model.layers import Params

BETAS = (0.9, 0.98)
MOMENTUM = 0.95


def orthogonal(matrix: Tensor, rounds: int = 5) -> Tensor:
    """The nearest matrix with singular values about 1: a quintic Newton-Schulz iteration."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        square = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    out: Tensor = (x.transpose(-1, -2) if tall else x).to(matrix.dtype)
    return out


class Muon:
    """Optimises named tensors in place."""

    def __init__(
        self,
        params: Mapping[str, Tensor],
        weight_decay: float = 0.0,
        state: Mapping[str, Tensor] | None = None,
        steps: int = 0,
        late: Collection[str] = (),
    ) -> None:
        """Args: ``state``, ``steps`` of an earlier session; ``late`` tensors skip early steps."""
        self.params = {name: value.requires_grad_() for name, value in params.items()}
        self.weight_decay, self.steps = weight_decay, steps
        self.late = frozenset(late)
        self.state: Params = dict(state or {})
        for name, value in params.items():
            for kind in ("momentum",) if _is_matrix(name, value) else ("first", "second"):
                self.state.setdefault(f"{kind}.{name}", torch.zeros_like(value).detach())

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], rate: float, early: bool = False) -> None:
        """One step down the gradients; an ``early`` one leaves the ``late`` tensors as they are."""
        self.steps += 1
        groups: dict[tuple[int, ...], list[str]] = {}
        for name, value in self.params.items():
            if not (early and name in self.late):
                alike = tuple(value.shape) if _is_matrix(name, value) else (value.dim(),)
                groups.setdefault(alike, []).append(name)
        for alike, names in groups.items():
            kind = self._orthogonalised if len(alike) > 1 else self._adapted
            kind(names, [grads[n] for n in names], rate)

    def _orthogonalised(self, names: list[str], grads: list[Tensor], rate: float) -> None:
        """Muon for matrices of one shape, all at once: they are many and small."""
        values = [self.params[n] for n in names]
        momenta = [self.state[f"momentum.{n}"] for n in names]
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, grads)
        ahead = torch.cat(torch._foreach_add(grads, momenta, alpha=MOMENTUM))  # Nesterov momentum
        scale: float = 0.2 * max(ahead.shape[-2:]) ** 0.5
        moves = orthogonal(ahead).mul_(scale).split(1)
        torch._foreach_mul_(values, 1 - rate * self.weight_decay)
        torch._foreach_sub_(values, moves, alpha=rate)

    def _adapted(self, names: list[str], grads: list[Tensor], rate: float) -> None:
        """AdamW, for embedding tables (with weight decay) or for norms and biases (without)."""
        decays = self.params[names[0]].dim() > 2
        rule = Optimizer("adamw", betas=BETAS, weight_decay=self.weight_decay if decays else 0.0)
        own = {n: self.params[n] for n in names}
        done = torch.tensor(self.steps - 1.0, dtype=torch.float64, device=grads[0].device)
        given = dict(zip(names, grads, strict=True))
        rule.move(own, given, self.state | {"steps": done}, dict.fromkeys(names, rate))


def _is_matrix(name: str, value: Tensor) -> bool:
    return ".layer" in name and value.dim() == 3
