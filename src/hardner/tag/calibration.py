"""Calibration: a temperature for each head, so that scores match the share of right spans.

A head's distribution over the tags of a sentence is p(y) ~ exp(score(y) / T). The temperature T
does not change what is found; it is chosen so that held-out sentences are as likely as can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import exp, log

import torch
from torch import Tensor

from hardner.errors import HardnerError
from hardner.model.crf import crf_loss
from hardner.model.decoders import TransitionScores
from hardner.schemes import TagSet, spans_to_tags
from hardner.tag.engine import Engine
from hardner.tag.predictor import Predictor
from hardner.tag.windows import LONGEST_WINDOW
from hardner.types import Sentence

Loss = Callable[[Tensor], Tensor]
"""The loss at each of some temperatures, [K] -> [K]."""
_RANGE = 0.05, 20.0
"""Temperatures that are considered."""
_CLOSE = 1e-3
"""How close the logarithm of a temperature is found."""
_AT_ONCE = 24
"""Temperatures that are tried at once: a pass of the CRF hardly takes longer for them than for one.
"""
_BATCH = 64
"""Sentences that are computed at once."""


def calibrated(predictor: Predictor, held_out: Mapping[str, Sequence[Sentence]]) -> Predictor:
    """The predictor with fitted temperatures.

    Args:
        predictor: Any.
        held_out: By domain, labelled sentences that its head has not learnt from; heads of other
            domains stay as they are.
    """
    temperatures = list(predictor.temperatures)
    for domain, sentences in held_out.items():
        domains = predictor.tagger.domains
        if domain not in domains:
            known = ", ".join(domains)
            raise HardnerError(f"the model has no domain {domain!r}; its domains are {known}")
        head = domains.index(domain)
        temperatures[head] = fit_temperature(predictor, sentences, head)
    return replace(predictor, temperatures=tuple(temperatures))


def fit_temperature(predictor: Predictor, sentences: Sequence[Sentence], head: int = 0) -> float:
    """The temperature under which the labels of held-out sentences are likeliest."""
    return best_temperature(loss_of(predictor, sentences, head))


def best_temperature(loss: Loss) -> float:
    """The temperature with the smallest loss (`loss_of`, or a sum of such)."""
    # The loss is convex in 1 / T, so it has one minimum in log T too: beside the best one tried.
    low, high = map(log, _RANGE)
    while high - low > _CLOSE:
        tried = torch.linspace(low, high, _AT_ONCE, dtype=torch.float64)
        best = int(loss(tried.exp()).argmin())
        low, high = (float(tried[at]) for at in (max(best - 1, 0), min(best + 1, _AT_ONCE - 1)))
    return round(exp((low + high) / 2), 4)


def loss_of(predictor: Predictor, sentences: Sequence[Sentence], head: int) -> Loss:
    """The negative log-likelihood of the sentences' labels at any temperatures."""
    found = losses_of(predictor, sentences, [head])
    if head not in found:
        raise HardnerError("calibration needs held-out sentences with labels; there are none")
    return found[head]


def losses_of(
    predictor: Predictor, sentences: Sequence[Sentence], heads: Sequence[int] | None = None
) -> dict[int, Loss]:
    """As `loss_of`, of some or all heads at once; none of one whose labels no sentence holds."""
    tagger = predictor.tagger
    used = [sentence for sentence in sentences if 0 < len(sentence) <= LONGEST_WINDOW]
    held = {span.label for sentence in used for span in sentence.spans}
    asked = range(len(tagger.tag_sets)) if heads is None else heads
    chosen = [head for head in asked if not held.isdisjoint(tagger.tag_sets[head].labels)]
    # The encoder runs once; temperatures that are tried cost passes of the CRF alone.
    plain = Engine(tagger, predictor.params, (1.0,) * len(tagger.tag_sets), predictor.device)
    parts: dict[int, list[_Said]] = {head: [] for head in chosen}
    with torch.no_grad():
        for rows, said in plain.groups(plain.encode([s.tokens for s in used]), chosen, _BATCH):
            for place, head in enumerate(chosen):
                own = slice(place, place + 1)
                chain = TransitionScores(*(part[own] for part in said.chain))
                some = [used[row] for row in rows]
                tags = _tags(some, tagger.tag_sets[head], said.scores.shape[2])
                tags = tags.to(said.scores.device)
                parts[head].append((said.scores[own], said.lengths[own], chain, tags))
    return {head: partial(_loss, own) for head, own in parts.items()}


_Said = tuple[Tensor, Tensor, TransitionScores, Tensor]
"""Of a batch: the scores of tags, lengths, the scores of sequences, and the right tags."""


@torch.no_grad()
def _loss(parts: Sequence[_Said], temperatures: Tensor) -> Tensor:
    total = torch.zeros_like(temperatures)
    for scores, lengths, chain, tags in parts:  # each of one task, which becomes K of them
        t = temperatures.to(scores).view(-1, 1, 1, 1)
        cooled = TransitionScores(
            chain.transitions / t.squeeze(-1), chain.start / t[:, 0, 0], chain.end / t[:, 0, 0]
        )
        many = lengths.expand(len(t), -1)
        losses = crf_loss(scores / t, many, *cooled, tags.expand(len(t), -1, -1))  # [K, B]
        total += losses.sum(1).to(total)
    return total


def _tags(sentences: Sequence[Sentence], tag_set: TagSet, width: int) -> Tensor:
    """The right tags of some sentences for a head, [1, B, T]; labels of others are left out."""
    index = {tag: i for i, tag in enumerate(tag_set.tags)}
    tags = torch.zeros(1, len(sentences), width, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        own = [span for span in sentence.spans if span.label in tag_set.labels]
        named = spans_to_tags(own, len(sentence), tag_set.scheme)
        tags[0, row, : len(named)] = torch.tensor([index[tag] for tag in named])
    return tags
