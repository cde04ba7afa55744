"""The small networks that a large one teaches (`hardner.adapt.distil`), and the text for that."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import torch

from hardner.errors import HardnerError
from hardner.model.characters import Characters
from hardner.model.encoders import EncoderWithCopies, WordEncoder
from hardner.model.layers import part_of
from hardner.model.tagger import Model, Tagger, copy_of_model
from hardner.model.transformer import PieceEncoder
from hardner.schemes import TagSet
from hardner.tag.added_heads import heads_by_copy
from hardner.tag.predictor import Predictor
from hardner.types import Progress, Sentence

_AT_ONCE = 1024
"""Sentences that are tagged between two calls for progress."""


def layers_of(tagger: Tagger) -> int:
    """How many layers there are to be cut off after; 1 of a network that cannot be cut."""
    encoder = tagger.encoder
    encoder = encoder.base if isinstance(encoder, EncoderWithCopies) else encoder
    return encoder.transformer.layers if isinstance(encoder, PieceEncoder) else 1


def lower_layers(teacher: Model, layers: int) -> Model:
    """The teacher's subwords, its lowest layers and its heads: a student to begin with.

    Where heads read copies of the encoder, all begin on the first one: the student is one pass.
    """
    first = copy_of_model(teacher, 0)
    encoder = first.tagger.encoder
    if not isinstance(encoder, PieceEncoder):
        raise HardnerError("only hardner's own transformer can be cut off after some layers")
    if not 0 < layers < encoder.transformer.layers:
        most = encoder.transformer.layers - 1
        raise HardnerError(f"the teacher has {most + 1} layers, so its student has 1 to {most}")
    small = replace(encoder, transformer=replace(encoder.transformer, layers=layers))
    tagger = replace(teacher.tagger, encoder=small, decoder="softmax", heads={})
    taken = tuple(f"encoder.layer{i}." for i in range(layers))
    params = {
        name: value
        for name, value in first.params.items()
        if part_of(name) == "encoder" and (".layer" not in name or name.startswith(taken))
    }
    for name in ("decoder.weight", "decoder.bias"):
        params[name] = teacher.params[name]
    if isinstance(teacher.tagger.encoder, EncoderWithCopies):
        size = encoder.size  # a head reads the copy's part of the weights, and zeros elsewhere
        weight = teacher.params["decoder.weight"]  # [1, D, C, copies * H]
        own = [
            weight[:, heads, :, copy * size : (copy + 1) * size]
            for copy, heads in enumerate(heads_by_copy(teacher.tagger))
        ]
        params["decoder.weight"] = torch.cat(own, dim=1)
    return Model(tagger, params)


@dataclass(frozen=True)
class Student:
    """Sizes of the small network."""

    words: int = 40_000
    """Vocabulary: the most frequent words."""
    dimension: int = 128
    letters: Characters = field(
        default_factory=lambda: Characters(embedding=32, filters=96, widths=(2, 3, 4))
    )
    hidden: int = 256
    """Of one direction."""

    def tagger(self, sentences: Sequence[Sentence], tag_sets: Sequence[TagSet]) -> Tagger:
        """The network, with a vector for each frequent word that occurs more than once."""
        seen = Counter(word for sentence in sentences for word in sentence.tokens)
        often = (word for word, n in seen.most_common(self.words) if n > 1 and "\n" not in word)
        encoder = WordEncoder(tuple(often), self.dimension, True, self.letters, "lstm", self.hidden)
        return Tagger(encoder, tuple(tag_sets), "softmax")


def choose_text(
    teacher: Predictor, sentences: Sequence[Sentence], on_progress: Progress | None = None
) -> list[Sentence]:
    """The sentences in which the teacher finds something, and as many others.

    Most types are rare in most text, so a student of text as it runs hardly sees them.
    """
    found: list[bool] = []
    for start in range(0, len(sentences), _AT_ONCE):
        found += map(bool, teacher.spans(sentences[start : start + _AT_ONCE]))
        if on_progress:
            on_progress(len(found), len(sentences))
    if not any(found):
        raise HardnerError(
            f"the teacher finds nothing in {len(sentences):,} sentences; take text of the kind "
            "that it is for"
        )
    others = [sentence for sentence, held in zip(sentences, found, strict=True) if not held]
    step = max(1, len(others) // sum(found))  # from all over the text
    return [*compress(sentences, found), *others[::step][: sum(found)]]
