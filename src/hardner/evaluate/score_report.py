"""The score of a tagger on labelled data of one's own, with intervals, and of one against another.

Intervals are the percentile bootstrap's (Efron, 1979) over documents, since sentences of one
document are alike; over sentences where there are few documents. The two are `Predictor.score`
and `Predictor.compare` for users.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.examples import LabelledData
from hardner.adapt.forecast import Interval
from hardner.evaluate.own_data import (
    GoldData,
    GoldSentence,
    JudgedSentence,
    ScoredSpans,
    find_in,
    read_gold,
)
from hardner.evaluate.score import ErrorCounts, LenientScore, Score, count_errors, lenient_scores
from hardner.evaluate.significance import (
    bootstrap_sums,
    f1_of_sums,
    holm,
    permutation_test_f1,
)
from hardner.tag.predictor import Predictor
from hardner.types import Progress, Span

_Floats = NDArray[np.float64]
SCORE_LEVEL = 0.95
"""Of the intervals of a score."""
ALL_LABELS = "all"
"""The name of the row for all labels together."""
_FEW_DOCUMENTS = 20
"""With fewer, sentences are resampled instead."""
_RATES = ("precision", "recall", "f1")


@dataclass(frozen=True)
class LabelScore:
    """How mentions of a label, or of all labels, were found."""

    label: str
    counts: ErrorCounts
    precision: Interval
    recall: Interval
    f1: Interval
    partial: LenientScore | None = None
    """Overlaps count half where the ends differ, in the manner of SemEval 2013."""

    @property
    def rates(self) -> tuple[Interval, Interval, Interval]:
        """Precision, recall and F1."""
        return self.precision, self.recall, self.f1

    def to_record(self) -> dict[str, Any]:
        """As one flat row."""
        score = self.counts.score
        row: dict[str, Any] = {"label": self.label, "mentions": score.tp + score.fn}
        row |= {"found": score.tp + score.fp, "right": score.tp}
        for name, rate in zip(_RATES, self.rates, strict=True):
            row |= {name: rate.value, f"{name}_low": rate.low, f"{name}_high": rate.high}
        row |= {name: value for name, value in asdict(self.counts).items() if name != "tp"}
        if self.partial is not None:
            row |= {f"partial_{name}": value for name, value in self.partial._asdict().items()}
        return row


@dataclass(frozen=True)
class ScoreReport:
    """The scores of a tagger on labelled data."""

    labels: tuple[LabelScore, ...]
    total: LabelScore
    sentences: tuple[JudgedSentence, ...]
    documents: int
    unit: Literal["document", "sentence"]
    """What was resampled for the intervals."""
    notes: tuple[str, ...] = ()
    """What the user should know, a line each."""

    def to_records(self) -> list[dict[str, Any]]:
        """A flat record for each label and one for all of them, as data frames take them."""
        return [row.to_record() for row in (*self.labels, self.total)]

    def error_records(self) -> list[dict[str, Any]]:
        """A flat record for each error, in the order of the data."""
        return [record for own in self.sentences for record in own.error_records()]

    def worst(self, count: int = 20) -> list[JudgedSentence]:
        """The sentences with most errors; of equal ones, the first."""
        wrong = [own for own in self.sentences if own.error_count]
        return sorted(wrong, key=lambda own: -own.error_count)[:count]


@dataclass(frozen=True)
class MentionChange:
    """A mention on which two taggers differ."""

    kind: Literal["gained", "lost", "new false alarm", "false alarm gone"]
    """What the second one does that the first does not."""
    span: Span
    gold: GoldSentence

    @property
    def text(self) -> str:
        """The mention's text."""
        return self.gold.words(self.span)

    def to_record(self) -> dict[str, Any]:
        """As one flat row."""
        start, end = self.gold.place(self.span)
        return {
            "kind": self.kind,
            "label": self.span.label,
            "text": self.text,
            "document": self.gold.document,
            "start": start + self.gold.start,
            "end": end + self.gold.start,
            "sentence": self.gold.text,
        }


@dataclass(frozen=True)
class LabelComparison:
    """One tagger's score of a label, another's, and how sure the difference is."""

    label: str
    before: Score
    after: Score
    difference: Interval
    """Of F1, the second less the first."""
    p: float
    """Of a paired permutation test; of single labels, with Holm's correction."""

    def to_record(self) -> dict[str, Any]:
        """As one flat row."""
        row: dict[str, Any] = {"label": self.label}
        for side, score in (("before", self.before), ("after", self.after)):
            row |= {f"{name}_{side}": getattr(score, name) for name in _RATES}
        d = self.difference
        return row | {"difference": d.value, "low": d.low, "high": d.high, "p": self.p}


@dataclass(frozen=True)
class ComparisonReport:
    """How two taggers differ on the same labelled data."""

    labels: tuple[LabelComparison, ...]
    total: LabelComparison
    changes: tuple[MentionChange, ...]
    sentences: int
    documents: int
    unit: Literal["document", "sentence"]
    notes: tuple[str, ...] = ()

    def to_records(self) -> list[dict[str, Any]]:
        """A flat record for each label and one for all of them, as data frames take them."""
        return [row.to_record() for row in (*self.labels, self.total)]

    def change_records(self) -> list[dict[str, Any]]:
        """A flat record for each mention on which the two differ."""
        return [change.to_record() for change in self.changes]


def score_predictor(
    predictor: Predictor,
    labelled: LabelledData,
    labels: Collection[str] | None = None,
    *,
    label_map: Mapping[str, str] | None = None,
    partial: bool = False,
    on_progress: Progress | None = None,
) -> ScoreReport:
    """Score a predictor on labelled data.

    Args:
        predictor: It tags as it always does, with its thresholds.
        labelled: A file in any format, or sentences, documents or pairs of a text and its mentions.
        labels: Those to score; by default, all that both the data and the predictor have.
        label_map: The predictor's names of labels that the data names otherwise, such as
            ``{"DISEASE": "Disease"}``; several may become one.
        partial: Whether to count partial matches as well (extra ``hardner[partial]``).
        on_progress: Called with the sentences that are tagged and those in all.
    """
    data = read_gold(labelled, [predictor], labels, label_map=label_map)
    return score_data(data, find_in(data, predictor, on_progress), partial=partial)


def score_data(
    data: GoldData, found: Sequence[ScoredSpans], *, partial: bool = False
) -> ScoreReport:
    """Score what was found in each sentence."""
    judged = tuple(JudgedSentence(*pair) for pair in zip(data.sentences, found, strict=True))
    counts = _label_counts(judged, data.labels)
    units, unit = _units(data)
    draws = bootstrap_sums(_by_unit(_table(judged, data.labels), units))  # [R, labels, 3]

    def row(label: str, own: ErrorCounts, sums: _Floats) -> LabelScore:
        intervals = {
            name: _interval(getattr(own.score, name), rates)
            for name, rates in zip(_RATES, _rates(sums), strict=True)
        }
        lenient = _partial(judged, label) if partial else None
        return LabelScore(label, own, partial=lenient, **intervals)

    rows = [row(label, counts[label], draws[:, i]) for i, label in enumerate(data.labels)]
    total = row(ALL_LABELS, sum(counts.values(), ErrorCounts()), draws.sum(1))
    documents = len({own.document for own in data.sentences})
    return ScoreReport(tuple(rows), total, judged, documents, unit, data.notes)


def compare_predictors(
    before: Predictor,
    after: Predictor,
    labelled: LabelledData,
    labels: Collection[str] | None = None,
    *,
    label_map: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> ComparisonReport:
    """Compare two predictors on the same labelled data; other arguments are `score_predictor`'s."""
    data = read_gold(labelled, [before, after], labels, label_map=label_map)
    size = len(data.sentences)
    found = []
    for number, model in enumerate((before, after)):

        def told(done: int, total: int, behind: int = number * size) -> None:
            if on_progress:
                on_progress(behind + done, 2 * total)

        found.append(find_in(data, model, told))
    return compare_data(data, *found)


def compare_data(
    data: GoldData, before: Sequence[ScoredSpans], after: Sequence[ScoredSpans]
) -> ComparisonReport:
    """Compare what two predictors have found in each sentence."""
    sides = [
        tuple(JudgedSentence(*pair) for pair in zip(data.sentences, found, strict=True))
        for found in (before, after)
    ]
    counts = [_label_counts(judged, data.labels) for judged in sides]
    units, unit = _units(data)
    one, other = (_by_unit(_table(judged, data.labels), units) for judged in sides)
    draws = bootstrap_sums(np.stack([one, other], axis=1))  # [R, 2, labels, 3]
    every = [*([i] for i in range(len(data.labels))), list(range(len(data.labels)))]
    names = (*data.labels, ALL_LABELS)
    tests = [permutation_test_f1(one[:, own].sum(1), other[:, own].sum(1)) for own in every]
    p_values = [*holm(tests[:-1]), tests[-1]]
    rows = []
    for name, own, p in zip(names, every, p_values, strict=True):
        chosen = [data.labels[i] for i in own]
        scores = [sum((c[label].score for label in chosen), Score()) for c in counts]
        f1 = f1_of_sums(draws[:, :, own].sum(2))  # [R, 2]
        difference = _interval(scores[1].f1 - scores[0].f1, f1[:, 1] - f1[:, 0])
        rows.append(LabelComparison(name, scores[0], scores[1], difference, p))
    changes = [change for pair in zip(*sides, strict=True) for change in _changes(*pair)]
    documents = len({own.document for own in data.sentences})
    return ComparisonReport(
        tuple(rows[:-1]), rows[-1], tuple(changes), len(sides[0]), documents, unit, data.notes
    )


def _changes(before: JudgedSentence, after: JudgedSentence) -> list[MentionChange]:
    gold = set(before.gold.sentence.spans)
    old, new = set(before.found_spans), set(after.found_spans)
    return [
        *(MentionChange("gained", s, after.gold) for s in sorted((new - old) & gold)),
        *(MentionChange("lost", s, after.gold) for s in sorted((old - new) & gold)),
        *(MentionChange("new false alarm", s, after.gold) for s in sorted(new - old - gold)),
        *(MentionChange("false alarm gone", s, after.gold) for s in sorted(old - new - gold)),
    ]


def _label_counts(
    judged: Sequence[JudgedSentence], labels: Sequence[str]
) -> Mapping[str, ErrorCounts]:
    """The counts of each label, with mentions without a span counted as missed."""
    counts = count_errors([j.gold.sentence.spans for j in judged], [j.found_spans for j in judged])
    unheld = [entity.label for own in judged for entity in own.gold.unheld]
    return {
        label: counts.get(label, ErrorCounts()) + ErrorCounts(missed=unheld.count(label))
        for label in labels
    }


def _table(judged: Sequence[JudgedSentence], labels: Sequence[str]) -> _Floats:
    """True positives, false positives and false negatives of each sentence and label [N, L, 3]."""
    column = {label: i for i, label in enumerate(labels)}
    table = np.zeros((len(judged), len(labels), 3))
    for row, own in zip(table, judged, strict=True):
        gold, found = set(own.gold.sentence.spans), set(own.found_spans)
        for kind, spans in enumerate((gold & found, found - gold, gold - found)):
            for span in spans:
                row[column[span.label], kind] += 1
        for entity in own.gold.unheld:
            row[column[entity.label], 2] += 1
    return table


def _units(data: GoldData) -> tuple[list[int], Literal["document", "sentence"]]:
    """The unit of each sentence: its document, or itself where there are few documents."""
    numbers: dict[str, int] = {}
    units = [numbers.setdefault(own.document, len(numbers)) for own in data.sentences]
    if len(numbers) >= _FEW_DOCUMENTS:
        return units, "document"
    return list(range(len(units))), "sentence"


def _by_unit(table: _Floats, units: Sequence[int]) -> _Floats:
    summed = np.zeros((max(units) + 1, *table.shape[1:]))
    np.add.at(summed, units, table)
    return summed


def _rates(sums: _Floats) -> list[_Floats]:
    """Precision, recall and F1 of sums [R, 3]; undefined ones are 0."""
    right = sums[:, 0]
    found, gold = right + sums[:, 1], right + sums[:, 2]
    divided = [np.divide(right, n, out=np.zeros_like(n), where=n > 0) for n in (found, gold)]
    return [*divided, f1_of_sums(sums)]


def _interval(value: float, draws: _Floats) -> Interval:
    low, high = np.quantile(draws, ((1 - SCORE_LEVEL) / 2, (1 + SCORE_LEVEL) / 2))
    return Interval(value, float(low), float(high))


def _partial(judged: Sequence[JudgedSentence], label: str) -> LenientScore:
    """Partial matches of a label or, of all, whatever their labels."""
    gold, found = (
        [tuple(s for s in spans if label in (s.label, ALL_LABELS)) for spans in side]
        for side in ([j.gold.sentence.spans for j in judged], [j.found_spans for j in judged])
    )
    return lenient_scores(gold, found)["partial"]
