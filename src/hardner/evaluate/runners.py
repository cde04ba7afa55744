"""The three ways from a system to scores: fitted to samples, as it is, or trained for each."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from types import MappingProxyType
from typing import NamedTuple

from hardner.adapt.adapter import Adapter, params_of_sample
from hardner.adapt.correction import TextScores, corrected
from hardner.adapt.forecast import Forecast, Interval, cross_validate, forecast
from hardner.adapt.judge import temperatures_of
from hardner.adapt.label_start import begin_described
from hardner.adapt.sample import FOLDS, Sample, negative_sentences
from hardner.adapt.self_training import unlabelled_rows, usable_sentences
from hardner.errors import HardnerError
from hardner.evaluate.protocols import Size
from hardner.evaluate.score import ErrorCounts, Scorer, score
from hardner.evaluate.system import SampleDraw, System, for_corpus, with_word_vectors
from hardner.model.layers import Params
from hardner.model.tagger import Model
from hardner.schemes import TagSet
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
    bearing: Sequence[tuple[int, ...]] = ()
    """Of each sample, tp, fp and fn on the sentences that hold a mention, if they were counted."""
    expected: Sequence[tuple[float, ...]] = ()
    """Of each sample, the F1 that was forecast, with its interval; empty where none was."""
    expected_on_text: Sequence[tuple[float, ...]] = ()
    """The same for text as it runs, where there was some without labels."""


Runner = Callable[[Size, Drawn], Iterator[ScoredSamples]]
"""Scores a system on a corpus, or on several at once, after each of the drawn samples."""


def runner_for(
    system: System,
    found: Sequence[Corpus],
    pools: Pools,
    predictions: bool,
    unlabelled: int = 0,
    forecasts: bool = False,
    descriptions: Mapping[str, str] = MappingProxyType({}),
) -> Runner:
    """The way that a system is scored on some corpora; ``descriptions`` are of their labels."""
    trained = system.train in ("target", "sources and target")
    if unlabelled and (trained or not system.adapt):
        what = "no model that is then fitted to samples"
        raise HardnerError(f"{system.method} is {what}: it cannot learn from unlabelled text")
    if trained:
        return trained_runner(system, found, pools, predictions)
    (corpus,) = found
    if system.adapt:
        pool = pools[corpus.name]
        how = predictions, unlabelled, forecasts
        return fitted_runner(system, corpus, pool, *how, descriptions)
    return unchanged_runner(system, corpus, predictions)


def fitted_runner(
    system: System,
    corpus: Corpus,
    pool: Sequence[Sentence],
    predictions: bool,
    unlabelled: int = 0,
    forecasts: bool = False,
    descriptions: Mapping[str, str] = MappingProxyType({}),
) -> Runner:
    """One model, fitted to each sample with a new decoder, as `hardner adapt` does."""
    usable = usable_sentences(pool) if unlabelled else []
    model = system.start([corpus], {}, None)
    _refuse_seen(system, model, corpus)
    given = (*pool, *corpus.test, *negative_sentences())
    model = with_word_vectors(model, system.vectors, given, system.cache)
    labels = tuple(sorted({span.label for sentence in pool for span in sentence.spans}))
    tag_set = TagSet(corpus.domain, labels, model.tagger.tag_sets[0].scheme)
    adapter, scorer = Adapter(model, [tag_set], system.adaptation), Scorer(corpus.test)
    tagger, device = adapter.tagger, system.device
    told = _label_texts(system, corpus, labels, descriptions)

    def sentences(rows: Iterable[int]) -> tuple[Sentence, ...]:
        return tuple(pool[row] for row in rows)

    def run(size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        """In groups as large as the memory allows."""
        rows = [drawn[number][corpus.name] for number in drawn]
        text = unlabelled_rows(pool, usable, rows, unlabelled)
        if unlabelled and not text.size:
            raise HardnerError(f"no sentence of {corpus.name} is left to take unlabelled")
        numbers = {}
        for number, own, more in zip(drawn, rows, text, strict=True):
            # Coordinates of the sample, so that no draw depends on what was run before.
            seed = (corpus.name, repr(size), number, system.seed)
            numbers[Sample(sentences(own), seed, sentences(more))] = number
        began = time.perf_counter()
        for some, params in _fits(adapter, list(numbers), told):
            each = (params_of_sample(params, i) for i in range(len(some)))
            models = [Predictor(tagger, own, device=device) for own in each]
            found = [scorer.predictions(model) for model in models]
            scores = [scorer.breakdown(spans) for spans in found]
            seconds = (time.perf_counter() - began) / len(some)
            chosen = tuple(numbers[sample] for sample in some)
            kept = found if predictions else []
            bearing = [astuple(score(*_where_mentions_are(corpus, own))) for own in found]
            pairs = zip(some, models, strict=True) if forecasts else ()
            expected = [_expected(adapter, *pair) for pair in pairs]
            yield ScoredSamples(
                corpus,
                chosen,
                scores,
                kept,
                seconds,
                bearing,
                [_rounded(own.f1 if own else None) for own in expected],
                [_rounded(own.on_text if own else None) for own in expected],
            )
            began = time.perf_counter()

    return run


def _label_texts(
    system: System, corpus: Corpus, labels: Sequence[str], descriptions: Mapping[str, str]
) -> dict[str, str]:
    """What a system is told of the labels of a corpus."""
    if system.labels != "descriptions":
        return dict.fromkeys(labels, "") if system.labels else {}
    if missing := sorted(set(labels) - descriptions.keys()):
        where = "a key `descriptions` of its row in the catalogue gives one"
        raise HardnerError(f"{corpus.name}: no description of {missing[0]}; {where}")
    return {label: descriptions[label] for label in labels}


def _fits(
    adapter: Adapter, samples: Sequence[Sample], told: Mapping[str, str]
) -> Iterator[tuple[Sequence[Sample], Params]]:
    """As `Adapter.fit_groups`; each sample begins with what its labels mean where that helps."""
    if not told:
        if not all(sample.sentences for sample in samples):
            raise HardnerError("without a sentence there is nothing to learn from but --labels")
        yield from adapter.fit_groups(samples)
        return
    apart: dict[bool, tuple[Adapter, list[Sample]]] = {}
    for sample in samples:
        begun, _ = begin_described(adapter, sample.sentences, told)
        if sample.sentences:
            described = begun.begins_with(next(iter(told)))
            apart.setdefault(described, (begun, []))[1].append(sample)
        else:
            yield [sample], begun.start([sample])
    for begun, some in apart.values():
        yield from begun.fit_groups(some)


def _where_mentions_are(
    corpus: Corpus, found: Sequence[Sequence[Span]]
) -> tuple[list[Sequence[Span]], list[Sequence[Span]]]:
    """What is right and what was found in the test sentences that hold a mention."""
    pairs = [(s.spans, own) for s, own in zip(corpus.test, found, strict=True) if s.spans]
    return [right for right, _ in pairs], [own for _, own in pairs]


def _expected(adapter: Adapter, sample: Sample, model: Predictor) -> Forecast | None:
    """What to expect of a sample's model; None where too few mentions can be held out."""
    folded = cross_validate(adapter, sample, FOLDS)
    head = folded.heads[0] if folded else None
    if not folded or head is None:
        return None
    calibrated = replace(model, temperatures=tuple(temperatures_of(adapter, sample, folded)))
    scored = calibrated.spans(sample.unlabelled)
    text = TextScores.of([[score for _, score in own] for own in scored]) if scored else None
    count = len(sample.sentences)
    return corrected(forecast(head.large, head.small, count), head.large, count, text)


def _rounded(f1: Interval | None) -> tuple[float, ...]:
    return tuple(round(value, 5) for value in (f1.value, f1.low, f1.high)) if f1 else ()


def unchanged_runner(system: System, corpus: Corpus, predictions: bool) -> Runner:
    """A model that knows the labels already; every sample is given the same score."""
    began = time.perf_counter()
    score, found = _scored(system, system.start([corpus], {}, None), corpus)
    seconds = time.perf_counter() - began

    def run(_: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        kept = [found] * len(drawn) if predictions else []
        yield ScoredSamples(corpus, tuple(drawn), [score] * len(drawn), kept, seconds)

    return run


def trained_runner(
    system: System, corpora: Sequence[Corpus], pools: Pools, predictions: bool
) -> Runner:
    """A model trained on what is drawn of its targets, and perhaps on sources, for each sample."""

    def run(size: Size, drawn: Drawn) -> Iterator[ScoredSamples]:
        for sample, rows in drawn.items():
            began = time.perf_counter()
            chosen = {n: [pools[n][row] for row in found] for n, found in rows.items()}
            model = system.start(corpora, chosen, SampleDraw(size, sample))
            for corpus in corpora:
                score, found = _scored(system, model, corpus)
                seconds = (time.perf_counter() - began) / len(corpora)
                kept = [found] if predictions else []
                yield ScoredSamples(corpus, (sample,), [score], kept, seconds)

    return run


def _scored(
    system: System, model: Model, corpus: Corpus
) -> tuple[dict[str, ErrorCounts], list[tuple[Span, ...]]]:
    """The score of a model by the decoder that it has for a corpus, and what it predicts."""
    model = with_word_vectors(model, system.vectors, corpus.test, system.cache)
    (tagger, params), domain = for_corpus(model, corpus)
    scorer, predictor = Scorer(corpus.test), Predictor(tagger, params, device=system.device)
    found = scorer.predictions(predictor, tagger.domains[domain])
    return scorer.breakdown(found), found


def _refuse_seen(system: System, model: Model, corpus: Corpus) -> None:
    """A target must not have been trained on."""
    trained = system.seen.union(model.tagger.domains)
    if seen := {corpus.name, corpus.domain} & trained:
        raise HardnerError(
            f"the model was trained on {min(seen)}, so {corpus.name} is no unseen target for it; "
            f'train it with target = "{corpus.domain}"'
        )
