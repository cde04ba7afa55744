"""A small model that knows genes, and a rule that fits it to another type in a moment."""

from dataclasses import replace
from functools import cache

import tiny

from hardner.adapt.adapter import Adapter
from hardner.adapt.recipe import Recipe, SelfTraining
from hardner.adapt.sample import Sample
from hardner.meta.optim import Optimizer
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


def labelled(*sentences: tuple[str, str]) -> list[Sentence]:
    """From pairs of words and tags, each a string."""
    from hardner.schemes import tags_to_spans

    return [
        Sentence(tuple(words.split()), tags_to_spans(tags.split(), "IOB2")[0])
        for words, tags in sentences
    ]
