"""Probabilities of tags and of runs of tags. Arguments as in `hardner.model.crf`."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.model.crf import posterior
from hardner.model.crf_chain import chain
from hardner.model.layers import mask_of


class Runs(NamedTuple):
    """Tags of one or more tokens in a row, each run at a place in a sentence."""

    task: Tensor  # [N]
    row: Tensor  # [N], the sentence
    start: Tensor  # [N], the first token
    tags: Tensor  # [N, L], -1 behind the last


def marginals(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> Tensor:
    """The probability of each tag of each token, 0 in the padding: [M, B, T, C]."""
    made = chain(emissions, mask_of(lengths, emissions.shape[2]), transitions, start, end)
    tags, _ = posterior(made.emissions, made.steps).expected(torch.ones_like(made.offset))
    return tags[..., :-1].to(emissions.dtype)


def run_marginals(
    emissions: Tensor,
    lengths: Tensor,
    transitions: Tensor,
    start: Tensor,
    end: Tensor,
    runs: Runs,
    opens: Tensor | None = None,
    closes: Tensor | None = None,
) -> Tensor:
    """The probability that the tokens of each run have its tags: [N], 0 for one that does not fit.

    With the tables of a tagging scheme, it is the probability of a span: that its tokens have its
    tags and that it goes on at neither side. The ends of a sentence open and close every span.

    Args:
        opens: [C, C], whether a run that begins with one tag (column) may follow another (row).
        closes: [C, C], whether a run that ends with one tag (row) may precede another (column).
    """
    tokens = emissions.shape[2]
    mask = pad(mask_of(lengths, emissions.shape[2]), (0, 1))  # one token outside behind the last
    made = chain(pad(emissions, (0, 0, 0, 1)), mask, transitions, start, end)
    pairs = posterior(made.emissions, made.steps).pairs()  # [M, B, T + 1, S, S]

    there, tags = runs.tags >= 0, runs.tags.clamp(min=0)  # [N, L]
    count = there.sum(-1)
    head, tail = tags[:, 0], tags.gather(1, count.unsqueeze(-1) - 1).squeeze(-1)
    enter = pairs[runs.task, runs.row, runs.start, :, head]  # [N, S]
    leave = pairs[runs.task, runs.row, (runs.start + count).clamp(max=tokens), tail]  # [N, S]
    if opens is not None:
        enter = enter * pad(opens, (0, 1, 0, 1), value=True).mT[head]
    if closes is not None:
        leave = leave * pad(closes, (0, 1, 0, 1), value=True)[tail]

    task, row = runs.task.unsqueeze(-1), runs.row.unsqueeze(-1)  # [N, 1]
    token = runs.start.unsqueeze(-1) + torch.arange(tags.shape[1], device=tags.device)
    token = token.clamp(max=tokens)  # [N, L]
    moved = pairs[task, row, token[:, 1:], tags[:, :-1], tags[:, 1:]]  # [N, L - 1]
    reached = torch.cat((enter.sum(-1, keepdim=True), moved), dim=-1)
    held = pairs.sum(-2)[task, row, token, tags]  # [N, L]
    # The posterior is a Markov chain: P(y_1 .. y_n) = prod P(y_t-1, y_t) / prod P(y_t).
    ratio = (reached / held).masked_fill(held == 0, 0).masked_fill(~there, 1)
    return (ratio.prod(-1) * leave.sum(-1)).to(emissions.dtype)
