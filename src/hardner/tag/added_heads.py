"""New heads beside those of a model, which go on to read exactly what they read before.

Had new heads only what the encoder says already, they would lose what the encoder can learn about
their types; did the others read the changed encoder, they would forget theirs. So the model gets a
copy of what has changed (`EncoderWithCopies`), and the price is a second pass for the new heads.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.config import Share, Whole
from hardner.errors import HardnerError
from hardner.model.encoders import EncoderWithCopies, copy_name
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Model, Tagger, copy_of_model
from hardner.schemes import TagSet
from hardner.tag.engine import EncodedTexts, Engine
from hardner.tag.uncertainty import Uncertainty
from hardner.tag.windows import ScoredMention, Tokens
from hardner.types import Sentence, Span


@dataclass(frozen=True)
class KeptSentence:
    """A sentence that a head was learnt from, with the mentions of its one label."""

    tokens: tuple[str, ...]
    spans: tuple[tuple[Whole, ...], ...] = ()
    """Start and end of each, in tokens."""
    rejected: tuple[tuple[Whole, ...], ...] = ()
    """Of a sentence labelled in part: what is known to be no mention."""
    partial: bool = False

    def __post_init__(self) -> None:
        for span in (*self.spans, *self.rejected):
            if len(span) != 2 or not 0 <= span[0] < span[1] <= len(self.tokens):
                raise HardnerError(f"a span {span} of a sentence of {len(self.tokens)} tokens")

    @classmethod
    def of(cls, sentence: Sentence) -> "KeptSentence":
        """A sentence with the mentions of one label alone."""
        spans, rejected = (
            tuple((s.start, s.end) for s in own) for own in (sentence.spans, sentence.rejected)
        )
        return cls(sentence.tokens, spans, rejected, not sentence.is_done)

    def labelled(self, label: str) -> Sentence:
        """The sentence again; the label may have been renamed since."""
        spans, rejected = (
            tuple(Span(start, end, label) for start, end in own)
            for own in (self.spans, self.rejected)
        )
        return Sentence(self.tokens, spans, state="partial" * self.partial, rejected=rejected)


@dataclass(frozen=True)
class Origin:
    """What a model folder says of a head that was adapted to labelled sentences, or described."""

    labels: tuple[str, ...] = ()
    """As they were named in the sentences."""
    data: str = ""
    """SHA-256 of the labelled sentences, whatever their order was."""
    sentences: Whole = 0
    """Those that were learnt from."""
    bearing: Whole = 0
    """Those of them with a mention."""
    mentions: Whole = 0
    unlabelled: Whole = 0
    began: str = ""
    """The head and the encoder that learning began with."""
    beside: tuple[str, ...] = ()
    """The labels that were learnt in the same fit."""
    seed: int = 0
    recipe: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    """Of the day, in UTC."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of hardner and torch."""
    expected: tuple[Share, ...] = ()
    """F1 by cross-validation, and its interval; empty where nothing was held out."""
    notes: tuple[str, ...] = ()
    kept: tuple[KeptSentence, ...] = ()
    """The sentences themselves, where the user wanted the folder to hold them."""
    description: str = ""
    """What the label means, where its decoder began with that."""


def add_heads(model: Model, added: Model) -> Model:
    """The model with the heads of another one, on a copy of the encoder where that differs."""
    encoder = model.tagger.encoder
    base, changed = (
        (encoder.base, encoder.changed) if isinstance(encoder, EncoderWithCopies) else (encoder, ())
    )
    start = copy_of_model(model, 0).params
    names = tuple(
        name
        for name in start
        if part_of(name) == "encoder" and not torch.equal(start[name], added.params[name])
    )
    more = len(added.tagger.tag_sets)
    counts = (*map(len, heads_by_copy(model.tagger)[1:]), more)
    wider = EncoderWithCopies(base, (*changed, names), counts if max(counts) > 1 else ())
    crf = "crf" in (model.tagger.decoder, added.tagger.decoder)
    tagger = replace(
        model.tagger,
        encoder=wider,
        tag_sets=(*model.tagger.tag_sets, *added.tagger.tag_sets),
        decoder="crf" if crf else model.tagger.decoder,
    )
    own = {copy_name(len(wider.changed), name): added.params[name] for name in names}
    old, new = (_chained(m) if crf else _decoder(m) for m in (model, added))
    decoders = {name: _beside(name, old[name], new[name], tagger.tags) for name in old}
    return Model(tagger, model.params | own | decoders)


def widen(model: Model, tag_sets: Sequence[TagSet], decoders: Sequence[Params]) -> Model:
    """The model with more heads, each by a decoder [1, 1, ...], that read its encoder as it is."""
    wider = replace(model.tagger, tag_sets=(*model.tagger.tag_sets, *tag_sets))
    params = dict(model.params)
    for name, value in _decoder(model).items():
        zeros = value.new_zeros(1, 1, *value.shape[2:])
        made = [(one.get(name, zeros)).to(value) for one in decoders]
        parts = [_as_wide(name, part[:, :, : wider.tags], wider.tags) for part in (value, *made)]
        params[name] = torch.cat(parts, dim=1)
    return Model(wider, params)


def heads_by_copy(tagger: Tagger) -> list[range]:
    """The heads that read each copy of a tagger's encoder; all of them where there is one."""
    heads, encoder = len(tagger.tag_sets), tagger.encoder
    return encoder.heads_of(heads) if isinstance(encoder, EncoderWithCopies) else [range(heads)]


def take_heads(model: Model, heads: Collection[int]) -> Model:
    """The model with some of its heads, and with no copy of the encoder that none of them reads."""
    parts = []
    for copy, own in enumerate(heads_by_copy(model.tagger)):
        if kept := [place for place, head in enumerate(own) if head in heads]:
            parts.append(_with_heads(copy_of_model(model, copy), kept))
    return reduce(add_heads, parts)


def _with_heads(model: Model, heads: Sequence[int]) -> Model:
    tagger = model.tagger
    if len(heads) == len(tagger.tag_sets):
        return model
    alone = tagger.with_domains([tagger.tag_sets[head] for head in heads])
    params = {}
    for name, value in model.params.items():
        if part_of(name) == "decoder":
            value = value[:, heads, : alone.tags]  # [1, D, C, ...]
            if name == "decoder.transitions":
                value = value[..., : alone.tags]
        if part_of(name) in ("encoder", "frozen", "decoder", "labels"):
            params[name] = value.contiguous()
    return Model(alone, params)


def _decoder(model: Model) -> Params:
    return {n: p for n, p in model.params.items() if part_of(n) == "decoder"}


def _chained(model: Model) -> Params:
    """Decoders as those of a CRF: one without scores for steps has zeros, which change nothing."""
    own, heads, tags = _decoder(model), len(model.tagger.tag_sets), model.tagger.tags
    like = own["decoder.bias"]
    return {
        "decoder.transitions": like.new_zeros(1, heads, tags, tags),
        "decoder.start": like.new_zeros(1, heads, tags),
        "decoder.end": like.new_zeros(1, heads, tags),
        **own,
    }


def _beside(name: str, old: Tensor, new: Tensor, tags: int) -> Tensor:
    """Two decoders' numbers as one, [1, D, C, ...] and [1, E, C', ...] -> [1, D + E, tags, ...]."""
    if name == "decoder.weight":  # the new ones read the last copy, the old ones those before
        size = new.shape[-1]
        new, old = pad(new, (old.shape[-1], 0)), pad(old, (0, size))
    return torch.cat([_as_wide(name, value, tags) for value in (old, new)], dim=1)


def _as_wide(name: str, value: Tensor, tags: int) -> Tensor:
    short = tags - value.shape[2]
    if name == "decoder.transitions":
        return pad(value, (0, short, 0, short))
    return pad(value, (0, 0) * (value.dim() - 3) + (0, short))


@dataclass(frozen=True, eq=False)
class BranchedEngine:
    """An engine for each copy of a branched encoder, each for the heads that read it."""

    engines: tuple[Engine, ...]
    heads: tuple[tuple[int, ...], ...]
    """Of the model, in the order of each engine's own."""

    @classmethod
    def of(
        cls, model: Model, encoder: EncoderWithCopies, temperatures: Sequence[float], device: str
    ) -> "BranchedEngine":
        """Take the model apart."""
        heads = tuple(map(tuple, encoder.heads_of(len(model.tagger.tag_sets))))
        engines = []
        for copy, own in enumerate(heads):
            tagger, params = copy_of_model(model, copy)
            own_temperatures = tuple(temperatures[head] for head in own)
            engines.append(Engine(tagger, params, own_temperatures, device))
        return cls(tuple(engines), heads)

    def tag(
        self, encoded: EncodedTexts, heads: Sequence[int], size: int
    ) -> list[list[ScoredMention]]:
        """As `Engine.tag`."""
        found: list[list[ScoredMention]] = [[] for _ in encoded.texts]
        for engine, own, asked in self._asked(heads):
            for marks, more in zip(found, engine.tag(encoded, asked, size), strict=True):
                marks += [mark._replace(head=own[mark.head]) for mark in more]
        return found

    def encode(self, texts: Sequence[Tokens]) -> EncodedTexts:
        """As `Engine.encode`; all copies of the encoder read the same."""
        return self.engines[0].encode(texts)

    def uncertainties(
        self, encoded: EncodedTexts, heads: Sequence[int], size: int
    ) -> list[list[Uncertainty]]:
        """As `Engine.uncertainties`."""
        each = [engine.uncertainties(encoded, own, size) for engine, _, own in self._asked(heads)]
        return [list(chain.from_iterable(rows)) for rows in zip(*each, strict=True)]

    def _asked(
        self, heads: Sequence[int]
    ) -> Iterator[tuple[Engine, tuple[int, ...], tuple[int, ...]]]:
        """The engines of these heads, all heads of each, and which of its own are asked for."""
        for engine, own in zip(self.engines, self.heads, strict=True):
            asked = tuple(own.index(head) for head in heads if head in own)
            if asked:
                yield engine, own, asked
