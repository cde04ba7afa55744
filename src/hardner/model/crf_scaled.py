"""Sums over paths as scaled products of probabilities, token by token: the kernel for a CPU.

A chain is read from both ends at once: its mirror image, with the steps transposed, is one more
chain of the batch. Everything is exponentiated once, so that a token is a small matrix product
and an elementwise one. Scores too far apart for that underflow; this is detected, more digits are
tried, and then the answer is None.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_EVERY = 2  # tokens between two divisions
_LEAST = {torch.float32: 1e-14, torch.float64: 1e-70}
"""What underflows, below 1e-37 or 1e-307, is weighed against a total times a divisor; both must
be at least this large. In float64 that also keeps second derivatives from overflowing."""


@dataclass(frozen=True)
class Scaled:
    """Sums over the paths up to and from each step, in units of their own; batch last."""

    steps: Tensor  # [M, S, S], exp(steps - the largest)
    reached: Tensor  # [T + 1, M, S, B], up to the tag that a step leaves
    left: Tensor  # [T + 1, M, S, B], from the tag that a step reaches
    joint: Tensor  # [T + 1, M, S, B], through the tag that a step leaves
    total: Tensor  # [T + 1, M, 1, B], through any
    unit: Tensor  # [M, 1, B], the log of the first total's unit

    def log_partition(self) -> Tensor:
        return (self.total[0].log() + self.unit).squeeze(1)

    def expected(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        share = weights.unsqueeze(1).to(self.total.dtype) / self.total  # [T + 1, M, 1, B]
        tags = self.joint[1:] * share[1:]
        with torch.autocast("cpu", enabled=False):
            steps = (self.reached @ (self.left * share).mT).sum(0) * self.steps  # [M, S, S]
        return tags.permute(1, 3, 0, 2), steps

    def pairs(self) -> Tensor:
        moves = self.reached.unsqueeze(3) * (self.left / self.total).unsqueeze(2)
        moves = moves * self.steps.unsqueeze(-1)  # [T + 1, M, S, S, B]
        return moves[:-1].permute(1, 4, 0, 2, 3)


def sweep_scaled(emissions: Tensor, steps: Tensor) -> Scaled | None:
    """Both directions of a chain, unless its scores are too far apart."""
    quick = emissions.dtype == torch.float32 and not torch.is_grad_enabled()
    with torch.autocast("cpu", enabled=False):
        found = _sweep(emissions, steps) if quick else None
        return found or _sweep(emissions.double(), steps.double())


def _sweep(emissions: Tensor, steps: Tensor) -> Scaled | None:
    weights = emissions.permute(2, 0, 3, 1).contiguous().exp()  # [T, M, S, B]
    largest = steps.detach().amax((1, 2), keepdim=True)  # [M, 1, 1]
    steps = (steps - largest).exp()
    states, divisors = _products(
        torch.cat((weights, weights.flip(0)), dim=1), torch.cat((steps.mT, steps))
    )
    reached, left = states.chunk(2, dim=1)
    left = left.flip(0)
    joint = reached * (steps @ left)
    total = joint.sum(2, keepdim=True)
    least = _LEAST[weights.dtype]
    if not (total > least).all() or not (divisors > least).all():
        return None
    unit = divisors.chunk(2, dim=1)[1].double().log().sum(0) + largest * len(total)
    return Scaled(steps, reached, left, joint, total, unit)


def _products(weights: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the paths up to each token's tag, and what they were divided by now and then.

    weights [T, D, S, B], steps [D, S, S] (to, from) -> [T + 1, D, S, B], [1 + T / 2, D, 1, B].
    """
    state = torch.zeros_like(weights[0])
    state[:, -1] = 1
    states, divisors = [state], [torch.ones_like(state[:, :1])]
    for t, weight in enumerate(weights.unbind(0), start=1):
        state = torch.bmm(steps, state) * weight
        if t % _EVERY == 0:
            divisors.append(state.detach().sum(1, keepdim=True))
            state = state / divisors[-1]
        states.append(state)
    return torch.stack(states), torch.stack(divisors)
