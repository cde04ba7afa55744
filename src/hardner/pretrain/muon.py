"""Muon: momentum whose matrices are made orthogonal (Jordan et al., 2024); AdamW for the rest.

Matrices inside the transformer take orthogonalised steps, scaled so that AdamW's learning rate
suits them (Liu et al., 2025); tables, norms and biases take AdamW's.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

BETAS = (0.9, 0.98)
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
    ) -> None:
        """Args: ``state`` is what `state` held when an earlier run stopped."""
        self.params, self.weight_decay = dict(params), weight_decay
        self.state: dict[str, Tensor] = dict(state or {})
        self.steps = int(self.state.pop("steps", torch.zeros(())).item())
        for name, value in self.params.items():
            kinds = ("momentum",) if _is_matrix(name, value) else ("first", "second")
            for kind in kinds:
                self.state.setdefault(f"{kind}.{name}", torch.zeros_like(value))

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], rate: float) -> None:
        """One step against the gradients."""
        self.steps += 1
        for name, value in self.params.items():
            grad = grads[name]
            if _is_matrix(name, value):
                momentum = self.state[f"momentum.{name}"].mul_(MOMENTUM).add_(grad)
                move = orthogonal(grad + MOMENTUM * momentum)
                move = move * (0.2 * max(value.shape[-2:]) ** 0.5)
            else:
                first = self.state[f"first.{name}"].lerp_(grad, 1 - BETAS[0])
                second = self.state[f"second.{name}"].lerp_(grad * grad, 1 - BETAS[1])
                scale = (1 - BETAS[1] ** self.steps) ** 0.5 / (1 - BETAS[0] ** self.steps)
                move = scale * first / (second.sqrt() + 1e-8)
            if value.dim() > 2:
                value.mul_(1 - rate * self.weight_decay)
            value.sub_(move, alpha=rate)

    def saved(self) -> dict[str, Tensor]:
        """All that a later run needs to go on."""
        return {**self.state, "steps": torch.tensor(float(self.steps))}


def _is_matrix(name: str, value: Tensor) -> bool:
    return ".layer" in name and value.dim() == 3
