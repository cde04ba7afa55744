"""Labelled data of one's own: what it holds, and what a tagger finds there as users run it.

A mention that no run of tokens can stand for (it cuts a token, has a gap or crosses the end of a
sentence) cannot be found by any model here. It counts as missed, so that scores are of all
mentions of the data.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from hardner.adapt.examples import HARMLESS, LabelledData, labelled_items
from hardner.errors import HardnerError
from hardner.evaluate.errors import ErrorKind, error_pairs
from hardner.formats import Report
from hardner.tag.predictor import Predictor
from hardner.text import Problem, sentences
from hardner.types import Document, Entity, Offset, Progress, Sentence, Span, seed_of

_AT_ONCE = 1024
"""Sentences that are tagged between two calls for progress."""

ScoredSpans = tuple[tuple[Span, float], ...]


@dataclass(frozen=True)
class GoldSentence:
    """A labelled sentence, and where it stands."""

    sentence: Sentence
    document: str
    """Its id or, of one without, its number from 0."""
    text: str
    start: int
    """Of the text in the document's."""
    offsets: tuple[Offset, ...]
    """Of the tokens, in the text."""
    unheld: tuple[Entity, ...] = ()
    """Mentions that start in it and that no run of tokens can stand for."""

    def words(self, span: Span) -> str:
        """The text of a span."""
        start, end = self.place(span)
        return self.text[start:end]

    def place(self, span: Span) -> Offset:
        """Where a span stands in the text."""
        return self.offsets[span.start][0], self.offsets[span.end - 1][1]


@dataclass(frozen=True)
class GoldData:
    """Labelled sentences to measure on, with the mentions of some labels alone."""

    sentences: tuple[GoldSentence, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    """What the user should know, a line each."""


def read_gold(
    given: LabelledData,
    models: Sequence[Predictor],
    labels: Collection[str] | None = None,
    *,
    label_map: Mapping[str, str] | None = None,
    format: str | None = None,
    encoding: str | None = None,
    report: Report | None = None,
) -> GoldData:
    """The sentences of labelled data, with the labels that can be judged.

    Args:
        given: A path, or sentences, documents and pairs of a text and its mentions.
        models: Those to be judged.
        labels: What to judge, as the models name it; by default, what both the data and all
            models have.
        label_map: The models' names of labels that the data names otherwise.
        format: Of a path.
        encoding: Of a path, UTF-8 by default.
        report: Where to count what a file's reader leaves out.
    """
    report = Report() if report is None else report
    items = labelled_items(given, format=format, encoding=encoding, report=report)
    every = [own for number, item in enumerate(items) for own in _gold_sentences(item, number)]
    if label_map:
        every = _mapped(every, label_map, models)
    held = [own for own in every if own.sentence.is_done]
    if not held:
        raise HardnerError("there is no labelled sentence to score on")
    judged, notes = _judged(held, models, labels)
    chosen = tuple(_only(own, frozenset(judged)) for own in held)
    if count := len(every) - len(held):
        notes.append(f"{count} sentences that are not labelled to their end were left out")
    if count := sum(len(own.unheld) for own in chosen):
        notes.append(f"{count} mentions cut a token, have gaps or cross sentences: counted missed")
    notes += (note for model in models for note in _leaks(chosen, model, judged))
    return GoldData(chosen, judged, (*report.lines(), *dict.fromkeys(notes)))


def _gold_sentences(item: Sentence | Document, number: int) -> Iterator[GoldSentence]:
    if isinstance(item, Sentence):
        yield _without_document(item, str(item.id or number))
        return
    name = item.id or str(number)
    problems: list[Problem] = []
    rows = [row for row in sentences(item, problems.append) if row.tokens]
    ends = [row.offsets[-1][1] if row.offsets else 0 for row in rows]
    unheld: dict[int, list[Entity]] = {}
    for problem in problems:
        if problem.reason not in HARMLESS and rows:
            place = min(bisect_right(ends, problem.entity.start), len(rows) - 1)
            unheld.setdefault(place, []).append(problem.entity)
    for place, row in enumerate(rows):
        if row.offsets is None:
            yield _without_document(row, name)
            continue
        start, end = row.offsets[0][0], row.offsets[-1][1]
        offsets = tuple((left - start, right - start) for left, right in row.offsets)
        text = item.text[start:end]
        yield GoldSentence(row, name, text, start, offsets, tuple(unheld.get(place, ())))


def _mapped(
    every: Sequence[GoldSentence], label_map: Mapping[str, str], models: Sequence[Predictor]
) -> list[GoldSentence]:
    """The sentences with the models' names of labels; several of the data may become one."""
    held = {span.label for own in every for span in own.sentence.spans}
    held.update(entity.label for own in every for entity in own.unheld)
    if missing := sorted(label_map.keys() - held):
        there = ", ".join(sorted(held)) or "none"
        raise HardnerError(f"no mention of the data is labelled {missing[0]!r}; it has {there}")
    for model in models:
        model.check_labels(set(label_map.values()))

    def named(own: GoldSentence) -> GoldSentence:
        spans = (s._replace(label=label_map.get(s.label, s.label)) for s in own.sentence.spans)
        sentence = replace(own.sentence, spans=tuple(dict.fromkeys(spans)))
        unheld = (replace(e, label=label_map.get(e.label, e.label)) for e in own.unheld)
        return replace(own, sentence=sentence, unheld=tuple(unheld))

    return [named(own) for own in every]


def _without_document(sentence: Sentence, name: str) -> GoldSentence:
    """A sentence that is known by its tokens alone."""
    starts = accumulate((len(token) + 1 for token in sentence.tokens), initial=0)
    pairs = zip(starts, sentence.tokens, strict=False)
    offsets = tuple((start, start + len(token)) for start, token in pairs)
    return GoldSentence(sentence, name, " ".join(sentence.tokens), 0, offsets)


def _judged(
    held: Sequence[GoldSentence], models: Sequence[Predictor], labels: Collection[str] | None
) -> tuple[tuple[str, ...], list[str]]:
    """The labels to judge, and what is said of the others."""
    counts = Counter(span.label for own in held for span in own.sentence.spans)
    counts.update(entity.label for own in held for entity in own.unheld)
    known = [label for label in models[0].labels if all(label in m.labels for m in models)]
    if labels is not None:
        unknown: Collection[str] = labels
        if not isinstance(labels, str):
            unknown = set(labels) - set(counts)
        for model in models:
            model.check_labels(unknown)  # a name that neither has is a slip
        return tuple(dict.fromkeys(labels)), []
    judged = tuple(label for label in known if counts[label])
    if not judged:
        listed = ", ".join(f"{label} ({count})" for label, count in sorted(counts.items()))
        theirs = ", and another model ".join(", ".join(model.labels) for model in models)
        raise HardnerError(
            f"no label of the data is one of every model's: the data has {listed or 'none'}, "
            f"the model {theirs}; a label map says which are the same (--map ITS=OURS)"
        )
    notes = []
    if unknown := sorted(counts.keys() - set(judged)):
        listed = ", ".join(f"{label} ({counts[label]})" for label in unknown)
        notes.append(f"not scored, as the model does not know them: {listed}")
    if silent := [label for label in known if label not in judged]:
        notes.append(f"not scored, as the data has none of them: {', '.join(silent)}")
    return judged, notes


def _only(own: GoldSentence, labels: Collection[str]) -> GoldSentence:
    spans = tuple(span for span in own.sentence.spans if span.label in labels)
    unheld = tuple(entity for entity in own.unheld if entity.label in labels)
    return replace(own, sentence=replace(own.sentence, spans=spans), unheld=unheld)


def _leaks(
    held: Sequence[GoldSentence], model: Predictor, labels: Collection[str]
) -> Iterator[str]:
    """What is said of sentences that a model has learnt one of the labels from."""
    heads = (t for t in model.tagger.tag_sets if not set(t.labels).isdisjoint(labels))
    learnt = {text for head in heads for text in model.learnt.get(head.domain, ())}
    if count := sum(seed_of(*own.sentence.tokens) in learnt for own in held):
        yield (
            f"the model has learnt from {count} of the {len(held)} sentences: on new text expect "
            "less"
        )


def find_in(
    data: GoldData, model: Predictor, on_progress: Progress | None = None
) -> list[ScoredSpans]:
    """What a model finds in each sentence, of the labels that are judged."""
    labels = [label for label in data.labels if label in model.labels]
    found: list[ScoredSpans] = []
    for start in range(0, len(data.sentences), _AT_ONCE):
        some = [own.sentence for own in data.sentences[start : start + _AT_ONCE]]
        found += map(tuple, model.spans(some, labels=labels))
        if on_progress:
            on_progress(len(found), len(data.sentences))
    return found


@dataclass(frozen=True)
class JudgedSentence:
    """A sentence with the right mentions, and what was found in it."""

    gold: GoldSentence
    found: ScoredSpans

    @property
    def found_spans(self) -> tuple[Span, ...]:
        return tuple(span for span, _ in self.found)

    def errors(self) -> list[tuple[ErrorKind, Span | None, Span | None]]:
        """Kind, gold span and found one of each error, but for mentions without a span."""
        return list(error_pairs(self.gold.sentence.spans, self.found_spans))

    @property
    def error_count(self) -> int:
        """Errors, those of mentions without a span included."""
        return len(self.errors()) + len(self.gold.unheld)

    def error_records(self) -> Iterator[dict[str, Any]]:
        """A flat record of each error."""
        scores = dict(self.found)
        for kind, right, wrong in self.errors():
            span = right or wrong
            assert span is not None
            start, end = self.gold.place(span)
            yield self._record(
                kind,
                (start + self.gold.start, end + self.gold.start),
                gold=self.gold.words(right) if right else "",
                gold_label=right.label if right else "",
                found=self.gold.words(wrong) if wrong else "",
                found_label=wrong.label if wrong else "",
                score=scores[wrong] if wrong else None,
            )
        for entity in self.gold.unheld:
            place = entity.start, entity.end
            yield self._record("missed", place, gold=entity.text, gold_label=entity.label)

    def _record(self, kind: ErrorKind, place: Offset, **said: Any) -> dict[str, Any]:
        blank = {"gold": "", "gold_label": "", "found": "", "found_label": "", "score": None}
        where = {"document": self.gold.document, "start": place[0], "end": place[1]}
        return {"kind": kind, **blank, **said, **where, "sentence": self.gold.text}

    def marked(self) -> str:
        """The sentence in a line: of what is wrong, gold in [brackets], found in {braces}."""
        marks: set[tuple[int, bool, int, int, str]] = set()
        for _, right, wrong in self.errors():
            for side, span in enumerate((right, wrong)):
                if span is not None:
                    start, end = self.gold.place(span)
                    # At one place, what closes comes first, the inner before the outer.
                    marks.add((end, False, -start, -side, "]}"[side]))
                    marks.add((start, True, -end, side, "[{"[side]))
        pieces, at = [], 0
        for place, *_, mark in sorted(marks):
            pieces += [self.gold.text[at:place], mark]
            at = place
        return " ".join("".join([*pieces, self.gold.text[at:]]).split())

    def as_document(self) -> Document:
        """For a page: right mentions by their label, wrong ones with the kind of error."""
        wrong: list[tuple[Span, str]] = []
        for kind, right, own in self.errors():
            for span, side in ((right, "gold"), (own, "found")):
                if span is not None:
                    said = kind if kind in ("missed", "spurious") else f"{kind}, {side}"
                    wrong.append((span, f"{span.label} {said}"))
        scores = dict(self.found)
        agreed = [(s, s.label) for s in self.gold.sentence.spans if s in scores]
        entities = [
            Entity(*self.gold.place(span), name, self.gold.words(span), scores.get(span, 1.0))
            for span, name in dict.fromkeys((*agreed, *wrong))
        ]
        many = Counter(kind for kind, *_ in self.errors())
        many["missed"] += len(self.gold.unheld)
        said = ", ".join(f"{count} {kind}" for kind, count in many.items() if count)
        place = f"{self.gold.document}, from character {self.gold.start}: {said}"
        return Document(place, self.gold.text, tuple(entities))
