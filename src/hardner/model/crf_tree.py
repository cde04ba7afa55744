"""Sums and maxima over paths by joining ever longer stretches: the kernel for a GPU.

A token is a matrix of scores from the tag before it to its own; stretches join by a matrix
product in which sums stand for products and log-sums (or maxima) for sums. That is associative,
so that ``T`` tokens take ``log2 T`` rounds. Probabilities come back the same way, from the
longest stretches to the tokens. Nothing branches on data: the whole can be captured in a graph.
It works in log-space, with any finite scores; its memory grows with ``S ** 3``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hardner.model.crf_chain import FLOOR, exact, log_sums

Reduce = Callable[[Tensor, int], Tensor]
_MOST_CELLS = 1 << 26
"""Numbers of the first joining of stretches, beyond which tokens are better taken one by one."""


@dataclass(frozen=True)
class Tree:
    """Log-sums over the paths through each stretch, and through each sentence by its last tag."""

    levels: list[Tensor]  # as from `join`
    whole: Tensor  # [M, B, S]

    def log_partition(self) -> Tensor:
        return self.whole.logsumexp(-1)

    def expected(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        pairs = self._descend(weights.unsqueeze(-1))
        tags = pairs.sum(-2)  # [M, B, T, S]
        steps = pairs.sum((1, 2))  # [M, S, S]
        steps[:, :, -1] += tags[:, :, -1].sum(1)
        return tags, steps

    def pairs(self) -> Tensor:
        return self._descend(torch.ones_like(self.whole[..., :1]))

    def _descend(self, weights: Tensor) -> Tensor:
        """Probabilities of the tags before and at the end of each stretch, down to tokens."""
        last = self.whole.softmax(-1) * weights  # [M, B, S]
        share = torch.zeros_like(self.levels[-1])  # [M, B, 1, S, S]
        share[:, :, 0, -1] = last
        for level in reversed(self.levels[:-1]):
            left, right, _ = halves(level)  # [M, B, n, S, S]
            pairs = left.shape[2]
            middle = (left.unsqueeze(-1) + right.unsqueeze(-3)).softmax(-2)
            middle = middle * share[:, :, :pairs].unsqueeze(-2)  # [M, B, n, S, S, S]
            share = unhalve(middle.sum(-1), middle.sum(-3), share[:, :, pairs:])
        return share


def overgrown(emissions: Tensor) -> bool:
    """Whether the tags of a chain [M, B, T, S] are so many that its stretches fill the memory."""
    tasks, rows, width, tags = emissions.shape
    return tasks * rows * (width // 2) * tags**3 > _MOST_CELLS


def sweep_tree(emissions: Tensor, steps: Tensor) -> Tree:
    """All stretches of a chain."""
    emissions, steps = exact(emissions).clamp(min=FLOOR), exact(steps).clamp(min=FLOOR)
    levels = join(emissions, steps, log_sums)
    return Tree(levels, levels[-1][:, :, 0, -1] + steps[:, None, :, -1])


def join(emissions: Tensor, steps: Tensor, reduce: Reduce) -> list[Tensor]:
    """Scores of stretches of 1, 2, 4, ... tokens, from the tag before to the last.

    emissions [M, B, T, S], steps [M, S, S] -> [M, B, ceil(T / 2 ** depth), S, S] at each depth.
    """
    levels = [steps[:, None, None] + emissions.unsqueeze(-2)]
    while levels[-1].shape[2] > 1:
        left, right, alone = halves(levels[-1])
        joined = reduce(left.unsqueeze(-1) + right.unsqueeze(-3), -2)  # over [M, B, n, S, S, S]
        levels.append(_with(joined, alone))
    return levels


def halves(level: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The left and right members of the pairs, and the last member if it is alone."""
    even = level.shape[2] // 2 * 2
    left, right = level[:, :, :even].unflatten(2, (-1, 2)).unbind(3)
    return left, right, level[:, :, even:]


def unhalve(left: Tensor, right: Tensor, alone: Tensor) -> Tensor:
    """Undo `halves`, for values [M, B, n, ...] of each member."""
    return _with(torch.stack((left, right), dim=3).flatten(2, 3), alone)


def _with(pairs: Tensor, alone: Tensor) -> Tensor:
    """Both, one after the other; a copy only where there is a member alone."""
    return torch.cat((pairs, alone), dim=2) if alone.shape[2] else pairs
