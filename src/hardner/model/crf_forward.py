"""The forward-backward algorithm of a linear chain, in three kernels that find the same.

* `scaled_sweep`, for a CPU: probabilities, token by token, scaled as in Rabiner (1989);
* `parallel_sweep`, for a GPU: log-space, by a parallel prefix over the tokens;
* `stepwise_sweep`, for a GPU and very many tags: log-space, token by token.

The kernels that go token by token read a chain from both ends at once: its mirror image, with the
steps transposed, is one more chain of the batch. Only the scaled one branches on its data, so that
the others can be captured in a CUDA graph. They work with any finite scores.

Each takes ``emissions`` [M, B, T, S] and ``steps`` [M, S, S] (from, to) of chains that begin and
end in the last tag, as from `hardner.model.crf.linear_chain`, and gives a `Posterior`:

* ``log_partition()``: [M, B], without the chain's offset;
* ``expected_counts(weights)``: weighted by sentence, [M, B], the marginals of tags [M, B, T, S] and
  the counts of steps [M, S, S]; the gradient of the log partition by emissions and steps;
* ``pair_marginals()``: probabilities of the tag before a token and its own, [M, B, T, S, S].
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

FLOOR = -1e7
"""What minus infinity is read as where sums over paths are taken, so that no gradient is NaN."""
_RESCALE_EVERY = 2  # tokens
_LEAST = {torch.float32: 1e-14, torch.float64: 1e-70}
"""What underflows, below 1e-37 or 1e-307, is weighed against a total times a divisor; both must
be at least this large. In float64 that also keeps second derivatives from overflowing."""
_MOST_CELLS = 1 << 26
"""The most numbers that are worked out at once for pairs of tags, or triples in a prefix."""


def as_precise(values: Tensor) -> Tensor:
    """In float64 on a CPU, where it costs little and spares a range of cases."""
    return values.double() if values.device.type == "cpu" else values


def _log_sums(values: Tensor, dim: int) -> Tensor:
    """As `torch.logsumexp` of finite values, in half as many kernels where no graph is kept."""
    if torch.is_grad_enabled():
        return values.logsumexp(dim)
    return values.amax(dim) - values.log_softmax(dim).amax(dim)


# ---- scaled probabilities ----


@dataclass(frozen=True)
class ScaledPosterior:
    """Sums over the paths up to and from each step, in units of their own; batch last."""

    steps: Tensor  # [M, S, S], exp(steps - the largest)
    forward: Tensor  # [T + 1, M, S, B], up to the tag that a step leaves
    backward: Tensor  # [T + 1, M, S, B], from the tag that a step reaches
    joint: Tensor  # [T + 1, M, S, B], through the tag that a step leaves
    total: Tensor  # [T + 1, M, 1, B], through any
    unit: Tensor  # [M, 1, B], the log of the first total's unit

    def log_partition(self) -> Tensor:
        return (self.total[0].log() + self.unit).squeeze(1)

    def expected_counts(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        # P(y_t) = alpha_t(y) beta_t(y) / Z, in which the units of a token cancel
        share = weights.unsqueeze(1).to(self.total.dtype) / self.total  # [T + 1, M, 1, B]
        tags = self.joint[1:] * share[1:]
        with torch.autocast("cpu", enabled=False):
            steps = (self.forward @ (self.backward * share).mT).sum(0) * self.steps  # [M, S, S]
        return tags.permute(1, 3, 0, 2), steps

    def pair_marginals(self) -> Tensor:
        moves = self.forward.unsqueeze(3) * (self.backward / self.total).unsqueeze(2)
        moves = moves * self.steps.unsqueeze(-1)  # [T + 1, M, S, S, B]
        return moves[:-1].permute(1, 4, 0, 2, 3)


def scaled_sweep(emissions: Tensor, steps: Tensor) -> ScaledPosterior | None:
    """None where scores are so far apart that probabilities underflow, even in float64."""
    quick = emissions.dtype == torch.float32 and not torch.is_grad_enabled()
    with torch.autocast("cpu", enabled=False):
        found = _scaled_sweep(emissions, steps) if quick else None
        return found or _scaled_sweep(emissions.double(), steps.double())


def _scaled_sweep(emissions: Tensor, steps: Tensor) -> ScaledPosterior | None:
    # All is exponentiated once; then a token is a small matrix product and an elementwise one.
    weights = emissions.permute(2, 0, 3, 1).contiguous().exp()  # [T, M, S, B]
    largest = steps.detach().amax((1, 2), keepdim=True)  # [M, 1, 1]
    steps = (steps - largest).exp()
    states, divisors = _scaled_states(
        torch.cat((weights, weights.flip(0)), dim=1), torch.cat((steps.mT, steps))
    )
    forward, backward = states.chunk(2, dim=1)
    backward = backward.flip(0)
    joint = forward * (steps @ backward)
    total = joint.sum(2, keepdim=True)
    least = _LEAST[weights.dtype]
    if not (total > least).all() or not (divisors > least).all():
        return None
    unit = divisors.chunk(2, dim=1)[1].double().log().sum(0) + largest * len(total)
    return ScaledPosterior(steps, forward, backward, joint, total, unit)


def _scaled_states(weights: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the paths up to each token's tag, and what they were divided by now and then.

    weights [T, D, S, B], steps [D, S, S] (to, from) -> [T + 1, D, S, B], [1 + T / 2, D, 1, B].
    """
    state = torch.zeros_like(weights[0])
    state[:, -1] = 1
    states, divisors = [state], [torch.ones_like(state[:, :1])]
    # alpha_t = (A^T alpha_t-1) * e_t
    for t, weight in enumerate(weights.unbind(0), start=1):
        state = torch.bmm(steps, state) * weight
        if t % _RESCALE_EVERY == 0:
            divisors.append(state.detach().sum(1, keepdim=True))
            state = state / divisors[-1]
        states.append(state)
    return torch.stack(states), torch.stack(divisors)


# ---- log-space ----


def _counts(pairs: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Of tags [M, B, T, S] and steps [M, S, S], from those of pairs, some tokens at a time."""
    tags, steps = [], []
    for share in pairs:  # [M, B, n, S, S]
        tags.append(share.sum(-2))
        steps.append(share.sum((1, 2)))
    total = sum(steps[1:], steps[0])
    total[:, :, -1] += tags[-1][:, :, -1].sum(1)  # the step to the outside, behind the last token
    return torch.cat(tags, dim=2), total


# ---- log-space, token by token ----


@dataclass(frozen=True)
class StepwisePosterior:
    """Log-sums over the paths up to the tag before each token, and from its own."""

    steps: Tensor  # [M, S, S]
    forward: Tensor  # [M, B, T, S], up to the tag before a token, less the largest
    backward: Tensor  # [M, B, T, S], from a token's tag, itself included, less the largest
    whole: Tensor  # [M, B, S], through each sentence by its last tag, less the unit
    unit: Tensor  # [M, B], in float64

    def log_partition(self) -> Tensor:
        return (self.whole.logsumexp(-1) + self.unit).to(self.whole.dtype)

    def expected_counts(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        return _counts(pairs * weights[..., None, None, None] for pairs in self._pairs())

    def pair_marginals(self) -> Tensor:
        return torch.cat(list(self._pairs()), dim=2)

    def _pairs(self) -> Iterator[Tensor]:
        """Some tokens at a time, as memory grows with S ** 2."""
        parts = ceil(self.forward.numel() * self.forward.shape[-1] / _MOST_CELLS)
        both = (part.chunk(parts, dim=2) for part in (self.forward, self.backward))
        for forward, backward in zip(*both, strict=True):
            scores = forward.unsqueeze(-1) + self.steps[:, None, None] + backward.unsqueeze(-2)
            yield scores.flatten(-2).softmax(-1).view_as(scores)  # [M, B, n, S, S]


def stepwise_sweep(emissions: Tensor, steps: Tensor) -> StepwisePosterior:
    """One step of the log-space recursion a token."""
    emissions = as_precise(emissions).clamp(min=FLOOR)
    steps = as_precise(steps).clamp(min=FLOOR)
    ways = torch.cat((steps, steps.mT)).unsqueeze(1)  # [2M, 1, S, S]
    both = torch.cat((emissions, emissions.flip(2)))  # [2M, B, T, S]
    state = torch.full_like(both[:, :, 0], FLOOR)
    state[..., -1] = 0
    states, units = [state], []
    # log alpha_t(y) = log sum_x exp(log alpha_t-1(x) + A[x, y]) + e_t(y)
    for emission in both.unbind(2):
        state = _log_sums(state.unsqueeze(-1) + ways, -2) + emission
        units.append(state.detach().amax(-1, keepdim=True))
        state = state - units[-1]  # a sum that grows with the tokens would lose digits
        states.append(state)
    forward, backward = torch.stack(states, dim=2).chunk(2)  # [M, B, T + 1, S]
    whole = forward[:, :, -1] + steps[:, None, :, -1]
    unit = torch.cat(units, dim=-1).chunk(2)[0].double().sum(-1)
    return StepwisePosterior(steps, forward[:, :, :-1], backward[:, :, 1:].flip(2), whole, unit)


# ---- log-space, parallel prefix ----


@dataclass(frozen=True)
class ParallelPosterior:
    """Log-sums over the paths through each stretch, and through each sentence by its last tag."""

    levels: list[Tensor]  # as from `join_stretches`
    whole: Tensor  # [M, B, S]

    def log_partition(self) -> Tensor:
        return self.whole.logsumexp(-1)

    def expected_counts(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        return _counts([self._descend(weights.unsqueeze(-1))])

    def pair_marginals(self) -> Tensor:
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


def parallel_sweep(emissions: Tensor, steps: Tensor) -> ParallelPosterior:
    """In log2 T rounds; memory grows with S ** 3."""
    emissions = as_precise(emissions).clamp(min=FLOOR)
    steps = as_precise(steps).clamp(min=FLOOR)
    levels = join_stretches(steps[:, None, None] + emissions.unsqueeze(-2), _log_sums)
    return ParallelPosterior(levels, levels[-1][:, :, 0, -1] + steps[:, None, :, -1])


Posterior = ScaledPosterior | StepwisePosterior | ParallelPosterior
"""The distribution over the paths of each sentence, as one of the kernels holds it."""


def too_many_tags(emissions: Tensor) -> bool:
    """Whether the tags of a chain [M, B, T, S] are so many that its stretches fill the memory."""
    tasks, rows, width, tags = emissions.shape
    return tasks * rows * (width // 2) * tags**3 > _MOST_CELLS


def join_stretches(tokens: Tensor, reduce: Callable[[Tensor, int], Tensor]) -> list[Tensor]:
    """Scores of stretches of 1, 2, 4, ... tokens, from the tag before to the last.

    A token is a matrix of scores from the tag before it to its own, so that ``tokens`` are
    [M, B, T, S, S]; stretches join by a matrix product in which sums stand for products, and
    log-sums (or maxima) for sums. That is associative, so that T tokens take log2 T rounds.

    Returns:
        [M, B, ceil(T / 2 ** depth), S, S] at each depth.
    """
    levels = [tokens]
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
    # A copy only where there is a member alone.
    return torch.cat((pairs, alone), dim=2) if alone.shape[2] else pairs
