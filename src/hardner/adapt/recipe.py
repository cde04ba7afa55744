"""Recipes: how a trained model is fitted to a new type; named presets for each encoder."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError
from hardner.meta.inner import InnerLoop
from hardner.meta.methods import scaled
from hardner.meta.optim import Optimizer
from hardner.model.decoders import DecoderKind
from hardner.model.encoders import WordEncoder
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import Precision
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder
from hardner.schemes import TagSet
from hardner.types import Sentence


@dataclass(frozen=True)
class SelfTraining:
    """How a student learns from unlabelled sentences too (`hardner.adapt.self_training`)."""

    steps: int = 100
    """At least; more if the recipe takes more."""
    rate: float = 0.5
    """Learning rate, as a share of the recipe's."""
    batch: int = 16
    """Unlabelled sentences of a step."""
    pseudo_label_weight: float = 1.0
    """Weight of an unlabelled sentence beside that of a labelled one."""


_MORE_A_TYPE = 2
"""Sentences that a step learns from beside, for each further type."""


@dataclass(frozen=True)
class Recipe:
    """How a model is fitted to a few labelled sentences."""

    steps: int
    rate: float
    """Learning rate of the first step; it falls linearly to zero."""
    optimizer: Optimizer
    scaled: bool = False
    """Scale the rate by sqrt(batch / 32) (HGDA, Eq. 3)."""
    batch: int = 128
    """Sentences of a step, at most."""
    passes: float = 0.0
    """Epochs; steps are added if these take more than ``steps``."""
    most_steps: int = 0
    """Steps at most, if not 0, unless one epoch takes more."""
    sqrt_rate_scaling: bool = False
    """Divide the rate by the square root of how many times more steps that takes."""
    clip: float = 5.0
    """Norm that gradients are clipped to."""
    dropout: float = 0.2
    parts: frozenset[str] = frozenset({"encoder", "decoder"})
    """Parameter groups that are fitted."""
    prototypes: bool = False
    """Start the decoder from the mean vectors of the tags (WPZ)."""
    precision: Precision = "float32"
    """Autocast type on a GPU."""
    scales: dict[str, float] = field(default_factory=dict)
    """Learning-rate multipliers by the start of a parameter's name."""
    layers: int = 0
    """Fit this many of a transformer's top layers; 0: all layers and the embeddings."""
    start: Literal["random", "zero", "mean"] = "random"
    """Of a new decoder; ``mean`` averages the model's decoders for a single label."""
    decoder: DecoderKind | None = None
    """CRF or softmax; by default as the model's."""
    iterate_averaging: float = 0.0
    """Average the parameters over this share of the steps, the last ones (SWA)."""
    restarts: int = 1
    """Fit so often, in another order each time, and average the weights."""
    negatives: int = 0
    """Bundled negative sentences of each step."""
    replacements: int = 0
    """Copies of the sentences with each other's mentions."""
    partial: int = 6
    """Sentences labelled in part of each step, at most: as often as labelled ones, and in place of
    negatives."""
    o_bias: float = 0.0
    """Added to the logit of ``O`` after fitting."""
    o_bias_density: float = 0.0
    """Added as well, divided by the square of the mentions in a mention-bearing sentence: where
    mentions stand close together, few sentences are without one."""
    o_bias_size: float = 0.0
    """Divided by the number of sentences and subtracted: a model of few sentences misses most
    mentions, because they are unlike those it has seen."""
    self_training: SelfTraining = SelfTraining()
    """Used only where there are unlabelled sentences."""
    average_folds: bool = False
    """Whether `hardner adapt` averages a fit to one type with those of cross-validation, which have
    been paid for, in place of restarts. Of several types a part of the sentences teaches less."""

    def batch_of(self, types: int) -> int:
        """Sentences of a step that learns several types: more, so that it sees each of them."""
        return min(self.batch + _MORE_A_TYPE * (types - 1), 2 * self.batch)

    def inner(self, sentences: int, types: int = 1) -> InnerLoop:
        """Steps, rate and the like for a number of sentences and types."""
        size = min(self.batch, sentences)
        # A step to several types reads more sentences and takes longer: fewer are enough.
        more = (self.batch_of(types) / self.batch) ** 0.5
        steps = ceil(self.passes * sentences / size / more)
        if self.most_steps:
            steps = min(steps, max(self.most_steps, ceil(sentences / size)))
        steps = max(self.steps, steps)
        rate = scaled(self.rate, size) if self.scaled else self.rate
        return InnerLoop(
            steps,
            rate=rate * (self.steps / steps) ** 0.5 if self.sqrt_rate_scaling else rate,
            parts=self.parts,
            optimizer=self.optimizer,
            scales=self.scales,
            decay=True,
            clip=self.clip,
        )


# HGDA, appendix: SGD with momentum, a linear schedule, all of T' as one batch, Eq. 3. It does not
# say how many steps.
_PAPER = Optimizer("sgd", momentum=0.9, weight_decay=1e-6)
_PAPER_RECURRENT = Recipe(200, 1e-2, _PAPER, scaled=True, passes=20)
_PAPER_TRANSFORMER = Recipe(200, 1e-5, _PAPER, scaled=True, passes=20)

_BEST = Optimizer("adamw", weight_decay=0.01)
_BEST_BIGRU = Recipe(
    150,
    4e-3,
    _BEST,
    batch=16,
    passes=15,
    scales={"decoder": 5.0},  # a new decoder starts at random, the encoder is trained
    negatives=8,
)
_BEST_BILSTM = replace(
    _BEST_BIGRU,
    steps=80,
    passes=30,
    dropout=0.5,
    scales={"decoder": 50.0},
    iterate_averaging=0.7,
    negatives=3,
    replacements=32,
    o_bias_size=12.0,
)
_BEST_TRANSFORMER = Recipe(
    50,
    7e-4,
    _BEST,
    batch=6,
    passes=7,
    clip=1.0,
    dropout=0.1,
    precision="bfloat16",
    scales={"decoder": 20.0},
    layers=4,
    start="zero",
    decoder="crf",
    iterate_averaging=0.7,
    negatives=8,
    restarts=3,
    replacements=32,
    o_bias_density=3.0,
)

# A user waits for it on two cores: one fit of fewer and larger steps, and the folds in place of
# restarts. Chosen on devel data of left-out domains, as `best` was (results/ablation.md).
_QUICK_TRANSFORMER = replace(
    _BEST_TRANSFORMER,
    steps=35,
    rate=1e-3,
    sqrt_rate_scaling=True,
    most_steps=240,  # what 200 sentences take
    negatives=5,
    restarts=1,
    replacements=16,
    o_bias=1.0,
    o_bias_density=0.0,
    self_training=SelfTraining(steps=50),
    average_folds=True,
)

RECIPES: dict[str, dict[str, Recipe]] = {
    "paper": {
        "bilstm": _PAPER_RECURRENT,
        "bigru": _PAPER_RECURRENT,
        "transformer": _PAPER_TRANSFORMER,
        "bert": _PAPER_TRANSFORMER,
    },
    "best": {
        "bilstm": _BEST_BILSTM,
        "bigru": _BEST_BIGRU,
        "transformer": _BEST_TRANSFORMER,
        "bert": Recipe(
            150, 5e-5, _BEST, batch=16, passes=5, clip=1.0, dropout=0.1, precision="bfloat16"
        ),
    },
}
RECIPES["quick"] = RECIPES["best"] | {"transformer": _QUICK_TRANSFORMER}
"""By name and encoder: the papers' own values, what works better, and what is quick on a CPU."""


def recipe_for(preset: str, encoder: str) -> Recipe:
    """The preset of that name for a kind of encoder."""
    if preset not in RECIPES:
        raise HardnerError(f"no adaptation preset {preset!r}; there are {', '.join(RECIPES)}")
    if encoder not in RECIPES[preset]:
        known = ", ".join(RECIPES[preset])
        raise HardnerError(f"no adaptation preset for an encoder {encoder!r}; there are {known}")
    return RECIPES[preset][encoder]


def encoder_kind(tagger: Tagger) -> str:
    """The kind of a tagger's encoder, as experiments and presets name it."""
    if isinstance(tagger.encoder, WordEncoder):
        return f"bi{tagger.encoder.cell}"
    if isinstance(tagger.encoder, PieceEncoder):
        return "transformer"
    return "bert" if isinstance(tagger.encoder, BertEncoder) else "other"


def o_bias_for(
    recipe: Recipe,
    samples: Sequence[Sequence[Sentence]],
    tag_sets: Sequence[TagSet],
    partial: Sequence[Sequence[Sentence]] = (),
) -> NDArray[np.float64]:
    """What is added to each head's logit of ``O`` after fitting to each sample, [M, D].

    Sentences with two mentions count beside the given ones, because a few sentences say little
    about how close together mentions stand. The bias stands for text of which nothing is known, so
    each sentence labelled in part (``partial``) takes the share of one labelled sentence from it.
    """
    found = np.zeros((len(samples), len(tag_sets)))
    for row, sentences in enumerate(samples):
        known = len(partial[row]) / len(sentences) if partial else 0.0
        for head, tag_set in enumerate(tag_sets):
            mentions = [sum(m.label in tag_set.labels for m in s.spans) for s in sentences]
            density = (sum(mentions) + 2.0) / (sum(count > 0 for count in mentions) + 1.0)
            bias = recipe.o_bias_density / density**2 + recipe.o_bias
            found[row, head] = bias * max(0.0, 1 - known) - recipe.o_bias_size / len(sentences)
    return found
