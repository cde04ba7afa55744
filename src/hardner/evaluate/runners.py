"""The three ways from a system to scores: fitted to samples, as it is, or trained for each."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from hardner.adapt.adapter import Adapter, params_of_sample
from hardner.adapt.sample import Sample, negative_sentences
from hardner.adapt.self_training import unlabelled_rows, usable_sentences
from hardner.batch import TagSet
from hardner.errors import HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import ErrorCounts
from hardner.evaluate.scorer import Scorer
from hardner.evaluate.system import SampleDraw, System, for_corpus, with_word_vectors
from hardner.model.layers import Params
from hardner.model.tagger import Model
from hardner.tag.predictor import Predictor
from hardner.types import Corpus, Sentence, Span

Pools = Mapping[str, Sequence[Sentence]]
"""By corpus, the sentences that samples are drawn from."""
Drawn = Mapping[int, Mapping[str, Sequence[int]]]
"""By sample and corpus, the rows that were drawn."""


class ScoredSamples(NamedTuple):
    """How a system did on a corpus, after some samples."""

    corpus: Corpus
    samples: tuple[int, ...]
    scores: list[dict[str, ErrorCounts]]
    """Of each sample, by label."""
    predictions: list[list[tuple[Span, ...]]]
    """Of each sample, the spans of each test sentence; empty if not asked for."""
    seconds: float
    """Per sample."""


class Runner(Protocol):
    """A system on a corpus, or on several at once."""

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
    """The way that a system is scored on some corpora."""
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
    """One model, fitted to each sample with a new decoder, as `hardner adapt` does."""

    def __init__(
        self,
        system: System,
        corpus: Corpus,
        pool: Sequence[Sentence],
        predictions: bool,
        unlabelled: int = 0,
    ) -> None:
        self._system, self._corpus, self._pool = system, corpus, pool
        self._predictions, self._unlabelled = predictions, unlabelled
        self._usable = usable_sentences(pool) if unlabelled else []
        model = system.start([corpus], {}, None)
        _refuse_seen(system, model, corpus)
        given = (*pool, *corpus.test, *negative_sentences())
        model = with_word_vectors(model, system.vectors, given, system.cache)
        labels = tuple(sorted({span.label for sentence in pool for span in sentence.spans}))
        tag_set = TagSet(corpus.domain, labels, model.tagger.tag_sets[0].scheme)
        self._adapter = Adapter(model, tag_set, system.adaptation)
        self._scorer = Scorer(corpus.test)

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """Score the samples in groups as large as the memory allows."""
        rows = [drawn[number][self._corpus.name] for number in drawn]
        text = unlabelled_rows(self._pool, self._usable, rows, self._unlabelled)
        if self._unlabelled and not text.size:
            raise HardnerError(f"no sentence of {self._corpus.name} is left to take unlabelled")
        numbers = {}
        for number, own, more in zip(drawn, rows, text, strict=True):
            # Coordinates of the sample, so that no draw depends on what was run before.
            seed = (self._corpus.name, repr(size), number, self._system.seed)
            sample = Sample(self._sentences(own), seed, self._sentences(more))
            numbers[sample] = number
        began = time.perf_counter()
        for some, params in self._adapter.fit_groups(list(numbers)):
            found = [self._predicted(params_of_sample(params, i)) for i in range(len(some))]
            scores = [self._scorer.breakdown(spans) for spans in found]
            seconds = (time.perf_counter() - began) / len(some)
            chosen = tuple(numbers[sample] for sample in some)
            kept = found if self._predictions else []
            yield ScoredSamples(self._corpus, chosen, scores, kept, seconds)
            began = time.perf_counter()

    def _sentences(self, rows: Iterable[int]) -> tuple[Sentence, ...]:
        return tuple(self._pool[row] for row in rows)

    def _predicted(self, params: Params) -> list[tuple[Span, ...]]:
        predictor = Predictor(self._adapter.tagger, params, device=self._system.device)
        return self._scorer.predictions(predictor)


class UnchangedRunner:
    """A model that knows the labels already; every sample is given the same score."""

    def __init__(self, system: System, corpus: Corpus, predictions: bool) -> None:
        self._corpus = corpus
        began = time.perf_counter()
        model = system.start([corpus], {}, None)
        self._score, self._predicted = _scored(system, model, corpus, predictions)
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
        self._system, self._found, self._pools = system, found, pools
        self._predictions = predictions

    def scores(self, size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """Train and score sample after sample."""
        for sample, rows in drawn.items():
            began = time.perf_counter()
            chosen = {n: [self._pools[n][row] for row in found] for n, found in rows.items()}
            model = self._system.start(self._found, chosen, SampleDraw(size, sample))
            for corpus in self._found:
                score, predicted = _scored(self._system, model, corpus, self._predictions)
                seconds = (time.perf_counter() - began) / len(self._found)
                kept = [] if predicted is None else [predicted]
                yield ScoredSamples(corpus, (sample,), [score], kept, seconds)


def _scored(
    system: System, model: Model, corpus: Corpus, predictions: bool
) -> tuple[dict[str, ErrorCounts], list[tuple[Span, ...]] | None]:
    """The score of a model by the decoder that it has for a corpus, and what it predicts."""
    model = with_word_vectors(model, system.vectors, corpus.test, system.cache)
    (tagger, params), domain = for_corpus(model, corpus)
    scorer, predictor = Scorer(corpus.test), Predictor(tagger, params, device=system.device)
    found = scorer.predictions(predictor, tagger.domains[domain])
    return scorer.breakdown(found), found if predictions else None


def _refuse_seen(system: System, model: Model, corpus: Corpus) -> None:
    """A target must not have been trained on."""
    trained = system.seen.union(model.tagger.domains)
    if seen := {corpus.name, corpus.domain} & trained:
        raise HardnerError(
            f"the model was trained on {min(seen)}, so {corpus.name} is no unseen target for it; "
            f'train it with target = "{corpus.domain}"'
        )
