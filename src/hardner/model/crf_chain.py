"""A batch of sentences as linear chains that all begin and end outside, in one more tag.

The start score of a tag is that of the step from outside to it, the end score that of the step
back. A token of the padding is outside too and scores nothing. So one matrix holds all steps, no
kernel needs a mask, and an empty sentence is the one path that stays outside.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

FLOOR = -1e7
"""What minus infinity is read as where sums over paths are taken, so that no gradient is NaN."""


class LinearChain(NamedTuple):
    """Scores of ``S`` tags, the last of them outside, for ``M`` tasks of ``B`` sentences."""

    emissions: Tensor  # [M, B, T, S], less each token's largest
    steps: Tensor  # [M, S, S], from, to
    offset: Tensor  # [M, B], what was taken from the emissions of a sentence


class Posterior(Protocol):
    """The distribution over the paths of each sentence, as one of the kernels holds it."""

    def log_partition(self) -> Tensor:
        """[M, B], without the chain's offset."""

    def expected(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Tags and steps, of sentences weighted by [M, B].

        Returns:
            Weighted probabilities of tags [M, B, T, S], and numbers of steps [M, S, S].
        """

    def pairs(self) -> Tensor:
        """Probabilities of the tag before a token and its own: [M, B, T, S, S]."""


def chain(
    emissions: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> LinearChain:
    """Lay the scores of C tags out as a chain of C + 1, in float32 or more.

    Args:
        emissions: [M, B, T, C], T >= 1.
        mask: [M, B, T], which tokens are there; they are contiguous.
        transitions: [M or 1, C, C], from, to.
        start: [M or 1, C].
        end: [M or 1, C].
    """
    dtype = torch.promote_types(emissions.dtype, torch.float32)
    emissions, padding = emissions.to(dtype), ~mask.unsqueeze(-1)  # [M, B, T, 1]
    largest = emissions.detach().amax(-1, keepdim=True).clamp(min=FLOOR).masked_fill(padding, 0)
    inside = (emissions - largest).masked_fill(padding, -torch.inf)
    outside = torch.zeros_like(largest).masked_fill(~padding, -torch.inf)
    leaving = torch.cat((transitions, end.unsqueeze(-1)), dim=-1)  # [M|1, C, S]
    entering = pad(start, (0, 1)).unsqueeze(-2)  # [M|1, 1, S]
    steps = torch.cat((leaving, entering), dim=-2).to(dtype)
    return LinearChain(
        emissions=torch.cat((inside, outside), dim=-1),
        steps=steps.expand(emissions.shape[0], -1, -1),
        offset=largest.sum((2, 3)),
    )


def exact(values: Tensor) -> Tensor:
    """In float64 on a CPU, where it costs little and spares a range of cases."""
    return values.double() if values.device.type == "cpu" else values


def log_sums(values: Tensor, dim: int) -> Tensor:
    """As `torch.logsumexp` of finite values, in half as many kernels where no graph is kept."""
    if torch.is_grad_enabled():
        return values.logsumexp(dim)
    return values.amax(dim) - values.log_softmax(dim).amax(dim)
