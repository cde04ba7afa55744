"""Sums over paths token by token, in log-space: the kernel for very many tags on a GPU.

A chain is read from both ends at once: its mirror image, with the steps transposed, is one more
chain of the batch. Nothing branches on data, so that the whole can be captured in a graph. It
works with any finite scores; its memory grows with ``S ** 2``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from hardner.model.crf_chain import FLOOR, exact, log_sums

_MOST_CELLS = 1 << 26
"""Probabilities of pairs that are worked out at once."""


@dataclass(frozen=True)
class LinePosterior:
    """Log-sums over the paths up to the tag before each token, and from its own."""

    steps: Tensor  # [M, S, S]
    reached: Tensor  # [M, B, T, S], up to the tag before a token, less the largest
    left: Tensor  # [M, B, T, S], from a token's tag, itself included, less the largest
    whole: Tensor  # [M, B, S], through each sentence by its last tag, less the unit
    unit: Tensor  # [M, B], in float64

    def log_partition(self) -> Tensor:
        return (self.whole.logsumexp(-1) + self.unit).to(self.whole.dtype)

    def expected(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        steps, tags = torch.zeros_like(self.steps), []
        for pairs in self._pairs():
            share = pairs * weights[..., None, None, None]
            tags.append(share.sum(-2))
            steps = steps + share.sum((1, 2))
        steps[:, :, -1] += tags[-1][:, :, -1].sum(1)
        return torch.cat(tags, dim=2), steps

    def pairs(self) -> Tensor:
        return torch.cat(list(self._pairs()), dim=2)

    def _pairs(self) -> Iterator[Tensor]:
        """Probabilities of the tag before a token and its own, some tokens at a time."""
        parts = ceil(self.reached.numel() * self.reached.shape[-1] / _MOST_CELLS)
        both = (part.chunk(parts, dim=2) for part in (self.reached, self.left))
        for reached, left in zip(*both, strict=True):
            scores = reached.unsqueeze(-1) + self.steps[:, None, None] + left.unsqueeze(-2)
            yield scores.flatten(-2).softmax(-1).view_as(scores)  # [M, B, n, S, S]


def sweep_line(emissions: Tensor, steps: Tensor) -> LinePosterior:
    """Both directions of a chain."""
    emissions, steps = exact(emissions).clamp(min=FLOOR), exact(steps).clamp(min=FLOOR)
    ways = torch.cat((steps, steps.mT)).unsqueeze(1)  # [2M, 1, S, S]
    both = torch.cat((emissions, emissions.flip(2)))  # [2M, B, T, S]
    state = torch.full_like(both[:, :, 0], FLOOR)
    state[..., -1] = 0
    states, units = [state], []
    for emission in both.unbind(2):
        state = log_sums(state.unsqueeze(-1) + ways, -2) + emission
        units.append(state.detach().amax(-1, keepdim=True))
        state = state - units[-1]  # a sum that grows with the tokens would lose digits
        states.append(state)
    reached, left = torch.stack(states, dim=2).chunk(2)  # [M, B, T + 1, S]
    whole = reached[:, :, -1] + steps[:, None, :, -1]
    unit = torch.cat(units, dim=-1).chunk(2)[0].double().sum(-1)
    return LinePosterior(steps, reached[:, :, :-1], left[:, :, 1:].flip(2), whole, unit)
