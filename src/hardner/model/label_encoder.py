"""From what a label is called and what it means to a decoder for it, without an example.

The model's own encoder reads the text of a label as it reads any sentence, and two linear maps turn
what it says into the scores of that label's tags. What comes out is an ordinary decoder, so tagging
costs one pass of the encoder however many labels there are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Batch, Store
from hardner.config import AxisSize
from hardner.errors import HardnerError
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
from hardner.schemes import TagSet
from hardner.text import tokenize
from hardner.types import Sentence

_JOINED = re.compile(r"_|(?<=[a-z])(?=[A-Z][a-z])")
"""Where the words of a name meet: ``cell_line``, ``CellLine``."""
_RARE = -2.0
"""Score of each tag at the start of training: most words are outside of any mention."""


@dataclass(frozen=True)
class LabelEncoder:
    """Vectors of label texts -> decoders, one for each label."""

    size: AxisSize
    """H, of a word's vector."""
    scheme: str = "IOB2"

    @property
    def tags(self) -> int:
        """C, of a decoder for one label, ``O`` included."""
        return len(TagSet("", ("",), self.scheme).tags)

    def init(self, rng: torch.Generator) -> Params:
        """Parameters of both maps."""
        tags = self.tags - 1
        start = init_linear(self.size, tags * (self.size + 1), rng)
        start["bias"].view(tags, -1)[:, -1] = _RARE
        hidden = init_linear(self.size, self.size, rng)
        return {**prefixed("hidden", hidden), **prefixed("start", start)}

    def __call__(self, params: Params, encoded: Encoded, lengths: Tensor) -> Params:
        """The decoders of L label texts: words [M, L, T, H] and lengths -> [M, L, C, ...]."""
        mean = mean_of_words(encoded.words, lengths)  # [M, L, H]
        hidden = functional.gelu(linear(mean, params["hidden.weight"], params["hidden.bias"]))
        start = linear(hidden, params["start.weight"], params["start.bias"])
        start = start.unflatten(-1, (self.tags - 1, self.size + 1))  # [M, L, C - 1, H + 1]
        start = functional.pad(start, (0, 0, 1, 0))  # ``O`` scores 0: only differences count
        # As in attention, products with the words' vectors would grow with their size.
        return {"weight": start[..., :-1] / self.size**0.5, "bias": start[..., -1]}


def label_sentence(name: str, description: str = "") -> Sentence:
    """What the encoder reads of a label: ``CellLine`` and a text -> "cell line: a text"."""
    words = (w if w.isupper() else w.lower() for w in _JOINED.sub(" ", name).split())
    text = " ".join(words) + (f": {description.strip()}" if description.strip() else "")
    tokens = tuple(text[start:end] for start, end in tokenize(text))
    if not tokens:
        raise HardnerError("a label without a name says nothing; name it")
    return Sentence(tokens)


def label_scores(words: Tensor, decoders: Params) -> Tensor:
    """Words [M, B, T, H] scored for L labels: [M, B, T, L, C]."""
    weight, bias = decoders["weight"], decoders["bias"]  # [M|1, L, C, H], [M|1, L, C]
    found = linear(words, weight.flatten(1, 2), bias.flatten(1, 2))
    return found.view(*found.shape[:-1], *bias.shape[1:])


def label_loss(scores: Tensor, gold: Tensor, known: Tensor) -> Tensor:
    """The mean cross-entropy of what is known of words and labels, of each task: [M].

    Scores [M, B, T, L, C]; gold and known [M, B, T, L]. A word that may be of a label that nobody
    has looked for is not known of it, and teaches nothing.
    """
    logits = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    losses = functional.cross_entropy(logits.flatten(0, -2), gold.flatten(), reduction="none")
    return mean_over(losses.view(gold.shape), known)


class LabelTexts(NamedTuple):
    """The L labels of all tag sets, to be learnt from the sentences of batches."""

    store: Store
    """The names, then the names with descriptions: 2 L sentences."""
    widths: dict[str, int]
    own: Tensor  # bool [D, L], whether a label is one of a tag set
    beside: Tensor  # bool [D, L], whether it is of another of the same sentences
    gold: Tensor  # [D, tags of it, L], the tag of a label's own decoder

    @classmethod
    def of(cls, store: Store, tag_sets: Sequence[TagSet], same: Mapping[str, str]) -> "LabelTexts":
        """Of tag sets, in their order; ``same`` says by domain whose sentences it labels."""
        pairs = [(i, label) for i, t in enumerate(tag_sets) for label in t.labels]
        width = max(len(t.tags) for t in tag_sets)
        own = torch.zeros(len(tag_sets), len(pairs), dtype=torch.bool)
        beside, gold = own.clone(), torch.zeros(len(tag_sets), width, len(pairs), dtype=torch.long)
        for at, (owner, label) in enumerate(pairs):
            own[owner, at] = True
            tags, alone = tag_sets[owner].tags, TagSet("", (label,), tag_sets[owner].scheme).tags
            for place, tag in enumerate(alone):
                gold[owner, tags.index(tag), at] = place
            for row, other in enumerate(tag_sets):
                apart = row != owner and label not in other.labels
                beside[row, at] = apart and same[other.domain] == same[tag_sets[owner].domain]
        widths = store.widths(np.arange(2 * len(pairs)))
        return cls(store, widths, *(part.to(store.device) for part in (own, beside, gold)))

    def drawn(self) -> Batch:
        """Of each label at random the name alone, or with its description: one task."""
        device, labels = self.own.device, self.own.shape[1]
        described = torch.rand(labels, device=device) < 0.5
        rows = torch.arange(labels, device=device) + labels * described
        return self.store.batch(rows.unsqueeze(0), self.widths)

    def targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Gold and what is known of a batch's words and all labels, two of [M, B, T, L].

        A tag set's sentences are labelled to their end for its labels. Of the other labels of
        these sentences it is known that they are none of its mentions.
        """
        domains, tags = batch.domains, batch.tags
        gold = self.gold[domains.view(-1, 1, 1), tags]  # [M, B, T, L]
        there = mask_of(batch.lengths, tags.shape[-1]).unsqueeze(-1)  # [M, B, T, 1]
        own, beside = (part[domains][:, None, None] for part in (self.own, self.beside))
        return gold, there & (own | (beside & (tags > 0).unsqueeze(-1)))
