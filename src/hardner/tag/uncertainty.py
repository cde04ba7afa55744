"""What a model is unsure of in a sentence, token by token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardner.batch import Batch, TagSet
from hardner.model.crf import linear_chain, posterior
from hardner.model.layers import SCORING, Params, mask_of
from hardner.model.tagger import Tagger
from hardner.schemes import parse_tag
from hardner.types import Sentence

_WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Words that are read at once, padding and all models counted."""

_Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What one model is unsure of in one sentence.

    Of several heads, each token takes the one that is surest of a mention there, so that what one
    head explains does not count as uncertain.
    """

    hardness: float
    """The loss that the model expects of itself, in nats: the entropy of the tag sequence."""
    chance: float
    """That there is any mention."""
    tokens: _Floats
    """The entropy of each token's tag."""
    inside: _Floats
    """The probability that a token is in a mention."""
    labels: tuple[str, ...]
    """The likeliest label of each token, were it in a mention."""


class HeadRef(NamedTuple):
    """One decoder of a tagger."""

    domain: int
    temperature: float = 1.0
    """What its scores are divided by."""


@torch.no_grad()
def uncertainties(
    tagger: Tagger, params: Params, sentences: Sequence[Sentence], heads: Sequence[HeadRef]
) -> Iterator[tuple[int, list[Uncertainty]]]:
    """Each sentence's place, and what each model is unsure of in it, the longest first.

    Args:
        tagger: The network.
        params: Of one model, or of many, on the task axis.
        sentences: Their spans do not matter.
        heads: Which decoders to ask.
    """
    device = next(iter(params.values())).device
    models = max(value.shape[0] for value in params.values())
    bare = [replace(sentence, spans=()) for sentence in sentences]
    store = tagger.store(bare, [heads[0].domain] * len(bare), device)
    for rows in store.groups(_WORDS_AT_ONCE[device.type] // models):
        batch = store.batch(torch.from_numpy(rows[None]).to(device), store.widths(rows))
        found = _asked(tagger, params, batch.repeat(models), heads)
        for place, row in enumerate(rows.tolist()):
            yield row, [_cut(one, place, len(sentences[row])) for one in found]


class _Found(NamedTuple):
    """Of a batch: what `Uncertainty` says of each of its sentences."""

    hardness: _Floats  # [B]
    chance: _Floats  # [B]
    tokens: _Floats  # [B, T]
    inside: _Floats  # [B, T]
    labels: NDArray[np.int64]  # [B, T]
    names: tuple[str, ...]


def _cut(found: _Found, row: int, length: int) -> Uncertainty:
    return Uncertainty(
        float(found.hardness[row]),
        float(found.chance[row]),
        found.tokens[row, :length].copy(),
        found.inside[row, :length].copy(),
        tuple(found.names[label] for label in found.labels[row, :length]),
    )


def _asked(tagger: Tagger, params: Params, batch: Batch, heads: Sequence[HeadRef]) -> list[_Found]:
    """What each model finds."""
    encoded = tagger.encoder(params, batch, SCORING)
    claims, hards, tokens, labels, chances = [], [], [], [], []
    names: tuple[str, ...] = ()
    for head in heads:
        domains = torch.full_like(batch.domains, head.domain)
        scores, lengths, steps = tagger.emissions(params, encoded, batch, domains)
        warm = (value.float() / head.temperature for value in (scores, *steps))
        own = tagger.tag_sets[head.domain]
        claim, hard, token, chance = entropies(next(warm), lengths, *warm)
        inside, label = _claimed(claim, own)
        claims.append(inside)
        hards.append(hard)
        tokens.append(token)
        labels.append(label + len(names))
        chances.append(chance)
        names += own.labels
    inside, first = torch.stack(claims).max(0)  # [M, B, T]
    pick = [torch.stack(each).gather(0, first[None])[0] for each in (hards, tokens, labels)]
    chance = torch.stack(chances).amax(0)  # [M, B]
    whole = [v.cpu().numpy() for v in (pick[0].sum(-1), chance, pick[1], inside, pick[2])]
    return [_Found(a, b, c, d, e, names) for a, b, c, d, e in zip(*whole, strict=True)]


def _claimed(probabilities: Tensor, own: TagSet) -> tuple[Tensor, Tensor]:
    """The probability of a mention at each token and its likeliest label: [M, B, T] each."""
    index = [own.labels.index(parse_tag(tag)[1]) for tag in own.tags[1:]]
    tags = probabilities[..., 1 : len(own.tags)]  # [M, B, T, C - 1]
    shape = (*tags.shape[:-1], len(own.labels))
    by_label = torch.zeros(shape, dtype=tags.dtype, device=tags.device)
    by_label.index_add_(-1, torch.tensor(index, device=tags.device), tags)  # [M, B, T, labels]
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
    """Of the last axis, in nats."""
    entropies: Tensor = torch.special.entr(probabilities)
    return entropies.sum(-1)
