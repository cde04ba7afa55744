"""Strict entity-level F1 by the predictor that users run, kinds of errors, and lenient scores."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple

from hardner.errors import import_extra
from hardner.tag.engine import EncodedSentences
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

Metric = Literal["f1", "precision", "recall"]
SpanSets = Iterable[Sequence[Span]]
"""The spans of one sentence after another."""


@dataclass(frozen=True, slots=True)
class Score:
    """True positives, false positives and false negatives; undefined ratios are 0.

    A true positive has the start, end and label of a gold mention.
    """

    tp: int = 0
    fp: int = 0
    fn: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def precision(self) -> float:
        """TP / (TP + FP)."""
        return self.tp / (self.tp + self.fp) if self.tp else 0.0

    @property
    def recall(self) -> float:
        """TP / (TP + FN)."""
        return self.tp / (self.tp + self.fn) if self.tp else 0.0

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN), the harmonic mean of precision and recall."""
        return 2 * self.tp / (2 * self.tp + self.fp + self.fn) if self.tp else 0.0


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """A score with its false positives and false negatives divided by kind."""

    tp: int = 0
    fp_boundary: int = 0
    """Predicted; overlaps a gold mention of the same label."""
    fp_type: int = 0
    """Predicted; overlaps gold mentions of other labels only."""
    spurious: int = 0
    """Predicted where there is no gold mention."""
    fn_boundary: int = 0
    """Gold; a predicted mention of the same label overlaps."""
    fn_type: int = 0
    """Gold; only predicted mentions of other labels overlap."""
    missed: int = 0
    """Gold; no predicted mention overlaps."""

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def score(self) -> Score:
        fp = self.fp_boundary + self.fp_type + self.spurious
        return Score(self.tp, fp, self.fn_boundary + self.fn_type + self.missed)


def score(gold: SpanSets, predicted: SpanSets) -> Score:
    """The micro-averaged score of all sentences and labels."""
    return sum(count_errors(gold, predicted).values(), ErrorCounts()).score


def count_errors(gold: SpanSets, predicted: SpanSets) -> dict[str, ErrorCounts]:
    """True positives and errors of each label, in alphabetical order."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for right, found in zip(gold, predicted, strict=True):
        both = set(right) & set(found)
        for span in both:
            counts[span.label]["tp"] += 1
        for span in set(found) - both:
            kind = error_kind(span, right)
            counts[span.label]["spurious" if kind == "alone" else f"fp_{kind}"] += 1
        for span in set(right) - both:
            kind = error_kind(span, found)
            counts[span.label]["missed" if kind == "alone" else f"fn_{kind}"] += 1
    return {label: ErrorCounts(**found) for label, found in sorted(counts.items())}


def error_kind(span: Span, others: Sequence[Span]) -> Literal["boundary", "type", "alone"]:
    """Whether a wrong mention overlaps others of its label, of other labels only, or none."""
    labels = {o.label for o in others if o.start < span.end and span.start < o.end}
    if span.label in labels:
        return "boundary"
    return "type" if labels else "alone"


class Scorer:
    """Test sentences, encoded once for all models that read them alike."""

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences
        self._gold = [sentence.spans for sentence in sentences]
        self._encoded: EncodedSentences | None = None

    def predictions(
        self, predictor: Predictor, domain: str | None = None
    ) -> list[tuple[Span, ...]]:
        """The spans that a model finds in each sentence, by all its decoders or a domain's."""
        if self._encoded is None:
            self._encoded = predictor.encode(self.sentences)
        found = predictor.spans(self._encoded, domain=domain)
        return [tuple(span for span, _ in spans) for spans in found]

    def breakdown(self, predictions: Sequence[Sequence[Span]]) -> dict[str, ErrorCounts]:
        """The score of each label, with errors by kind."""
        return count_errors(self._gold, predictions)

    def __call__(self, predictor: Predictor, domain: str | None = None) -> dict[str, ErrorCounts]:
        """Tag the sentences and score what is found."""
        return self.breakdown(self.predictions(predictor, domain))


class LenientScore(NamedTuple):
    """Precision, recall and F1 of a lenient match, which has no plain counts."""

    precision: float
    recall: float
    f1: float


_NERVALUATE_NAMES = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}


def lenient_scores(gold: SpanSets, predicted: SpanSets) -> dict[str, LenientScore]:
    """SemEval 2013's four matches, by the package nervaluate (extra ``hardner[partial]``).

    ``strict``: same ends and label; ``exact``: same ends; ``partial``: any overlap, which counts
    half where the ends differ; ``type``: any overlap with the same label.
    """
    nervaluate = import_extra("nervaluate", "partial")
    right, found = _nervaluate_documents(gold), _nervaluate_documents(predicted)
    labels = sorted({span["label"] for document in right + found for span in document})
    if not labels:
        return dict.fromkeys(_NERVALUATE_NAMES, LenientScore(0.0, 0.0, 0.0))
    overall = nervaluate.Evaluator(right, found, labels, loader="dict").evaluate()["overall"]
    theirs = {name: overall[key] for name, key in _NERVALUATE_NAMES.items()}
    return {name: LenientScore(r.precision, r.recall, r.f1) for name, r in theirs.items()}


def _nervaluate_documents(sentences: SpanSets) -> list[list[dict[str, Any]]]:
    """Spans in nervaluate's form, whose end is the last word itself."""
    return [
        [{"label": s.label, "start": s.start, "end": s.end - 1} for s in spans]
        for spans in sentences
    ]
