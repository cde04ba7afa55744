"""A tagger: an encoder, a decoder for each domain, and any heads -> named losses, and tags."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from hardner.batch import Batch, Store
from hardner.errors import HardnerError
from hardner.features import Features
from hardner.model.crf import viterbi
from hardner.model.decoders import (
    DecoderKind,
    Emissions,
    TransitionScores,
    chain_scores,
    constraints,
    emit,
    init_decoder,
    prototypes,
    select,
    tag_loss,
)
from hardner.model.encoders import Encoded, Encoder, EncoderWithCopies
from hardner.model.heads import Head, head_loss
from hardner.model.label_encoder import (
    LabelEncoder,
    LabelTexts,
    label_loss,
    label_scores,
    label_sentence,
)
from hardner.model.layers import SCORING, Mode, Params, linear, part_of, prefixed, scoped
from hardner.schemes import TagSet
from hardner.types import Sentence

PARTS = {"tag": "decoder", "domain": "critic", "label": "labels"}
"""The part that answers for a loss, where it has another name than the loss."""


@dataclass(frozen=True)
class Tagger:
    """What the network is; its parameters are given to each call."""

    encoder: Encoder
    tag_sets: tuple[TagSet, ...]
    """One a domain, in the order of the decoders."""
    decoder: DecoderKind = "crf"
    heads: Mapping[str, Head] = field(default_factory=dict)
    """By the name of their loss: ``domain``, ``bcls``, ``mcls``, ``mtcls``."""
    label_encoder: LabelEncoder | None = None
    """What makes decoders of label names and descriptions, if it has been trained."""
    label_texts: LabelTexts | None = field(default=None, compare=False, repr=False)
    """What it is trained on; no part of a folder."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The names of the domains."""
        return tuple(t.domain for t in self.tag_sets)

    def init(self, seed: int = 0) -> Params:
        """Fresh parameters of every part; the same seed gives the same numbers."""
        rng = torch.Generator().manual_seed(seed)  # the order of the draws below is fixed
        params = self.encoder.init(rng)
        params |= self.init_decoder(rng)
        for name in sorted(self.heads):
            params |= prefixed(PARTS.get(name, name), self.heads[name].init(rng))
        if self.label_encoder:
            params |= prefixed(PARTS["label"], self.label_encoder.init(rng))
        return params

    def init_decoder(self, rng: torch.Generator) -> Params:
        """Fresh decoders for all domains."""
        made = init_decoder(self.decoder, self.encoder.size, self.tag_sets, rng)
        return prefixed("decoder", made)

    def with_domains(self, tag_sets: Sequence[TagSet]) -> "Tagger":
        """The same encoder with decoders for other domains, and no heads."""
        return replace(self, tag_sets=tuple(tag_sets), heads={}, label_texts=None)

    def store(
        self,
        sentences: Sequence[Sentence],
        domains: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> Store:
        """Encode sentences for batching; ``domains`` says which decoder each belongs to."""
        features: Features = self.encoder.features(sentences)
        own = [0] * len(sentences) if domains is None else domains
        return Store(sentences, features, self.tag_sets, own, device)

    def store_for_all(
        self, sentences: Sequence[Sentence], device: torch.device | str = "cpu"
    ) -> Store:
        """As `store`, of sentences that are labelled for every decoder; types may overlap."""
        return Store(sentences, self.encoder.features(sentences), self.tag_sets, None, device)

    def losses(
        self,
        params: Params,
        batch: Batch,
        names: Collection[str],
        mode: Mode = SCORING,
        cut: Collection[str] = (),
    ) -> dict[str, Tensor]:
        """The named losses of each task, [M].

        Args:
            params: Shared by the tasks, or each its own.
            batch: The sentences.
            names: ``tag``, ``tag of sentences``, ``label``, and names of heads.
            mode: How to compute.
            cut: Losses whose gradient stops before the encoder.
        """
        encoded = self.encoder(params, batch, mode)  # once for all losses
        stopped = Encoded(encoded.words.detach(), encoded.whole.detach())
        found = {}
        for name in names:
            seen = stopped if name in cut else encoded
            if name in ("tag", "tag of sentences"):
                each = self.head_losses(params, seen, batch, name != "tag")
                found[name] = sum_of_heads(each, batch)
            elif name == "label":
                found[name] = self._label_loss(params, seen, batch, mode)
            else:
                own = scoped(params, PARTS.get(name, name))
                found[name] = head_loss(self.heads[name], own, seen, batch)
        return found

    def head_losses(
        self, params: Params, encoded: Encoded, batch: Batch, by_sentence: bool = False
    ) -> Tensor:
        """The tagging loss of each task, [M], or of each head of each task, [M * D]."""
        emitted = self.emissions(params, encoded, batch)
        return tag_loss(self.decoder, emitted, batch, by_sentence)

    def decoders_of(self, params: Params, texts: Batch, mode: Mode = SCORING) -> Params:
        """The decoders that are made of label texts, each a sentence: [M, L, C, ...]."""
        if self.label_encoder is None:
            raise HardnerError(
                "the model makes no types of their names: it was trained without them, or has been "
                "adapted since; label a few sentences, or take a model that can"
            )
        texts = texts.repeat(max(p.shape[0] for n, p in params.items() if part_of(n) == "encoder"))
        encoded = self.encoder(params, texts, replace(mode, dropout=0.0, among=None))
        return self.label_encoder(scoped(params, PARTS["label"]), encoded, texts.lengths)

    def _label_loss(self, params: Params, encoded: Encoded, batch: Batch, mode: Mode) -> Tensor:
        """What decoders made of label texts lose on each task, [M]."""
        assert self.label_texts
        decoders = self.decoders_of(params, self.label_texts.drawn(), mode)
        scores = label_scores(encoded.words, decoders)
        return label_loss(scores, *self.label_texts.targets(batch))

    def emissions(
        self, params: Params, encoded: Encoded, batch: Batch, domains: Tensor | None = None
    ) -> Emissions:
        """The tags' scores by the tasks' decoders; ``domains`` if not those of the batch.

        A batch that is labelled for D heads is scored by all of them, as M * D tasks.
        """
        if batch.heads > 1 and domains is None:
            return self._emissions_of_all(params, encoded, batch)
        rows = batch.domains if domains is None else domains
        limits = _limits(self.tag_sets, encoded.words.device, encoded.words.dtype)
        own = TransitionScores(*(limit[rows] for limit in limits))
        return emit(self.decoder, select(scoped(params, "decoder"), rows), encoded, batch, own)

    def _emissions_of_all(self, params: Params, encoded: Encoded, batch: Batch) -> Emissions:
        tasks, heads = encoded.words.shape[0], batch.heads
        own = scoped(params, "decoder")  # [M|1, D, C, ...]
        each = {n: p.expand(tasks, *p.shape[1:]).flatten(0, 1) for n, p in own.items()}
        limits = _limits(self.tag_sets, encoded.words.device, encoded.words.dtype)
        every = TransitionScores(
            *(limit.repeat(tasks, *[1] * (limit.dim() - 1)) for limit in limits)
        )
        chain = chain_scores(self.decoder, each, every)
        weight, bias = own["weight"].flatten(1, 2), own["bias"].flatten(1, 2)
        scores = linear(encoded.words, weight, bias)  # [M, B, T, D * C], in one product
        scores = scores.unflatten(-1, (heads, -1)).movedim(-2, 1).flatten(0, 1)  # [M * D, B, T, C]
        return Emissions(scores, batch.lengths.repeat_interleave(heads, 0), chain)

    def prototypes(self, params: Params, batch: Batch, mode: Mode = SCORING) -> Params:
        """Parameters with the prototypes of a support batch as decoders, each task its own."""
        made = prototypes(self.encoder(params, batch, mode), batch, self.tags)
        whole = {n: p.expand(-1, len(self.tag_sets), *p.shape[2:]) for n, p in made.items()}
        return params | prefixed("decoder", whole)

    @property
    def tags(self) -> int:
        """C, the number of tags of the richest domain."""
        return max(len(t.tags) for t in self.tag_sets)

    @torch.no_grad()
    def decode(self, params: Params, batch: Batch, domains: Tensor | None = None) -> Tensor:
        """The best tags that the scheme allows, -1 in the padding: [M, B, T].

        With one task and several ``domains`` the encoder runs once and every domain's decoder
        reads what it says: the result has a row a domain, [D, B, T].
        """
        encoded = self.encoder(params, batch, SCORING)
        scores, lengths, chain = self.emissions(params, encoded, batch, domains)
        # The best path of half-precision scores would depend on their rounding.
        scores = scores.float() if scores.dtype.itemsize < 4 else scores
        return viterbi(scores, lengths, *chain)[0]


def sum_of_heads(losses: Tensor, batch: Batch) -> Tensor:
    """The losses of each task's heads [M * D], added up: [M]."""
    return losses if batch.heads == 1 else losses.unflatten(0, (-1, batch.heads)).sum(1)


class Model(NamedTuple):
    """A network and its parameters."""

    tagger: Tagger
    params: Params


def copy_of_model(model: Model, copy: int) -> Model:
    """One copy of the encoder, where there are several, with the heads that read it."""
    tagger, params = model
    encoder = tagger.encoder
    if not isinstance(encoder, EncoderWithCopies):
        return model
    own_heads = encoder.heads_of(len(tagger.tag_sets))[copy]
    heads = slice(own_heads.start, own_heads.stop)
    tag_sets: tuple[TagSet, ...] = tagger.tag_sets[heads]
    alone = replace(tagger, encoder=encoder.base, tag_sets=tag_sets)
    if copy:  # it knows what the first one says
        alone = replace(alone, label_encoder=None)
    reads = slice(copy * encoder.base.size, (copy + 1) * encoder.base.size)
    own = encoder.params_of(params, copy)
    for name, value in params.items():
        if part_of(name) == "decoder":
            cut = value[:, heads, : alone.tags]  # [1, D, C, ...]
            if name == "decoder.weight":
                cut = cut[..., reads]
            elif name == "decoder.transitions":
                cut = cut[..., : alone.tags]
            own[name] = cut.contiguous()
        elif copy and part_of(name) == PARTS["label"]:
            del own[name]
    return Model(alone, own)


@torch.no_grad()
def described_decoder(model: Model, tag_set: TagSet, descriptions: Mapping[str, str]) -> Params:
    """A decoder made of the names of labels, and of descriptions where there are some: [1, 1, ...].

    It reads the encoder itself, or the first of its copies.
    """
    tagger, params = copy_of_model(model, 0)
    texts = [label_sentence(label, descriptions.get(label, "")) for label in tag_set.labels]
    store = tagger.store(texts, device=next(iter(params.values())).device)
    rows = torch.arange(len(texts), device=store.device).unsqueeze(0)
    made = tagger.decoders_of(params, store.batch(rows, store.widths(rows[0].cpu().numpy())))
    assert tagger.label_encoder
    if tag_set.scheme != tagger.label_encoder.scheme:
        own = tagger.label_encoder.scheme
        raise HardnerError(f"the model makes types of their names in {own}, not {tag_set.scheme}")
    found = {}
    for name, value in made.items():  # [1, L, C, ...]: one O, then the tags of each label
        tags = torch.cat((value[:, 0, :1], value[:, :, 1:].flatten(1, 2)), dim=1)
        found[f"decoder.{name}"] = tags.unsqueeze(1)
    return found


@lru_cache(maxsize=64)
def _limits(
    tag_sets: tuple[TagSet, ...], device: torch.device, dtype: torch.dtype
) -> TransitionScores:
    return TransitionScores(*(limit.to(device, dtype) for limit in constraints(tag_sets)))
