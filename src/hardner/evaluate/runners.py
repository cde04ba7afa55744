"""The three ways from a contender to scores: fitted to samples, as it is, or trained for each."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
import torch

from hardner.batch import Ints, TagSet
from hardner.errors import HardnerError
from hardner.evaluate.system import Contender, Model, Sample, for_corpus, with_words
from hardner.evaluate.test_set import Exam
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import Breakdown
from hardner.adapt.fit import background_for, fit, newcomer
from hardner.model.runtime import arithmetic
from hardner.adapt.self_training import LONGEST, beside, ranked
from hardner.adapt.cached_layers import lift, lowered
from hardner.adapt.mention_replacement import of_samples
from hardner.model.layers import Params, part_of
from hardner.seeds import seed_of
from hardner.types import Corpus, Sentence, Span

COPIES = 10
"""Of the parameters that are fitted: how many a step holds in memory at once."""
ROOM = 1 << 18
"""Words that a step learns from at once, padding and all samples counted."""

Pools = Mapping[str, Sequence[Sentence]]
"""By corpus, the sentences that are drawn from."""
Drawn = Mapping[int, Mapping[str, Sequence[int]]]
"""By sample and corpus, which of them are drawn."""


class Scored(NamedTuple):
    """How a contender did on a corpus, after some samples."""

    corpus: Corpus
    samples: tuple[int, ...]
    scores: list[dict[str, Breakdown]]
    """Of each sample, by label."""
    predictions: list[list[tuple[Span, ...]]]
    """Of each sample, the spans of each test sentence; none if they are not wanted."""
    seconds: float
    """A sample."""


class Entrant(Protocol):
    """A contender on a corpus, or on several at once."""

    def scores(self, size: Size, drawn: Drawn) -> Iterator[Scored]:
        """Score it after each of the drawn samples."""
        ...


def entrant(
    contender: Contender,
    found: Sequence[Corpus],
    pools: Pools,
    predictions: bool,
    unlabelled: int = 0,
) -> Entrant:
    """The contender on some corpora, learning from so many sentences without labels as well."""
    trained = contender.train in ("target", "sources and target")
    if unlabelled and (trained or not contender.adapt):
        what = "no model that is then fitted to samples"
        raise HardnerError(f"{contender.method} is {what}: it cannot learn from unlabelled text")
    if trained:
        return Trained(contender, found, pools, predictions)
    (corpus,) = found
    if contender.adapt:
        return Fitted(contender, corpus, pools[corpus.name], predictions, unlabelled)
    return AsItIs(contender, corpus, predictions)


class Fitted:
    """One model, fitted to all samples at once, with a new decoder for each."""

    def __init__(
        self,
        contender: Contender,
        corpus: Corpus,
        pool: Sequence[Sentence],
        predictions: bool,
        unlabelled: int = 0,
    ) -> None:
        self._contender, self._corpus, self._pool = contender, corpus, pool
        self._predictions, self._unlabelled = predictions, unlabelled
        self._ranked = ranked(pool) if unlabelled else []
        model = contender.start([corpus], {}, None)
        _refuse_seen(contender, model, corpus)
        given = (*pool, *corpus.test, *background_for(contender.adaptation))
        model = with_words(model, contender.vectors, given, contender.cache)
        labels = tuple(sorted({span.label for sentence in pool for span in sentence.spans}))
        self._tag_set = TagSet(corpus.domain, labels, model.tagger.tag_sets[0].scheme)
        self._model = model
        tagger, params = newcomer(*model, self._tag_set, contender.adaptation, [0])
        self._exam = Exam(tagger, corpus.test, device=contender.device)
        if layers := contender.adaptation.layers:
            with arithmetic(contender.adaptation.precision, torch.device(contender.device)):
                self._exam = self._exam.lifted(params, layers)

    def scores(self, size: Size, drawn: Drawn) -> Iterator[Scored]:
        """Score the samples in groups as large as the memory allows."""
        group = self._group(drawn)
        samples = list(drawn)
        for first in range(0, len(samples), group):
            chosen = tuple(samples[first : first + group])
            began = time.perf_counter()
            rows = [drawn[sample][self._corpus.name] for sample in chosen]
            fitted = self._fitted(size, chosen, rows)
            precision = self._contender.adaptation.precision
            with arithmetic(precision, torch.device(self._contender.device)):
                scores = self._exam(fitted)
                predicted = self._exam.predictions(fitted) if self._predictions else []
            seconds = (time.perf_counter() - began) / len(chosen)
            yield Scored(self._corpus, chosen, scores, predicted, seconds)

    def _group(self, drawn: Drawn) -> int:
        """How many samples to fit together: one on a CPU, else equal groups that fit in memory."""
        if torch.device(self._contender.device).type == "cpu":
            return 1
        rule = self._contender.adaptation
        rows = [drawn[sample][self._corpus.name] for sample in drawn]
        longest = max(len(self._pool[row]) for found in rows for row in found)
        words = min(rule.batch, len(rows[0])) * longest
        words += min(rule.pupil.batch, self._unlabelled) * max(longest, LONGEST)
        tagger, params = self._model
        still = lowered(lift(tagger, params, rule.layers)) if rule.layers else []
        moving = {n: p for n, p in params.items() if part_of(n) in rule.parts and n not in still}
        each = rule.soup * sum(p.nbytes for p in moving.values())
        free, _ = torch.cuda.mem_get_info()
        room = ROOM // (words * rule.soup)
        return equal_groups(len(rows), min(room, free // 2 // (COPIES * each + 1)))

    def _fitted(self, size: Size, samples: Sequence[int], drawn: Sequence[Sequence[int]]) -> Params:
        """The parameters of each sample, all from the same encoder and each with its decoder."""
        device, seed = self._contender.device, self._contender.seed
        place = [(self._corpus.name, repr(size), sample, seed) for sample in samples]
        tagger, params = newcomer(
            *self._model,
            self._tag_set,
            self._contender.adaptation,
            [seed_of("decoder", *at) for at in place],
        )
        used, index = np.unique(np.array(drawn, np.int64), return_inverse=True)
        rows: Ints = index.reshape(len(samples), -1)
        more = beside(self._pool, self._ranked, drawn, self._unlabelled)
        if self._unlabelled and not more.size:
            raise HardnerError(f"no sentence of {self._corpus.name} is left to take unlabelled")
        bare, other = np.unique(more, return_inverse=True)
        rule = self._contender.adaptation
        text = [replace(self._pool[row], spans=()) for row in bare]
        labelled = [self._pool[row] for row in used]
        swaps, swapped = of_samples(
            [[self._pool[row] for row in sample] for sample in drawn],
            rule.swaps,
            [seed_of("swaps", *at) for at in place],
            len(labelled) + len(text),
        )
        store = tagger.store([*labelled, *text, *swaps, *background_for(rule)], device=device)
        return fit(
            tagger,
            params,
            store,
            rows,
            rule,
            [seed_of("order", *at) for at in place],
            len(labelled) + other.reshape(more.shape) if self._unlabelled else None,
            swaps=swapped,
        )


class AsItIs:
    """A model that knows the labels already; every sample is given the same score."""

    def __init__(self, contender: Contender, corpus: Corpus, predictions: bool) -> None:
        self._corpus = corpus
        began = time.perf_counter()
        model = contender.start([corpus], {}, None)
        self._score, self._predicted = _examined(contender, model, corpus, predictions)
        self._seconds = time.perf_counter() - began

    def scores(self, size: Size, drawn: Drawn) -> Iterator[Scored]:
        """The same score for all of them."""
        many = len(drawn)
        predicted = [self._predicted] * many if self._predicted is not None else []
        yield Scored(self._corpus, tuple(drawn), [self._score] * many, predicted, self._seconds)


class Trained:
    """A model trained on what is drawn of its targets, and perhaps on sources, for each sample."""

    def __init__(
        self, contender: Contender, found: Sequence[Corpus], pools: Pools, predictions: bool
    ) -> None:
        self._contender, self._found, self._pools = contender, found, pools
        self._predictions = predictions

    def scores(self, size: Size, drawn: Drawn) -> Iterator[Scored]:
        """Train and score sample after sample."""
        for sample, rows in drawn.items():
            began = time.perf_counter()
            chosen = {n: [self._pools[n][row] for row in found] for n, found in rows.items()}
            model = self._contender.start(self._found, chosen, Sample(size, sample))
            for corpus in self._found:
                score, predicted = _examined(self._contender, model, corpus, self._predictions)
                seconds = (time.perf_counter() - began) / len(self._found)
                kept = [] if predicted is None else [predicted]
                yield Scored(corpus, (sample,), [score], kept, seconds)


def _examined(
    contender: Contender, model: Model, corpus: Corpus, predictions: bool
) -> tuple[dict[str, Breakdown], list[tuple[Span, ...]] | None]:
    """The score of a model by the decoder that it has for a corpus."""
    model = with_words(model, contender.vectors, corpus.test, contender.cache)
    model, domain = for_corpus(model, corpus)
    exam = Exam(model.tagger, corpus.test, domain, contender.device)
    predicted = exam.predictions(model.params)[0] if predictions else None
    return exam(model.params)[0], predicted


def _refuse_seen(contender: Contender, model: Model, corpus: Corpus) -> None:
    """A target must not have been trained on."""
    trained = contender.seen.union(model.tagger.domains)
    if seen := {corpus.name, corpus.domain} & trained:
        raise HardnerError(
            f"the model was trained on {min(seen)}, so {corpus.name} is no unseen target for it; "
            f'train it with target = "{corpus.domain}"'
        )


def equal_groups(samples: int, most: int) -> int:
    """The size of groups as equal as can be, none of them with more than so many."""
    return ceil(samples / ceil(samples / max(1, most)))
