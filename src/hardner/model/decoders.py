"""From word vectors to tags: a linear layer, and what is known of tag sequences on top of it.

One decoder a domain. Their parameters lie side by side on an axis after that of the tasks, so that
choosing each task's decoder is a look-up, and running all of them is one computation.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch
from hardner.model.crf import crf_loss, linear_chain, log_sum_of_known
from hardner.model.encoders import Encoded
from hardner.model.heads import cross_entropy
from hardner.model.layers import Params, linear, mask_of, mean_over, uniform
from hardner.schemes import TagSet, allowed

DecoderKind = Literal["crf", "softmax"]
FORBIDDEN = -torch.inf
"""The score of a step that a tagging scheme does not allow."""
UNSHOWN = -1e4
"""The score of a tag that a prototype decoder has not seen: worse than any other, yet allowed."""


class TransitionScores(NamedTuple):
    """Scores of tag sequences beside the emissions, per task."""

    transitions: Tensor  # [M, C, C], from and to
    start: Tensor  # [M, C]
    end: Tensor  # [M, C]


class Emissions(NamedTuple):
    """Everything that decides the tags of a batch."""

    scores: Tensor  # [M, B, T, C]
    lengths: Tensor  # [M, B]
    chain: TransitionScores


def constraints(tag_sets: Sequence[TagSet]) -> TransitionScores:
    """What each domain's scheme forbids, as scores to add; tags it does not have are forbidden."""
    width = max(len(t.tags) for t in tag_sets)
    pair = torch.full((len(tag_sets), width, width), FORBIDDEN)
    start, end = pair[:, 0].clone(), pair[:, 0].clone()
    # Everything is forbidden until the scheme allows it, the tags of richer domains included.
    for i, tag_set in enumerate(tag_sets):
        n = len(tag_set.tags)
        first, follow, last = (torch.tensor(a) for a in allowed(tag_set.tags, tag_set.scheme))
        start[i, :n].masked_fill_(first, 0.0)
        pair[i, :n, :n].masked_fill_(follow, 0.0)
        end[i, :n].masked_fill_(last, 0.0)
    return TransitionScores(pair, start, end)


def init_decoder(
    kind: DecoderKind, size: int, tag_sets: Sequence[TagSet], rng: torch.Generator
) -> Params:
    """Decoders for some domains, as wide as the richest tag set: [1, D, ...]."""
    domains, tags = len(tag_sets), max(len(t.tags) for t in tag_sets)
    bound = size**-0.5
    params = {
        "weight": uniform((domains, tags, size), bound, rng),
        "bias": torch.zeros(1, domains, tags),
    }
    if kind == "crf":
        params["transitions"] = torch.zeros(1, domains, tags, tags)
        params["start"] = torch.zeros(1, domains, tags)
        params["end"] = torch.zeros(1, domains, tags)
    return params


def select(params: Params, domains: Tensor) -> Params:
    """Each task's own decoder: [M|1, D, ...] and domains [M] -> [M, ...]."""
    tasks = torch.arange(domains.shape[0], device=domains.device)

    def own(p: Tensor) -> Tensor:
        if p.shape[0] == 1:
            return p[0, domains]
        # By a flat index, whose gradient is an addition of rows and not a sorted scatter.
        return p.flatten(0, 1).index_select(0, tasks * p.shape[1] + domains)

    return {name: own(p) for name, p in params.items()}


def emit(
    kind: DecoderKind, params: Params, encoded: Encoded, batch: Batch, limits: TransitionScores
) -> Emissions:
    """Score the tags of a batch with each task's decoder under its constraints, both [M, ...]."""
    scores = linear(encoded.words, params["weight"], params["bias"])  # [M, B, T, C]
    lengths = batch.lengths.expand(scores.shape[0], -1)
    return Emissions(scores, lengths, chain_scores(kind, params, limits))


def chain_scores(kind: DecoderKind, params: Params, limits: TransitionScores) -> TransitionScores:
    """What each task's decoder says of tag sequences, under its constraints."""
    if kind != "crf":
        return limits
    return TransitionScores(*(params[n] + limit for n, limit in limits._asdict().items()))


def tag_loss(
    kind: DecoderKind, emissions: Emissions, batch: Batch, by_sentence: bool = False
) -> Tensor:
    """The tagging loss of each task, [M].

    CRF: negative log-likelihood of a sentence, averaged over sentences. Softmax: cross-entropy of
    a word over the tags of the domain, averaged over words whose tag the decoder can give, or with
    ``by_sentence`` summed over these, and averaged over sentences as a CRF's. A sentence that was
    labelled in part, which training never gets, weighs as much as the steps of which something is
    known.
    """
    scores, lengths, chain = emissions
    scores = scores.float() if scores.dtype.itemsize < 4 else scores  # a softmax needs the digits
    tags = batch.tags.expand(scores.shape[:3])
    if kind == "crf":
        return mean_over(crf_loss(scores, lengths, *chain, tags, batch.partial), lengths > 0)
    foreign = chain.transitions.amax(1) == FORBIDDEN  # [M, C]: no tag may come before it
    given = scores.masked_fill(foreign[:, None, None], UNSHOWN)
    values = cross_entropy(given, tags)
    # Left out: gold tags that the decoder cannot give, as the support showed none of them.
    known = scores.detach().gather(-1, tags.unsqueeze(-1)).squeeze(-1) > UNSHOWN / 2
    counted = mask_of(lengths, values.shape[2]) & known
    if batch.partial is not None:
        there, steps, _ = batch.partial
        counted = counted & ~there.unsqueeze(-1)
        free = (torch.zeros_like(score) for score in chain)  # each word is a choice of its own
        apart = linear_chain(given.log_softmax(-1), lengths, *free)
        missed = -(log_sum_of_known(apart, batch.partial) + apart.offset).to(values.dtype) * there
        weight = counted.sum((1, 2)) + ((steps > 0) & there.unsqueeze(-1)).sum((1, 2))
        return ((values * counted).sum((1, 2)) + missed.sum(1)) / weight.clamp(min=1)
    if by_sentence:
        return mean_over((values * counted).sum(-1), lengths > 0)
    return mean_over(values, counted)


def prototypes(encoded: Encoded, batch: Batch, tags: int) -> Params:
    """The decoder that picks the tag whose mean support vector is nearest (WPZ): [M, 1, ...].

    -||h - c||^2 = 2 h.c - ||c||^2 - ||h||^2, and the last term is the same for all tags, so it is
    a linear layer. A tag that the support does not show is never chosen.
    """
    vectors = encoded.words.flatten(1, 2)  # [M, N, H]
    there = mask_of(batch.lengths, encoded.words.shape[2]).flatten(1)  # [M, N]
    shown = torch.nn.functional.one_hot(batch.tags.flatten(1), tags) * there.unsqueeze(-1)
    shown = shown.to(vectors.dtype)  # [M, N, C]
    counts = shown.sum(1)  # [M, C]
    means = torch.bmm(shown.transpose(1, 2), vectors) / counts.clamp(min=1).unsqueeze(-1)
    bias = torch.where(counts > 0, -(means * means).sum(-1), UNSHOWN)
    return {"weight": 2 * means.unsqueeze(1), "bias": bias.unsqueeze(1)}
