"""The best paths of a linear chain. Arguments as in `hardner.model.crf`; the padding reads -1."""

from collections.abc import Callable

import torch
from torch import Tensor

from hardner.model.crf_chain import chain, exact
from hardner.model.crf_tree import halves, join, overgrown, unhalve
from hardner.model.layers import mask_of

PADDING = -1


@torch.no_grad()
def viterbi(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """The best path [M, B, T] and its score [M, B], minus infinity if every path is forbidden."""
    mask = mask_of(lengths, emissions.shape[2])
    made = chain(emissions, mask, transitions, start, end)
    kernel = choose_decoder(made.emissions)
    tags, scores = kernel(exact(made.emissions), exact(made.steps))
    return tags.masked_fill(~mask, PADDING), (scores + made.offset).to(emissions.dtype)


@torch.no_grad()
def kbest(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """The ``k`` best paths [M, B, k, T] and their scores [M, B, k], best first.

    Where there are fewer paths that are not forbidden, scores are minus infinity and tags -1.
    """
    mask = mask_of(lengths, emissions.shape[2])
    made = chain(emissions, mask, transitions, start, end)
    unaries, steps = exact(made.emissions), exact(made.steps)
    ranked = torch.full_like(unaries[:, :, 0, :, None].expand(-1, -1, -1, k), -torch.inf)
    ranked[:, :, -1, 0] = 0  # [M, B, S, k], the k best ways to each tag
    pointers = []
    for unary in unaries.unbind(2):
        ways = (ranked.unsqueeze(-1) + steps[:, None, :, None]).flatten(2, 3)  # [M, B, S * k, S]
        best, pointer = ways.topk(k, dim=2)
        ranked = best.mT + unary.unsqueeze(-1)
        pointers.append(pointer.mT.flatten(2))  # [M, B, S * k], into the S * k before
    scores, way = (ranked + steps[:, None, :, -1:]).flatten(2).topk(k, dim=2)  # [M, B, k]
    path = []
    for pointer in reversed(pointers):
        path.append(way // k)
        way = pointer.gather(2, way)
    tags = torch.stack(path[::-1], dim=-1)  # [M, B, k, T]
    there = mask.unsqueeze(2) & (scores > -torch.inf).unsqueeze(-1)
    scores = scores + made.offset.unsqueeze(-1)
    return tags.masked_fill(~there, PADDING), scores.to(emissions.dtype)


def choose_decoder(emissions: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """By halves on a GPU, unless tags are very many."""
    one_by_one = emissions.device.type == "cpu" or overgrown(emissions)
    return _one_by_one if one_by_one else _by_halves


def _one_by_one(emissions: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Token by token, batch last; the way back is found again instead of stored."""
    score = torch.full_like(emissions[:, :, 0].mT, -torch.inf)  # [M, S, B]
    score[:, -1] = 0
    scores = []
    for emission in emissions.permute(2, 0, 3, 1).contiguous().unbind(0):
        score = (score.unsqueeze(2) + steps.unsqueeze(-1)).amax(1) + emission
        scores.append(score)
    best = (score + steps[:, :, -1:]).amax(1)  # [M, B]
    into = steps.mT.contiguous()  # [M, S, S], to, from
    tag = torch.full_like(best, steps.shape[-1] - 1, dtype=torch.long)  # [M, B]
    path = []
    for score in torch.stack(scores).mT.contiguous().flip(0):  # [M, B, S]
        tag = (score + into.gather(1, tag.unsqueeze(-1).expand_as(score))).argmax(-1)
        path.append(tag)
    return torch.stack(path[::-1], dim=-1), best


def _by_halves(emissions: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """By joining stretches, then choosing the tag in the middle of each, the longest first."""
    levels = join(emissions, steps, torch.amax)
    outside = steps.shape[-1] - 1
    best, last = (levels[-1][:, :, :, outside] + steps[:, None, None, :, -1]).max(-1)  # [M, B, 1]
    ahead = torch.full_like(last, outside)
    for level in reversed(levels[:-1]):
        left, right, _ = halves(level)  # [M, B, n, S, S]
        pairs = left.shape[2]
        first, final = ahead[:, :, :pairs], last[:, :, :pairs]
        row = first[..., None, None].expand_as(left[..., :1, :])
        column = final[..., None, None].expand_as(right[..., :1])
        onward, back = left.gather(-2, row).squeeze(-2), right.gather(-1, column).squeeze(-1)
        middle = (onward + back).argmax(-1)
        ahead = unhalve(first, middle, ahead[:, :, pairs:])
        last = unhalve(middle, final, last[:, :, pairs:])
    return last, best.squeeze(-1)
