"""A small model that knows genes, and a rule that fits it to another type in a moment."""

from dataclasses import replace
from functools import cache

import tiny
import torch

from hardner.adapt.adapter import Adapter
from hardner.adapt.recipe import Recipe, SelfTraining
from hardner.adapt.sample import Sample
from hardner.meta.optim import Optimizer
from hardner.model.label_encoder import LabelEncoder
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

RULE = Recipe(
    40,
    0.02,
    Optimizer("adamw", weight_decay=0.01),
    batch=24,
    dropout=0.0,
    clip=1.0,
    self_training=SelfTraining(steps=40, rate=1.0, batch=8),
)
DRUGS = tuple(
    replace(s, spans=tuple(span._replace(label="Drug") for span in s.spans))
    for s in tiny.sentences("Drug")[:9]
)
"""Sentences of a type that the model does not know."""


@cache
def known(decoder: str = "crf") -> Predictor:
    """Two heads that have learnt the tiny corpus's genes and species by heart."""
    whole = tiny.tagger("transformer", decoder)
    tag_sets = [TagSet("Gene", ("Gene",)), TagSet("Species", ("Species",))]
    params = whole.init(0)
    adapter = Adapter(Model(whole, params), tag_sets[:1], RULE)
    fitted = adapter.fit([Sample(tiny.sentences("Gene"))])
    both = whole.with_domains(tag_sets)
    decoders = {n: p.repeat(1, 2, *[1] * (p.dim() - 2)) for n, p in fitted.items() if n[0] == "d"}
    return Predictor(both, fitted | decoders, (1.5, 0.8))


@cache
def describing() -> Predictor:
    """The model that knows genes and species, with a label encoder that has learnt nothing."""
    own = known()
    tagger = replace(own.tagger, label_encoder=LabelEncoder(own.tagger.encoder.size))
    return replace(own, tagger=tagger, params=tagger.init(3) | own.params)


@cache
def knowing() -> Predictor:
    """The same with one that makes, of whatever text, the decoder that the drugs teach."""
    own = describing()
    drug = Adapter(Model(known().tagger, known().params), [TagSet("Drug", ("Drug",))], RULE)
    fit = drug.fit([Sample(DRUGS)])
    start = own.params["labels.start.bias"].clone()  # [1, (C - 1) (H + 1)]
    rows = torch.cat((fit["decoder.weight"], fit["decoder.bias"].unsqueeze(-1)), dim=-1)[0, 0]
    rows = (rows - rows[:1])[1:]  # of the tags but ``O``
    rows[:, :-1] *= own.tagger.encoder.size**0.5
    params = own.params | {n: fit[n] for n in fit if n.startswith("encoder.")}
    params["labels.start.weight"] = torch.zeros_like(params["labels.start.weight"])
    params["labels.start.bias"] = rows.reshape_as(start)
    params["decoder.bias"] = params["decoder.bias"].clone()
    params["decoder.bias"][..., 0] += 50  # its own heads, on another encoder now, find nothing
    return replace(own, params=params)


def labelled(*sentences: tuple[str, str]) -> list[Sentence]:
    """From pairs of words and tags, each a string."""
    from hardner.schemes import tags_to_spans

    return [
        Sentence(tuple(words.split()), tags_to_spans(tags.split(), "IOB2")[0])
        for words, tags in sentences
    ]
