"""Calibration: a temperature for each head, so that scores match the share of right spans.

A head's distribution over the tags of a sentence is p(y) ~ exp(score(y) / T). The temperature T
does not change what is found; it is chosen so that held-out sentences are as likely as can be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
    used = [sentence for sentence in sentences if 0 < len(sentence) <= LONGEST_WINDOW]
    if not any(sentence.spans for sentence in used):
        raise HardnerError("calibration needs held-out sentences with labels; there are none")
    tagger = predictor.tagger
    # The encoder runs once; each temperature that is tried costs a pass of the CRF alone.
    plain = Engine(tagger, predictor.params, (1.0,) * len(tagger.tag_sets), predictor.device)
    parts: list[tuple[Tensor, Tensor, TransitionScores, Tensor]] = []
    with torch.no_grad():
        for rows, said in plain.groups(plain.encode([s.tokens for s in used]), [head], _BATCH):
            tags = _tags([used[row] for row in rows], tagger.tag_sets[head], said.scores.shape[2])
            parts.append((*said, tags.to(said.scores.device)))

    @torch.no_grad()
    def loss(temperatures: float) -> float:
        total = 0.0
        for scores, lengths, chain, tags in parts:
            cooled = TransitionScores(*(part / temperatures for part in chain))
            total += crf_loss(scores / temperatures, lengths, *cooled, tags).sum().item()
        return total

    return loss


def _tags(sentences: Sequence[Sentence], tag_set: TagSet, width: int) -> Tensor:
    """The right tags of some sentences for a head, [1, B, T]; labels of others are left out."""
    index = {tag: i for i, tag in enumerate(tag_set.tags)}
    tags = torch.zeros(1, len(sentences), width, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        own = [span for span in sentence.spans if span.label in tag_set.labels]
        named = spans_to_tags(own, len(sentence), tag_set.scheme)
        tags[0, row, : len(named)] = torch.tensor([index[tag] for tag in named])
    return tags
