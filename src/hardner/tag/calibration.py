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

_RANGE = 0.05, 20.0
"""Temperatures that are considered."""
_CLOSE = 1e-3
"""How close the logarithm of a temperature is found."""
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


def best_temperature(loss: Callable[[float], float]) -> float:
    """The temperature with the smallest loss (`loss_of`, or a sum of such)."""
    # The loss is convex in 1 / T, so it has one minimum in log T too: ternary search.
    low, high = map(log, _RANGE)
    while high - low > _CLOSE:
        third = (high - low) / 3
        if loss(exp(low + third)) < loss(exp(high - third)):
            high -= third
        else:
            low += third
    return round(exp((low + high) / 2), 4)


def loss_of(
    predictor: Predictor, sentences: Sequence[Sentence], head: int
) -> Callable[[float], float]:
    """The negative log-likelihood of the sentences' labels at any temperature."""
    found = losses_of(predictor, sentences, [head])
    if head not in found:
        raise HardnerError("calibration needs held-out sentences with labels; there are none")
    return found[head]


def losses_of(
    predictor: Predictor, sentences: Sequence[Sentence], heads: Sequence[int] | None = None
) -> dict[int, Callable[[float], float]]:
    """As `loss_of`, of some or all heads at once; none of one whose labels no sentence holds."""
    tagger = predictor.tagger
    used = [sentence for sentence in sentences if 0 < len(sentence) <= LONGEST_WINDOW]
    held = {span.label for sentence in used for span in sentence.spans}
    asked = range(len(tagger.tag_sets)) if heads is None else heads
    chosen = [head for head in asked if not held.isdisjoint(tagger.tag_sets[head].labels)]
    # The encoder runs once; each temperature that is tried costs a pass of the CRF alone.
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
def _loss(parts: Sequence[_Said], temperature: float) -> float:
    total = 0.0
    for scores, lengths, chain, tags in parts:
        cooled = TransitionScores(*(part / temperature for part in chain))
        total += crf_loss(scores / temperature, lengths, *cooled, tags).sum().item()
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
