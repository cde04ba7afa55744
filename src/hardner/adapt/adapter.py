"""One way to fit a model to labelled sentences of new types, for users and for every figure.

`hardner adapt`, the evaluation, the benchmarks and the workbench all call `Adapter.fit`. It owns
what a fit reads (labelled sentences, negative sentences, replaced mentions, unlabelled text), so
that no caller can put them together wrongly.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray

from hardner.adapt.cached_layers import cache_lower_layers, cached_names, mean_decoder, upper_tagger
from hardner.adapt.fit import OnStep, fit_samples, side_by_side
from hardner.adapt.recipe import Recipe, encoder_kind, o_bias_for, recipe_for
from hardner.adapt.sample import (
    FOLDS,
    Fold,
    Sample,
    can_be_judged,
    folds_of,
    negative_sentences,
    parts_of,
    replaced_of,
)
from hardner.adapt.self_training import LONGEST_UNLABELLED, TextTeacher, label_by_teacher
from hardner.batch import Store
from hardner.features import Ints
from hardner.model.describe import load_model
from hardner.model.layers import SCORING, Params, part_of
from hardner.model.tagger import Model, copy_of_model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, seed_of

NEGATIVES_PER_STEP_POOL = 50
"""Bundled negative sentences to draw from, for each one that a step learns from."""
_COPIES = 10
"""Copies of the fitted parameters that a step holds in memory: gradients, moments, averages."""
_WORDS_AT_ONCE = 1 << 18
"""Words that a step on a GPU learns from at once, counting padding and all samples."""

_MANY = 100
"""Sentences of several types whose halves are as good folds as their thirds."""
_USEFUL_HEAD_F1 = 0.5
"""The new type starts from a label of the model that reaches this F1 on the given sentences."""


class Adapter:
    """Fits a model to samples of new types by a recipe: a head each, on one adapted encoder."""

    def __init__(
        self,
        model: Model,
        tag_sets: Sequence[TagSet],
        recipe: Recipe,
        decoders: Mapping[str, Params] | None = None,
    ) -> None:
        """Start from a model.

        Args:
            model: Its encoder is where every fit starts; it stays as it is.
            tag_sets: Of the new heads; each sentence is labelled for all of them.
            recipe: How to fit.
            decoders: By domain, a decoder [1, 1, ...] to start from, in place of a new one.
        """
        self.model, self.tag_sets, self.recipe = model, tuple(tag_sets), recipe
        self._decoders = decoders or {}
        self._teach: TextTeacher = label_by_teacher
        target = model.tagger.with_domains(tag_sets)
        # What a label encoder has learnt is of the encoder as it is now.
        self.tagger = replace(target, decoder=recipe.decoder or target.decoder, label_encoder=None)
        self.device = next(iter(model.params.values())).device
        self._rows: dict[Sentence, int] = {}
        self._store: Store | None = None

    def with_recipe(self, recipe: Recipe) -> "Adapter":
        """The same with other steps, and with what has been encoded."""
        other = copy(self)
        other.recipe = recipe
        return other

    def with_decoders(self, decoders: Mapping[str, Params]) -> "Adapter":
        """The same with more decoders to start from, by domain."""
        other = copy(self)
        other._decoders = {**self._decoders, **decoders}
        return other

    def taught_by(self, teach: TextTeacher) -> "Adapter":
        """The same, learning from unlabelled sentences otherwise."""
        other = copy(self)
        other._teach = teach
        return other

    def start(self, samples: Sequence[Sample]) -> Params:
        """The parameters that the fits begin with, each sample with its own decoder."""
        seeds = (seed_of("decoder", *sample.seed) for sample in samples)
        fresh = [self.tagger.init_decoder(torch.Generator().manual_seed(seed)) for seed in seeds]
        decoder = {
            n: torch.cat([p[n] for p in fresh]).to(self.device) for n in fresh[0]
        }  # [M, ...]
        if self.recipe.start == "zero":
            decoder = {n: torch.zeros_like(p) for n, p in decoder.items()}
        for head, tag_set in enumerate(self.tag_sets):
            given = self._decoders.get(tag_set.domain, {})
            if self.recipe.start == "mean" and len(tag_set.labels) == 1:
                given = mean_decoder(*self.model) | given
            for name in given.keys() & decoder.keys():
                decoder[name][:, head : head + 1, : given[name].shape[2]] = given[name]
        reads = {n: p for n, p in self.model.params.items() if part_of(n) in ("encoder", "frozen")}
        return reads | decoder

    def fit(self, samples: Sequence[Sample], on_step: OnStep | None = None) -> Params:
        """The parameters fitted to each sample, as one computation: fitted parts are [M, ...].

        All samples have as many sentences. With unlabelled ones a second model, the student, learns
        the labels and what the first one says of the unlabelled sentences. ``on_step`` is called
        after each step.
        """
        fitted = self._fit(samples, on_step)
        if not all(map(self.averages_folds, samples)):
            return fitted
        folds = [folds_of(sample) for sample in samples]
        if not all(any(self.judged(s, f)) for s, f in zip(samples, folds, strict=True)):
            return fitted
        most = self.recipe.replacements
        pairs = zip(samples, folds, strict=True)
        parts = (parts_of(sample, own, most, self.types) for sample, own in pairs)
        return average_params([fitted, *(self._fit(each) for each in zip(*parts, strict=True))])

    def averages_folds(self, sample: Sample) -> bool:
        """Whether the outcome of a fit is its mean with those to the folds."""
        return self.recipe.average_folds and len(self.tag_sets) == 1 and not sample.unlabelled

    def folds(self, sample: Sample) -> int:
        """How many cross-validation takes: two of several types where half of the sentences say
        enough, as all that folds are for is then to judge."""
        return 2 if len(self.tag_sets) > 1 and len(sample.sentences) >= _MANY else FOLDS

    def judged(self, sample: Sample, folds: Sequence[Fold]) -> list[bool]:
        """Whether the folds can judge each head."""
        return [can_be_judged(sample.sentences, folds, t.labels) for t in self.tag_sets]

    @property
    def types(self) -> list[tuple[str, ...]]:
        """The labels of each head."""
        return [tag_set.labels for tag_set in self.tag_sets]

    def begins_with(self, label: str) -> bool:
        """Whether the head of a label begins as one that was there."""
        return any(label in t.labels and t.domain in self._decoders for t in self.tag_sets)

    def steps(self, sample: Sample) -> int:
        """How many a fit to a sample takes, without the folds."""
        own = self.recipe.inner(len(sample.sentences), len(self.tag_sets)).steps
        return own + max(own, self.recipe.self_training.steps) * bool(sample.unlabelled)

    def _fit(self, samples: Sequence[Sample], on_step: OnStep | None = None) -> Params:
        labelled, bare, replaced, partial = zip(*map(self._parts, samples), strict=True)
        store = self.encode(samples)
        fitted = fit_samples(
            self.tagger,
            self.start(samples),
            store,
            self._rows_of(labelled),
            self.recipe,
            [seed_of("order", *sample.seed) for sample in samples],
            negatives=self._rows_of([self._negatives])[0],
            unlabelled=self._rows_of(bare) if any(bare) else None,
            replaced=self._rows_of(replaced) if any(replaced) else None,
            partial=self._rows_of(partial) if any(partial) else None,
            teach=self._teach,
            on_step=on_step,
        )
        return add_o_bias(fitted, o_bias_for(self.recipe, labelled, self.tag_sets, partial))

    def encode(self, samples: Sequence[Sample]) -> Store:
        """Encode all that fits to these samples read; fits to parts of them then need not."""
        parts = chain(*(chain(*self._parts(sample)) for sample in samples), self._negatives)
        sentences = list(dict.fromkeys(parts))
        if self._store is not None and all(sentence in self._rows for sentence in sentences):
            return self._store
        store = self.tagger.store_for_all(sentences, self.device)
        # The layers that stay as they are read each sentence once, for all fits. Prototypes are
        # means of what the whole network says, so they need the sentences themselves.
        if self.recipe.layers and not self.recipe.prototypes:
            params = self.start(samples[:1])
            upper = upper_tagger(self.tagger, params, self.recipe.layers)
            store = cache_lower_layers(upper, params, store, self.recipe.precision)
        self._rows = {sentence: row for row, sentence in enumerate(sentences)}
        self._store = store
        return store

    def _rows_of(self, samples: Sequence[Sequence[Sentence]]) -> Ints:
        """Rows of the store, [M, longest], -1 for none."""
        found = np.full((len(samples), max(map(len, samples), default=0)), -1, np.int64)
        for row, sentences in zip(found, samples, strict=True):
            row[: len(sentences)] = [self._rows[sentence] for sentence in sentences]
        return found

    def fit_groups(
        self, samples: Sequence[Sample], on_step: OnStep | None = None
    ) -> Iterator[tuple[Sequence[Sample], Params]]:
        """Fit any number of samples: side by side on a CPU, in groups that fit on a GPU."""
        if self.device.type == "cpu":
            steps = max(map(self.steps, samples), default=0)
            yield from side_by_side(self._fit_one, samples, on_step, steps)
            return
        size = self._group_size(samples)
        for first in range(0, len(samples), size):
            some = samples[first : first + size]
            yield some, self.fit(some, on_step)

    def _fit_one(self, sample: Sample, on_step: OnStep) -> tuple[list[Sample], Params]:
        return [sample], self.fit([sample], on_step)

    @torch.no_grad()
    def losses(self, params: Params, sentences: Sequence[Sentence]) -> list[float]:
        """The tagging loss of each head of fitted parameters on labelled sentences."""
        store = self.tagger.store_for_all(sentences, self.device)
        rows = torch.arange(len(sentences), device=self.device).unsqueeze(0)
        batch = store.batch(rows, store.packed_widths(rows.cpu().numpy()))
        encoded = self.tagger.encoder(params, batch, SCORING)
        found: list[float] = self.tagger.head_losses(params, encoded, batch).tolist()
        return found

    @property
    def _negatives(self) -> Sequence[Sentence]:
        return negative_sentences()[: NEGATIVES_PER_STEP_POOL * self.recipe.negatives]

    def _parts(self, sample: Sample) -> tuple[Sequence[Sentence], ...]:
        """What a fit reads: labelled, unlabelled, with replaced mentions, labelled in part."""
        bare = [replace(s, spans=(), rejected=(), state="") for s in sample.unlabelled]
        if sample.replaced is not None:
            return sample.sentences, bare, sample.replaced, sample.partial
        made = replaced_of(sample, self.recipe.replacements, self.types)
        return sample.sentences, bare, [each.sentence for each in made], sample.partial

    def _group_size(self, samples: Sequence[Sample]) -> int:
        recipe, (tagger, params) = self.recipe, self.model
        longest = max(len(s) for sample in samples for s in sample.sentences)
        shots = max(len(sample.sentences) for sample in samples)
        unlabelled = max(len(sample.unlabelled) for sample in samples)
        words = min(recipe.batch, shots) * longest
        partial = max(len(sample.partial) for sample in samples)
        words += min(recipe.partial, partial) * max(longest, LONGEST_UNLABELLED)
        words += min(recipe.self_training.batch, unlabelled) * max(longest, LONGEST_UNLABELLED)
        still = cached_names(upper_tagger(tagger, params, recipe.layers)) if recipe.layers else []
        moving = [p for n, p in params.items() if part_of(n) in recipe.parts and n not in still]
        each = recipe.restarts * sum(p.nbytes for p in moving)
        free, _ = torch.cuda.mem_get_info()
        room = _WORDS_AT_ONCE // (words * recipe.restarts)
        return equal_groups(len(samples), min(room, free // 2 // (_COPIES * each + 1)))


def adapters_for(
    predictor: Predictor, labels: Sequence[str], known: Mapping[str, tuple[str, float]]
) -> list[Adapter]:
    """What fits a predictor to new labels, on its device: one adapter for those that begin alike.

    Fits start from the predictor's own encoder and its decoder for a ``known`` label that is good
    at the new one (by new label, a name and its F1). Labels without such a one start from the
    encoder that comes with the predictor for new types.
    """
    own = copy_of_model(Model(predictor.tagger, predictor.params), 0)
    scheme = own.tagger.tag_sets[0].scheme
    taken = set(predictor.tagger.domains)
    decoders: dict[str, Params] = {}
    ours: list[TagSet] = []
    others: list[TagSet] = []
    for label in labels:
        domain = label
        while domain in taken:
            domain += "+"
        taken.add(domain)
        name, f1 = known.get(label, ("", 0.0))
        if decoder := _decoder_for(own, name) if f1 >= _USEFUL_HEAD_F1 else {}:
            decoders[domain] = decoder
        group = ours if decoder or not predictor.start else others
        group.append(TagSet(domain, (label,), scheme))
    # On a CPU, where a user waits for it, fewer and larger steps.
    preset = "quick" if predictor.device == "cpu" else "best"
    made = []
    if ours:
        recipe = recipe_for(preset, encoder_kind(own.tagger))
        made.append(Adapter(own, ours, recipe, decoders))
    if others and predictor.start:
        tagger, params = load_model(predictor.start)
        start = Model(tagger, {name: p.to(predictor.device) for name, p in params.items()})
        made.append(Adapter(start, others, recipe_for(preset, encoder_kind(tagger))))
    return made


def _decoder_for(start: Model, label: str) -> Params:
    """The decoder of one label, cut out of the first head that has it; none if it was added."""
    for head, tag_set in enumerate(start.tagger.tag_sets):
        if label in tag_set.labels:
            tags = [tag_set.tags.index(t) for t in TagSet("", (label,), tag_set.scheme).tags]
            own = {
                n: p[:, head : head + 1, tags]  # [1, 1, C, ...]
                for n, p in start.params.items()
                if part_of(n) == "decoder"
            }
            if (steps := "decoder.transitions") in own:
                own[steps] = own[steps][..., tags]
            return own
    return {}


def equal_groups(samples: int, most: int) -> int:
    """The size of groups as equal as can be, none of them larger than ``most``."""
    return ceil(samples / ceil(samples / max(1, most)))


def add_o_bias(params: Params, o_bias: NDArray[np.float64]) -> Params:
    """The parameters of M samples, with a bias [M, D] added to the logit of ``O`` of each head."""
    if not o_bias.any():
        return params
    bias = params["decoder.bias"].clone()  # [M, D, C]
    bias[..., 0] += torch.from_numpy(o_bias).to(bias)
    return params | {"decoder.bias": bias}


def params_of_sample(params: Params, sample: int) -> Params:
    """The parameters of one of M samples."""
    return {n: p if p.shape[0] == 1 else p[sample : sample + 1] for n, p in params.items()}


def average_params(fits: Sequence[Params]) -> Params:
    """The mean of fits that began alike: weight averaging. What they share stays shared."""
    first, *others = fits
    found = dict(first)
    for name, value in first.items():
        if any(other[name] is not value for other in others):
            found[name] = torch.stack([fit[name] for fit in fits]).mean(0)
    return found
