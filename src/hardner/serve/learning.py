"""Learning the types of a project in one fit, so that none takes the others down."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hardner.adapt.report import AdaptationRefused, TypeReport
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.serve.runs import AdaptationOrder
from hardner.tag.heads import keep_labels
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

OnProgress = Callable[[str, int, int], None]  # (stage, done, total)
_FIGURES = ("f1", "low", "high", "gain", "text_f1", "text_low", "text_high")
"""Expected on sentences like the labelled ones, and on the project's text as it runs."""


class LearntTypes(NamedTuple):
    """A model for all types of a project, and what came of each."""

    model: Predictor
    results: list[dict[str, Any]]
    notes: list[str]


def learn_types(
    base: Predictor,
    order: AdaptationOrder,
    on_progress: OnProgress,
    on_first: Callable[[Predictor], None],
) -> LearntTypes:
    """A model for all types.

    A type keeps the model's own head for it where that does better, or where learning failed.
    ``on_first`` is given a model that can be used before all is cross-validated.
    """
    labels = order.labels
    on_progress("adapting", 0, 1)
    try:
        model, report = adapt_predictor(
            base,
            order.labelled,
            labels,
            text=order.unlabelled,
            keep=order.keep,
            force=order.force,
            on_progress=lambda done, total: on_progress("adapting", done, total),
            on_model=lambda first: on_first(first.predictor),
        )
    except AdaptationRefused as refused:
        kept = [row.label for row in refused.types if row.outcome == "kept"]
        if order.keep or not kept:
            why = [note for row in refused.types for note in _notes(row, order)] or [str(refused)]
            raise HardnerError(" ".join(why)) from None
        rows = [_result(row, order) for row in refused.types]
        return LearntTypes(keep_labels(base, kept), rows, [n for row in rows for n in row["notes"]])
    results = [_result(row, order) for row in report.types]
    told = [note for result in results for note in result["notes"]]
    return LearntTypes(model, results, list(dict.fromkeys((*told, *report.notes))))


def _result(row: TypeReport, order: AdaptationOrder) -> dict[str, Any]:
    """What came of a type; F1 is None where nothing could be held out."""
    result: dict[str, Any] = {
        "label": row.label,
        "sentences": len(order.labelled),
        "mentions": row.mentions,
        "kept": row.outcome == "kept",
        "learnt": row.outcome == "learnt",
        "limit": row.limit,
        "notes": _notes(row, order),
        "more": 0,
        **dict.fromkeys(_FIGURES),
    }
    if row.outcome == "kept" and row.expected and row.known:
        return result | {"f1": row.known[1]}
    if row.outcome != "learnt" or row.expected is None:
        return result
    f1, gain = row.expected.f1, row.expected.gain
    text = row.expected.on_text
    on_text = (text.value, text.low, text.high) if text else (None,) * 3
    figures = (f1.value, f1.low, f1.high, gain.value, *on_text)
    return result | {"more": row.expected.more} | dict(zip(_FIGURES, figures, strict=True))


def _notes(row: TypeReport, order: AdaptationOrder) -> list[str]:
    if row.outcome == "learnt":
        return list(row.notes)
    if row.outcome == "kept" and order.keep:
        return [f"{row.label}: the model knows it, and was to keep what it knew."]
    if row.outcome == "kept" and row.known and row.expected:
        return [
            f"{row.label}: the model's own does better as it is, F1 {row.known[1]:.2f} where "
            f"{row.expected.f1.value:.2f} is expected of an adapted one, and is kept. Options can "
            "have it adapted all the same."
        ]
    why = row.reason.replace("try another --seed", "label a few more sentences")
    stays = "; the model's own stays" if row.outcome == "kept" else ""
    return [f"{row.label} could not be learnt: {why}{stays}."]


def only_labels(sentence: Sentence, labels: Collection[str]) -> Sentence:
    spans, rejected = (
        tuple(span for span in marks if span.label in labels)
        for marks in (sentence.spans, sentence.rejected)
    )
    return replace(sentence, spans=spans, rejected=rejected)


def overall(results: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """What to expect of the types that were learnt or looked at, weighted by their mentions."""
    found = [one for one in results if one["learnt"] or one["f1"] is not None]
    total = sum(one["mentions"] for one in found)
    return {
        name: None
        if not found or any(one[name] is None for one in found)
        else sum(one["mentions"] * one[name] for one in found) / total
        for name in _FIGURES
    }
