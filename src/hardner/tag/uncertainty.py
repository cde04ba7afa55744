"""What a model is unsure of in a sentence, token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardner.model.crf import linear_chain, posterior
from hardner.model.decoders import Emissions
from hardner.model.layers import mask_of
from hardner.schemes import TagSet, parse_tag

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What a head, or a whole model, is unsure of in one sentence."""

    given: _Floats
    """The entropy of each token's tag given the one before, in nats."""
    tokens: _Floats
    """The entropy of each token's tag by itself."""
    inside: _Floats
    """The probability that a token is in a mention."""
    labels: tuple[str, ...]
    """The likeliest label of each token, were it in a mention."""
    chance: float
    """That there is any mention."""

    @property
    def hardness(self) -> float:
        """The loss that the model expects of itself, in nats: the entropy of the tag sequence."""
        return float(self.given.sum())

    @classmethod
    def of(cls, heads: "Sequence[Uncertainty]") -> "Uncertainty":
        """What all heads together are unsure of.

        Each token takes the head that is surest of a mention there, so that what one head explains
        does not count as uncertain.
        """
        if not heads:
            return cls(np.zeros(0), np.zeros(0), np.zeros(0), (), 0.0)
        surest = np.stack([head.inside for head in heads]).argmax(0)
        place = np.arange(len(surest))
        return cls(
            np.stack([head.given for head in heads])[surest, place],
            np.stack([head.tokens for head in heads])[surest, place],
            np.stack([head.inside for head in heads])[surest, place],
            tuple(heads[head].labels[token] for token, head in enumerate(surest)),
            max(head.chance for head in heads),
        )


def head_uncertainties(
    emissions: Emissions, tag_sets: Sequence[TagSet]
) -> Iterator[list[Uncertainty]]:
    """What each of D heads is unsure of in each sentence of a batch: D lists of B."""
    lengths = emissions.lengths[0].tolist()
    tags, given, tokens, chance = entropies(emissions.scores, emissions.lengths, *emissions.chain)
    for head, own in enumerate(tag_sets):
        inside, label = _claimed(tags[head], own)
        values = (given[head], tokens[head], inside, label, chance[head])
        rows = zip(lengths, *(value.cpu().numpy() for value in values), strict=True)
        yield [
            Uncertainty(a[:n], b[:n], c[:n], tuple(own.labels[i] for i in d[:n]), float(e))
            for n, a, b, c, d, e in rows
        ]


def _claimed(probabilities: Tensor, own: TagSet) -> tuple[Tensor, Tensor]:
    """The probability of a mention at each token and its likeliest label: [B, T] each."""
    index = [own.labels.index(parse_tag(tag)[1]) for tag in own.tags[1:]]
    tags = probabilities[..., 1 : len(own.tags)]  # [B, T, C - 1]
    by_label = tags.new_zeros(*tags.shape[:-1], len(own.labels))
    by_label.index_add_(-1, torch.tensor(index, device=tags.device), tags)  # [B, T, labels]
    return by_label.sum(-1), by_label.argmax(-1)


def entropies(
    emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The entropies of a linear-chain CRF. Arguments as in `hardner.model.crf`.

    Returns:
        The probabilities of the tags [M, B, T, C]; the entropy of each tag given the one before
        it [M, B, T], which sums to the entropy of the sequence; the entropy of each tag by
        itself [M, B, T]; and the chance that not all tags are the first, ``O`` [M, B].
    """
    mask = mask_of(lengths, emissions.shape[2])  # [M, B, T]
    chain = linear_chain(emissions, lengths, transitions, start, end)
    pairs = posterior(chain).pair_marginals()  # [M, B, T, S, S], outside is the last
    before, after = pairs.sum(-1), pairs.sum(-2)  # [M, B, T, S]
    # H(y) = sum H(y_t | y_t-1), as the posterior is a Markov chain.
    given = (_entropy(pairs.flatten(-2)) - _entropy(before)).clamp(min=0)  # [M, B, T]
    tiny = torch.finfo(pairs.dtype).tiny
    stays = pairs[..., 0, 0] + pairs[..., -1, 0]  # [M, B, T]: O behind O, or first
    leaves = (before[..., 0] + before[..., -1]).clamp(min=tiny)
    ratio = (stays / leaves).clamp(tiny, 1).log() * mask
    return after[..., :-1], given, _entropy(after), -ratio.sum(-1).expm1()


def _entropy(probabilities: Tensor) -> Tensor:
    """The entropy over the last axis, in nats."""
    entropies: Tensor = torch.special.entr(probabilities)
    return entropies.sum(-1)
