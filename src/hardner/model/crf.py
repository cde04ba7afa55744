"""Linear-chain conditional random field: scores, partition, loss, best path and marginals.

Every function takes ``emissions`` [M, B, T, C], ``lengths`` [M, B] (sentences are padded on the
right; 0 is an empty sentence, whose only path is empty and scores 0), ``transitions``
[M or 1, C, C] (from, to), ``start`` [M or 1, C] and ``end`` [M or 1, C]. What is forbidden has a
score of minus infinity, or one far below the others. What lies in the padding has no effect.
Gradients of any order are right, and nothing waits for a GPU or branches on its data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from hardner.batch import PartialLabels
from hardner.model.crf_forward import (
    FLOOR,
    Posterior,
    as_precise,
    halves,
    join_stretches,
    parallel_sweep,
    scaled_sweep,
    stepwise_sweep,
    too_many_tags,
    unhalve,
)
from hardner.model.layers import mask_of

PADDING = -1


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
    partial: PartialLabels | None = None,
) -> Tensor:
    """The negative log-likelihood of ``tags`` [M, B, T], never below 0: [M, B].

    Of a sentence that was labelled in part, that of all paths that agree with what is known of it.
    """
    chain = linear_chain(emissions, lengths, transitions, start, end)
    mask = mask_of(lengths, emissions.shape[2])
    # -log p(y) = log Z - score(y); the offset is in both and cancels.
    right = _path_score(chain, tags, mask)
    if partial:
        right = torch.where(partial.there, log_sum_of_known(chain, partial), right)
    value = _log_partition(chain) - right
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


def log_sum_of_known(chain: LinearChain, partial: PartialLabels) -> Tensor:
    """The log of the sum over the paths that agree with what is known, less the offset: [M, B].

    By joining stretches over the tags of all tracks, in log-space.
    """
    emissions, steps, rules = chain.emissions, chain.steps, partial.table
    size = steps.shape[-1]
    outside = pad(emissions.new_zeros(1), (size - 1, 0), value=-torch.inf)  # behind the last token
    longer = torch.cat((emissions, outside.expand_as(emissions[:, :, :1])), dim=2)
    every = steps[:, None, None] + longer.unsqueeze(-2)  # [M, B, T + 1, S, S]
    tracks = rules.shape[-1] // size
    scores = as_precise(every.repeat(1, 1, 1, tracks, tracks) + rules[partial.steps])
    whole = join_stretches(scores.clamp(min=FLOOR), torch.logsumexp)[-1]  # [M, B, 1, N, N]
    return whole[:, :, 0, size - 1, size - 1]


@torch.no_grad()
def viterbi(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor]:
    """The best path [M, B, T], -1 in the padding, and its score [M, B].

    The score is minus infinity if every path is forbidden.
    """
    chain = linear_chain(emissions, lengths, transitions, start, end)
    kernel = choose_decoder(chain.emissions)
    tags, scores = kernel(as_precise(chain.emissions), as_precise(chain.steps))
    mask = mask_of(lengths, emissions.shape[2])
    return tags.masked_fill(~mask, PADDING), (scores + chain.offset).to(emissions.dtype)


def choose_decoder(emissions: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """How the best path is found: by halves on a GPU, token by token where tags are very many."""
    one_by_one = emissions.device.type == "cpu" or too_many_tags(emissions)
    return _one_by_one if one_by_one else _by_halves


def _one_by_one(emissions: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Token by token, batch last; the way back is found again instead of stored."""
    # delta_t(y) = max_x (delta_t-1(x) + A[x, y]) + e_t(y), from outside, which is the last tag
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
    levels = join_stretches(steps[:, None, None] + emissions.unsqueeze(-2), torch.amax)
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
    chain = linear_chain(emissions, lengths, transitions, start, end)
    tags, _ = posterior(chain).expected_counts(torch.ones_like(chain.offset))
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
    longer = pad(emissions, (0, 0, 0, 1))  # one token outside behind the last
    chain = linear_chain(longer, lengths, transitions, start, end)
    pairs = posterior(chain).pair_marginals()  # [M, B, T + 1, S, S]

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
