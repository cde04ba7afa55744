"""Linear-chain conditional random field: scores, partition and loss.

Every function takes ``emissions`` [M, B, T, C], ``lengths`` [M, B] (sentences are padded on the
right; 0 is an empty sentence, whose only path is empty and scores 0), ``transitions``
[M or 1, C, C] (from, to), ``start`` [M or 1, C] and ``end`` [M or 1, C]. What is forbidden has a
score of minus infinity, or one far below the others. What lies in the padding has no effect.
Gradients of any order are right, and nothing waits for a GPU or branches on its data.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from hardner.model import crf_line, crf_scaled, crf_tree
from hardner.model.crf_chain import FLOOR, LinearChain, Posterior, chain, exact
from hardner.model.layers import mask_of


def log_partition(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The log of the sum over all paths of their exponentiated scores: [M, B]."""
    made = chain(emissions, mask_of(lengths, emissions.shape[2]), transitions, start, end)
    return (_log_partition(made) + made.offset).to(emissions.dtype)


def path_score(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    tags: Tensor,
) -> Tensor:
    """The score of one path, ``tags`` [M, B, T]: [M, B]."""
    mask = mask_of(lengths, emissions.shape[2])
    made = chain(emissions, mask, transitions, start, end)
    return (_path_score(made, tags, mask) + made.offset).to(emissions.dtype)


def loss(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    tags: Tensor,
) -> Tensor:
    """The negative log-likelihood of ``tags`` [M, B, T], never below 0: [M, B]."""
    mask = mask_of(lengths, emissions.shape[2])
    made = chain(emissions, mask, transitions, start, end)
    value = _log_partition(made) - _path_score(made, tags, mask)
    rounding = value.detach().clamp(max=0)
    return (value - rounding).to(emissions.dtype)


def posterior(emissions: Tensor, steps: Tensor) -> Posterior:
    """The distribution over a chain's paths, by the kernel that suits the device and the scores."""
    found = crf_scaled.sweep_scaled(emissions, steps) if emissions.device.type == "cpu" else None
    slow = crf_line.sweep_line if crf_tree.overgrown(emissions) else crf_tree.sweep_tree
    return found or slow(emissions, steps)


class _LogPartition(Function):
    """Its gradient is what the distribution expects, worked out anew if that is derived again."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, steps: Tensor) -> Tensor:
        ctx.save_for_backward(emissions, steps)
        ctx.found = posterior(emissions, steps)
        return cast(Tensor, ctx.found.log_partition())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        emissions, steps = ctx.saved_tensors
        found = posterior(emissions, steps) if torch.is_grad_enabled() else ctx.found
        tags, moves = found.expected(grad)
        return tags.to(emissions.dtype).contiguous(), moves.to(steps.dtype)


def _log_partition(made: LinearChain) -> Tensor:
    value: Tensor = _LogPartition.apply(made.emissions, made.steps)  # type: ignore[no-untyped-call]
    return value


def _path_score(made: LinearChain, tags: Tensor, mask: Tensor) -> Tensor:
    outside = made.steps.shape[-1] - 1
    path = pad(tags.masked_fill(~mask, outside), (1, 1), value=outside)  # [M, B, T + 2]
    moves = path[:, :, :-1] * (outside + 1) + path[:, :, 1:]  # [M, B, T + 1]
    moved = made.steps.flatten(1).gather(1, moves.flatten(1)).view_as(moves)
    tagged = made.emissions.gather(-1, path[:, :, 1:-1].unsqueeze(-1)).squeeze(-1)  # [M, B, T]
    scores = torch.cat((moved, tagged), dim=-1).clamp(min=FLOOR)
    return exact(scores).sum(-1)
