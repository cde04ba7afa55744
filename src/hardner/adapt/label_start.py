"""Heads that begin with what their labels mean, where that says more than how rare mentions are.

A decoder that the label encoder made of a name and a description has seen no sentence of the user,
so all of them can judge it, at the price of reading them once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.adapt.adapter import Adapter
from hardner.adapt.examples import Examples
from hardner.adapt.judge import JudgedHead
from hardner.adapt.sample import Sample
from hardner.errors import HardnerError
from hardner.model.encoders import Encoded
from hardner.model.tagger import described_decoder
from hardner.types import Sentence

_UNREAD = (
    "descriptions are not read: learning begins with a model that was trained without label names"
)
_JUDGED = 100
"""Sentences that it is judged on, at most."""


class DescribedStart(NamedTuple):
    """What a decoder made of the labels' meaning is worth on the sentences, not having seen any."""

    loss: float
    """Its tagging loss."""
    rarity: float
    """That of the best decoder which knows how rare mentions are, and does not see the words."""

    @property
    def helps(self) -> bool:
        """Whether learning begins with it."""
        return self.loss < self.rarity


def begin_described(
    adapter: Adapter, sentences: Sequence[Sentence], descriptions: Mapping[str, str]
) -> tuple[Adapter, dict[str, DescribedStart]]:
    """The adapter with described decoders where these help, and their worth by domain.

    Args:
        adapter: Heads that begin with one of the model's own stay as they are.
        sentences: Labelled for all heads.
        descriptions: By label; a head is described if one of its labels is named.
    """
    made = {
        t.domain: described_decoder(adapter.model, t, descriptions)
        for t in adapter.tag_sets
        if not (adapter.begins_with(t.labels[0]) or descriptions.keys().isdisjoint(t.labels))
    }
    some = sentences[:_JUDGED]
    if not made or not some:
        return adapter.with_decoders(made), {}
    losses = adapter.losses(adapter.with_decoders(made).start([Sample(tuple(some))]), some)
    rarities = _losses_of_rarity(adapter, some)
    worth = {
        t.domain: DescribedStart(*pair)
        for t, *pair in zip(adapter.tag_sets, losses, rarities, strict=True)
        if t.domain in made
    }
    helpful = {domain: decoder for domain, decoder in made.items() if worth[domain].helps}
    return adapter.with_decoders(helpful), worth


class Described(NamedTuple):
    """What the user says that labels mean, and what that is worth."""

    texts: Mapping[str, str]
    """By label."""
    given: Examples
    worth: dict[str, DescribedStart]
    """By domain, of heads that a description was made into a decoder for."""
    notes: list[str]

    @classmethod
    def of(cls, texts: Mapping[str, str], given: Examples) -> "Described":
        """Before any adapter has begun with them."""
        if unknown := sorted(texts.keys() - set(given.labels)):
            learnt = ", ".join(given.labels)
            raise HardnerError(f"{unknown[0]} is described and not learnt; learnt are {learnt}")
        return cls(texts, given, {}, [])

    def begin(self, adapter: Adapter) -> Adapter:
        """As `begin_described`, for the labels that are described."""
        labels = {label for tag_set in adapter.tag_sets for label in tag_set.labels}
        if not labels.intersection(self.texts):
            return adapter
        if adapter.model.tagger.label_encoder is None:
            self.notes.append(_UNREAD)
            return adapter
        adapter, worth = begin_described(adapter, self.given.only(labels).sentences, self.texts)
        self.worth.update(worth)
        return adapter

    def told(self, judged: Sequence[JudgedHead], adapter: Adapter) -> list[JudgedHead]:
        """Reports that say what the descriptions were good for."""
        found = []
        for one, tag_set in zip(judged, adapter.tag_sets, strict=True):
            report, worth = one.report, self.worth.get(tag_set.domain)
            if report.label in self.texts:
                report = replace(report, description=self.texts[report.label].strip())
            if worth:
                report = replace(report, began=worth.helps)
            found.append(one._replace(report=report))
        return found


def _losses_of_rarity(adapter: Adapter, sentences: Sequence[Sentence]) -> list[float]:
    """The tagging loss of each head were its scores the same for every word, and the best such.

    The shares of the tags are these only for a softmax: under a CRF, what a scheme forbids counts.
    """
    tagger = adapter.tagger
    store = tagger.store_for_all(sentences)
    rows = torch.arange(len(sentences)).unsqueeze(0)
    batch = store.batch(rows, store.widths(rows[0].numpy()))
    blind = Encoded(torch.zeros(*batch.lengths.shape, batch.tags.shape[-1], 1).double(), rows)
    bare = tagger.init_decoder(torch.Generator().manual_seed(0))
    zeros = {n: torch.zeros_like(p).double() for n, p in bare.items()}
    zeros["decoder.weight"] = zeros["decoder.weight"][..., :1]
    bias = zeros["decoder.bias"].requires_grad_()
    solver = torch.optim.LBFGS([bias], max_iter=50, line_search_fn="strong_wolfe")

    def total() -> Tensor:
        solver.zero_grad()
        loss = tagger.head_losses(zeros, blind, batch).sum()
        loss.backward()
        return loss

    solver.step(total)
    with torch.no_grad():
        found: list[float] = tagger.head_losses(zeros, blind, batch).tolist()
    return found
