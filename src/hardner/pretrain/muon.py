"""Muon: momentum whose matrices are made orthogonal (Jordan et al., 2024); AdamW for the rest.

Matrices inside the transformer take orthogonalised steps, scaled so that AdamW's learning rate
suits them (Liu et al., 2025); tables, norms and biases take AdamW's. Weight decay is decoupled
(Loshchilov and Hutter, 2019), and for matrices and tables only.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from hardner.model.layers import Params

BETAS = (0.9, 0.98)
EPSILON = 1e-8
MOMENTUM = 0.95


def orthogonal(matrix: Tensor, rounds: int = 5) -> Tensor:
    """The nearest matrix with singular values about 1, by a quintic Newton-Schulz iteration."""
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
    """Moves named tensors in place."""

    def __init__(
        self,
        params: Mapping[str, Tensor],
        weight_decay: float = 0.0,
        state: Mapping[str, Tensor] | None = None,
        steps: int = 0,
        late: Collection[str] = (),
    ) -> None:
        """Args: ``state`` and ``steps`` are where an earlier run stopped; ``late`` join late."""
        self.params = {name: value.requires_grad_() for name, value in params.items()}
        self.weight_decay, self.steps = weight_decay, steps
        self.late = frozenset(late)
        self.state: Params = dict(state or {})
        for name, value in params.items():
            for kind in ("momentum",) if _is_matrix(name, value) else ("first", "second"):
                self.state.setdefault(f"{kind}.{name}", torch.zeros_like(value).detach())

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], rate: float, early: bool = False) -> None:
        """One step against the gradients; an ``early`` one leaves what joins late as it is."""
        self.steps += 1
        for name, value in self.params.items():
            if early and name in self.late:
                continue
            kind = self._orthogonalised if _is_matrix(name, value) else self._adapted
            move = kind(name, grads[name])
            if value.dim() > 2:
                value.mul_(1 - rate * self.weight_decay)
            value.sub_(move, alpha=rate)

    def _orthogonalised(self, name: str, grad: Tensor) -> Tensor:
        momentum = self.state[f"momentum.{name}"].mul_(MOMENTUM).add_(grad)
        scale: float = 0.2 * max(grad.shape[-2:]) ** 0.5
        return orthogonal(grad + MOMENTUM * momentum) * scale

    def _adapted(self, name: str, grad: Tensor) -> Tensor:
        first = self.state[f"first.{name}"].lerp_(grad, 1 - BETAS[0])
        second = self.state[f"second.{name}"].lerp_(grad * grad, 1 - BETAS[1])
        scale1, scale2 = (1 - beta**self.steps for beta in BETAS)
        return (first / scale1) / ((second / scale2).sqrt() + EPSILON)


def _is_matrix(name: str, value: Tensor) -> bool:
    return ".layer" in name and value.dim() == 3
