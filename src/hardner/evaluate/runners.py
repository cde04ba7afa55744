"""The three ways from a contender to scores: fitted to samples, as it is, or trained for each."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
import torch

from hardner.adapt.cached_layers import cached_names, upper_tagger
from hardner.adapt.fit import fit_samples, init_target_head, negatives_for
from hardner.adapt.mention_replacement import replacements_for
from hardner.adapt.self_training import LONGEST_UNLABELLED, unlabelled_rows, usable_sentences
from hardner.batch import Ints, TagSet
from hardner.errors import HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import Breakdown
from hardner.evaluate.system import Model, SampleDraw, System, for_corpus, with_word_vectors
from hardner.evaluate.test_set import TestSet
from hardner.model.layers import Params, part_of
from hardner.model.runtime import autocast
from hardner.seeds import seed_of
from hardner.types import Corpus, Sentence, Span

_COPIES = 10
"""Of the parameters that are fitted: how many a step holds in memory at once."""
_WORDS_AT_ONCE = 1 << 18
"""Words that a step learns from at once, padding and all samples counted."""

Pools = Mapping[str, Sequence[Sentence]]
"""By corpus, the sentences that are drawn from."""
Drawn = Mapping[int, Mapping[str, Sequence[int]]]
"""By sample and corpus, which of them are drawn."""


class ScoredSamples(NamedTuple):
    """How a contender did on a corpus, after some samples."""

    corpus: Corpus
    samples: tuple[int, ...]
    scores: list[dict[str, Breakdown]]
    """Of each sample, by label."""
    predictions: list[list[tuple[Span, ...]]]
    """Of each sample, the spans of each test sentence; none if they are not wanted."""
    seconds: float
    """A sample."""


class Runner(Protocol):
    """A contender on a corpus, or on several at once."""

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """Score it after each of the drawn samples."""
        ...


def runner_for(
    system: System,
    found: Sequence[Corpus],
    pools: Pools,
    predictions: bool,
    unlabelled: int = 0,
) -> Runner:
    """The contender on some corpora, learning from so many sentences without labels as well."""
    trained = system.train in ("target", "sources and target")
    if unlabelled and (trained or not system.adapt):
        what = "no model that is then fitted to samples"
        raise HardnerError(f"{system.method} is {what}: it cannot learn from unlabelled text")
    if trained:
        return TrainedRunner(system, found, pools, predictions)
    (corpus,) = found
    if system.adapt:
        return FittedRunner(system, corpus, pools[corpus.name], predictions, unlabelled)
    return UnchangedRunner(system, corpus, predictions)


class FittedRunner:
    """One model, fitted to all samples at once, with a new decoder for each."""

    def __init__(
        self,
        system: System,
        corpus: Corpus,
        pool: Sequence[Sentence],
        predictions: bool,
        unlabelled: int = 0,
    ) -> None:
        self._contender, self._corpus, self._pool = system, corpus, pool
        self._predictions, self._unlabelled = predictions, unlabelled
        self._ranked = usable_sentences(pool) if unlabelled else []
        model = system.start([corpus], {}, None)
        _refuse_seen(system, model, corpus)
        given = (*pool, *corpus.test, *negatives_for(system.adaptation))
        model = with_word_vectors(model, system.vectors, given, system.cache)
        labels = tuple(sorted({span.label for sentence in pool for span in sentence.spans}))
        self._tag_set = TagSet(corpus.domain, labels, model.tagger.tag_sets[0].scheme)
        self._model = model
        tagger, params = init_target_head(*model, self._tag_set, system.adaptation, [0])
        self._test_set = TestSet(tagger, corpus.test, device=system.device)
        if layers := system.adaptation.layers:
            with autocast(system.adaptation.precision, torch.device(system.device)):
                self._test_set = self._test_set.lifted(params, layers)

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """Score the samples in groups as large as the memory allows."""
        group = self._group(drawn)
        samples = list(drawn)
        for first in range(0, len(samples), group):
            chosen = tuple(samples[first : first + group])
            began = time.perf_counter()
            rows = [drawn[sample][self._corpus.name] for sample in chosen]
            fitted = self._fitted(size, chosen, rows)
            precision = self._contender.adaptation.precision
            with autocast(precision, torch.device(self._contender.device)):
                scores = self._test_set(fitted)
                predicted = self._test_set.predictions(fitted) if self._predictions else []
            seconds = (time.perf_counter() - began) / len(chosen)
            yield ScoredSamples(self._corpus, chosen, scores, predicted, seconds)

    def _group(self, drawn: Drawn) -> int:
        """How many samples to fit together: one on a CPU, else equal groups that fit in memory."""
        if torch.device(self._contender.device).type == "cpu":
            return 1
        rule = self._contender.adaptation
        rows = [drawn[sample][self._corpus.name] for sample in drawn]
        longest = max(len(self._pool[row]) for found in rows for row in found)
        words = min(rule.batch, len(rows[0])) * longest
        words += min(rule.self_training.batch, self._unlabelled) * max(longest, LONGEST_UNLABELLED)
        tagger, params = self._model
        still = cached_names(upper_tagger(tagger, params, rule.layers)) if rule.layers else []
        moving = {n: p for n, p in params.items() if part_of(n) in rule.parts and n not in still}
        each = rule.restarts * sum(p.nbytes for p in moving.values())
        free, _ = torch.cuda.mem_get_info()
        room = _WORDS_AT_ONCE // (words * rule.restarts)
        return equal_groups(len(rows), min(room, free // 2 // (_COPIES * each + 1)))

    def _fitted(self, size: Size, samples: Sequence[int], drawn: Sequence[Sequence[int]]) -> Params:
        """The parameters of each sample, all from the same encoder and each with its decoder."""
        device, seed = self._contender.device, self._contender.seed
        place = [(self._corpus.name, repr(size), sample, seed) for sample in samples]
        tagger, params = init_target_head(
            *self._model,
            self._tag_set,
            self._contender.adaptation,
            [seed_of("decoder", *at) for at in place],
        )
        used, index = np.unique(np.array(drawn, np.int64), return_inverse=True)
        rows: Ints = index.reshape(len(samples), -1)
        more = unlabelled_rows(self._pool, self._ranked, drawn, self._unlabelled)
        if self._unlabelled and not more.size:
            raise HardnerError(f"no sentence of {self._corpus.name} is left to take unlabelled")
        bare, other = np.unique(more, return_inverse=True)
        rule = self._contender.adaptation
        text = [replace(self._pool[row], spans=()) for row in bare]
        labelled = [self._pool[row] for row in used]
        replacements, swapped = replacements_for(
            [[self._pool[row] for row in sample] for sample in drawn],
            rule.replacements,
            [seed_of("swaps", *at) for at in place],
            len(labelled) + len(text),
        )
        store = tagger.store([*labelled, *text, *replacements, *negatives_for(rule)], device=device)
        return fit_samples(
            tagger,
            params,
            store,
            rows,
            rule,
            [seed_of("order", *at) for at in place],
            len(labelled) + other.reshape(more.shape) if self._unlabelled else None,
            replacements=swapped,
        )


class UnchangedRunner:
    """A model that knows the labels already; every sample is given the same score."""

    def __init__(self, system: System, corpus: Corpus, predictions: bool) -> None:
        self._corpus = corpus
        began = time.perf_counter()
        model = system.start([corpus], {}, None)
        self._score, self._predicted = _examined(system, model, corpus, predictions)
        self._seconds = time.perf_counter() - began

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """The same score for all of them."""
        many = len(drawn)
        predicted = [self._predicted] * many if self._predicted is not None else []
        yield ScoredSamples(
            self._corpus, tuple(drawn), [self._score] * many, predicted, self._seconds
        )


class TrainedRunner:
    """A model trained on what is drawn of its targets, and perhaps on sources, for each sample."""

    def __init__(
        self, system: System, found: Sequence[Corpus], pools: Pools, predictions: bool
    ) -> None:
        self._contender, self._found, self._pools = system, found, pools
        self._predictions = predictions

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """Train and score sample after sample."""
        for sample, rows in drawn.items():
            began = time.perf_counter()
            chosen = {n: [self._pools[n][row] for row in found] for n, found in rows.items()}
            model = self._contender.start(self._found, chosen, SampleDraw(size, sample))
            for corpus in self._found:
                score, predicted = _examined(self._contender, model, corpus, self._predictions)
                seconds = (time.perf_counter() - began) / len(self._found)
                kept = [] if predicted is None else [predicted]
                yield ScoredSamples(corpus, (sample,), [score], kept, seconds)


def _examined(
    system: System, model: Model, corpus: Corpus, predictions: bool
) -> tuple[dict[str, Breakdown], list[tuple[Span, ...]] | None]:
    """The score of a model by the decoder that it has for a corpus."""
    model = with_word_vectors(model, system.vectors, corpus.test, system.cache)
    model, domain = for_corpus(model, corpus)
    test_set = TestSet(model.tagger, corpus.test, domain, system.device)
    predicted = test_set.predictions(model.params)[0] if predictions else None
    return test_set(model.params)[0], predicted


def _refuse_seen(system: System, model: Model, corpus: Corpus) -> None:
    """A target must not have been trained on."""
    trained = system.seen.union(model.tagger.domains)
    if seen := {corpus.name, corpus.domain} & trained:
        raise HardnerError(
            f"the model was trained on {min(seen)}, so {corpus.name} is no unseen target for it; "
            f'train it with target = "{corpus.domain}"'
        )


def equal_groups(samples: int, most: int) -> int:
    """The size of groups as equal as can be, none of them with more than so many."""
    return ceil(samples / ceil(samples / max(1, most)))
