"""Auxiliary outputs on the encoder, which ask for something other than tags.

Each gives one loss a task, averaged over its sentences, or over their words.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Batch
from hardner.config import AxisSize
from hardner.model.encoders import Encoded
from hardner.model.layers import (
    Params,
    init_linear,
    linear,
    mask_of,
    mean_of_words,
    mean_over,
    prefixed,
)

Pooling = Literal["cls", "mean", "max"]


class Head(Protocol):
    """A classifier of sentences or words, on the encoder's output."""

    def init(self, rng: torch.Generator) -> Params:
        """Its parameters."""

    def logits(self, params: Params, encoded: Encoded, batch: Batch) -> Tensor:
        """[M, B, classes], or [M, B, T, classes] for a question about words."""

    def gold(self, batch: Batch) -> Tensor:
        """The right answers, [M, B] or [M, B, T]."""


def head_loss(head: Head, params: Params, encoded: Encoded, batch: Batch) -> Tensor:
    """Cross-entropy, averaged over the sentences (or words) of each task: [M]."""
    gold = head.gold(batch)
    values = cross_entropy(head.logits(params, encoded, batch), gold)
    about_words = gold.dim() == 3
    there = mask_of(batch.lengths, gold.shape[2]) if about_words else batch.lengths > 0
    return mean_over(values, there)


def pool_sentence(encoded: Encoded, batch: Batch, pooling: Pooling) -> Tensor:
    """One vector a sentence: [M, B, H]."""
    if pooling == "cls":
        return encoded.whole
    if pooling == "mean":
        return mean_of_words(encoded.words, batch.lengths)
    there = mask_of(batch.lengths, encoded.words.shape[2]).unsqueeze(-1)  # [M, B, T, 1]
    return encoded.words.masked_fill(~there, -1e4).amax(2)


def cross_entropy(logits: Tensor, gold: Tensor) -> Tensor:
    """logits [..., C], gold [...] -> [...]."""
    return functional.cross_entropy(logits.flatten(0, -2), gold.flatten(), reduction="none").view(
        gold.shape
    )


def sentence_labels(batch: Batch, asks: str) -> Tensor:
    """What a `SentenceHead` should answer, from the mentions themselves: [M, B]."""
    if asks == "domain":
        return batch.domains.unsqueeze(1).expand_as(batch.lengths)
    return batch.mentions.clamp(max=1 if asks == "bcls" else 3)


@dataclass(frozen=True)
class SentenceHead:
    """A class for each sentence, from its pooled vector by one linear layer."""

    asks: Literal["domain", "bcls", "mcls"]
    """The domain (HGDA); whether there is a mention (bCLS); how many: 0, 1, 2, more (mCLS)."""
    size: AxisSize
    classes: AxisSize
    pooling: Pooling = "max"

    def init(self, rng: torch.Generator) -> Params:
        return init_linear(self.size, self.classes, rng)

    def logits(self, params: Params, encoded: Encoded, batch: Batch) -> Tensor:
        pooled = pool_sentence(encoded, batch, self.pooling)
        return linear(pooled, params["weight"], params["bias"])

    def gold(self, batch: Batch) -> Tensor:
        return sentence_labels(batch, self.asks)


@dataclass(frozen=True)
class ExtentHead:
    """mtCLS: whether each word stands in no mention, is one, or is part of a longer one."""

    size: AxisSize

    def init(self, rng: torch.Generator) -> Params:
        return init_linear(self.size, 3, rng)

    def logits(self, params: Params, encoded: Encoded, batch: Batch) -> Tensor:
        return linear(encoded.words, params["weight"], params["bias"])

    def gold(self, batch: Batch) -> Tensor:
        return batch.extent


@dataclass(frozen=True)
class Discriminator:
    """MetaNER's: attention over the words, then two layers that name the domain (Eq. 13)."""

    size: AxisSize
    domains: AxisSize

    def init(self, rng: torch.Generator) -> Params:
        return {
            **prefixed("attention", init_linear(self.size, 1, rng)),
            **prefixed("hidden", init_linear(self.size, self.size, rng)),
            **prefixed("out", init_linear(self.size, self.domains, rng)),
        }

    def logits(self, params: Params, encoded: Encoded, batch: Batch) -> Tensor:
        h = encoded.words
        # Eq. 9: omega = softmax(tanh(h P + p)), over the words of the sentence.
        scores = linear(h, params["attention.weight"], params["attention.bias"]).tanh()
        there = mask_of(batch.lengths, h.shape[2]).unsqueeze(-1)  # [M, B, T, 1]
        omega = scores.masked_fill(~there, -1e4).softmax(2)
        # Eq. 10: c = h omega.
        c = (h * omega).sum(2)  # [M, B, H]
        # Eq. 11: p(y_d | c) = MLP(c).
        hidden = linear(c, params["hidden.weight"], params["hidden.bias"]).relu()
        return linear(hidden, params["out.weight"], params["out.bias"])

    def gold(self, batch: Batch) -> Tensor:
        return sentence_labels(batch, "domain")


def domain_head(kind: str, size: int, domains: int) -> Head:
    """A domain classifier: MetaNER's ``attention``, else ``linear`` on the words' mean (HGDA)."""
    if kind == "attention":
        return Discriminator(size, domains)
    return SentenceHead("domain", size, domains, "mean")
