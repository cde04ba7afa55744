"""Linear-chain conditional random field: scores, partition and loss.

Every function takes ``emissions`` [M, B, T, C], ``lengths`` [M, B] (sentences are padded on the
right; 0 is an empty sentence, whose only path is empty and scores 0), ``transitions``
[M or 1, C, C] (from, to), ``start`` [M or 1, C] and ``end`` [M or 1, C]. What is forbidden has a
score of minus infinity, or one far below the others. What lies in the padding has no effect.
Gradients of any order are right, and nothing waits for a GPU or branches on its data.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from hardner.model.crf_forward import (
    FLOOR,
    Posterior,
    as_precise,
    parallel_sweep,
    scaled_sweep,
    stepwise_sweep,
    too_many_tags,
)
from hardner.model.layers import mask_of


class LinearChain(NamedTuple):
    """Scores of ``S`` tags, the last of them outside, for ``M`` tasks of ``B`` sentences.

    All sentences begin and end outside, in one more tag: the start score of a tag is that of the
    step from outside to it, the end score that of the step back. A token of the padding is outside
    too and scores nothing. So one matrix holds all steps, no kernel needs a mask, and an empty
    sentence is the one path that stays outside.
    """

    emissions: Tensor  # [M, B, T, S], less each token's largest
    steps: Tensor  # [M, S, S], from, to
    offset: Tensor  # [M, B], what was taken from the emissions of a sentence


def linear_chain(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> LinearChain:
    """Lay the scores of C tags out as a chain of S = C + 1, in float32 or more."""
    dtype = torch.promote_types(emissions.dtype, torch.float32)
    padding = ~mask_of(lengths, emissions.shape[2]).unsqueeze(-1)  # [M, B, T, 1]
    emissions = emissions.to(dtype)
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


def log_partition(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The log of the sum over all paths of their exponentiated scores: [M, B]."""
    chain = linear_chain(emissions, lengths, transitions, start, end)
    return (_log_partition(chain) + chain.offset).to(emissions.dtype)


def crf_loss(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    tags: Tensor,
) -> Tensor:
    """The negative log-likelihood of ``tags`` [M, B, T], never below 0: [M, B]."""
    chain = linear_chain(emissions, lengths, transitions, start, end)
    mask = mask_of(lengths, emissions.shape[2])
    # -log p(y) = log Z - score(y); the offset is in both and cancels.
    value = _log_partition(chain) - _path_score(chain, tags, mask)
    rounding = value.detach().clamp(max=0)
    return (value - rounding).to(emissions.dtype)


def posterior(chain: LinearChain) -> Posterior:
    """The distribution over a chain's paths, by the kernel that suits the device and the scores."""
    emissions, steps = chain.emissions, chain.steps
    if emissions.device.type == "cpu" and (found := scaled_sweep(emissions, steps)):
        return found
    log_space = stepwise_sweep if too_many_tags(emissions) else parallel_sweep
    return log_space(emissions, steps)


class _LogPartition(Function):
    """Its gradient is what the distribution expects, worked out anew if that is derived again."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, steps: Tensor, offset: Tensor) -> Tensor:
        ctx.save_for_backward(emissions, steps, offset)
        ctx.posterior = posterior(LinearChain(emissions, steps, offset))
        return cast(Tensor, ctx.posterior.log_partition())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        chain = LinearChain(*ctx.saved_tensors)
        again = torch.is_grad_enabled()  # a second derivative is wanted: the sums need a graph
        found = posterior(chain) if again else ctx.posterior
        tags, moves = found.expected_counts(grad)
        return tags.to(chain.emissions.dtype).contiguous(), moves.to(chain.steps.dtype), None


def _log_partition(chain: LinearChain) -> Tensor:
    value: Tensor = _LogPartition.apply(*chain)  # type: ignore[no-untyped-call]
    return value


def _path_score(chain: LinearChain, tags: Tensor, mask: Tensor) -> Tensor:
    outside = chain.steps.shape[-1] - 1
    path = pad(tags.masked_fill(~mask, outside), (1, 1), value=outside)  # [M, B, T + 2]
    moves = path[:, :, :-1] * (outside + 1) + path[:, :, 1:]  # [M, B, T + 1]
    moved = chain.steps.flatten(1).gather(1, moves.flatten(1)).view_as(moves)
    tagged = chain.emissions.gather(-1, path[:, :, 1:-1].unsqueeze(-1)).squeeze(-1)  # [M, B, T]
    scores = torch.cat((moved, tagged), dim=-1).clamp(min=FLOOR)
    return as_precise(scores).sum(-1)
