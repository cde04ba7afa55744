"""What a run brought: what to expect, what it gets wrong, what is new since the model before."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from hardner.evaluate.errors import mistakes
from hardner.evaluate.predictions import Predicted
from hardner.evaluate.score import score
from hardner.serve.engine import Learnt, Model
from hardner.types import Sentence, Span

SHOWN = 100
"""Changes, and mistakes, of each kind."""
WORDS = 6
"""Of the context, on each side."""

Scored = Sequence[tuple[Span, float]]


def only(sentence: Sentence, labels: Collection[str]) -> Sentence:
    """The sentence with its mentions of these labels."""
    return replace(sentence, spans=tuple(s for s in sentence.spans if s.label in labels))


def expected(learnt: Sequence[Learnt]) -> dict[str, Any]:
    """The expected F1 by type, and of all types, each as heavy as its mentions."""
    return {
        **_mean(learnt),
        "types": [asdict(one) for one in learnt],
        "notes": [note for one in learnt for note in one.notes],
    }


def _mean(learnt: Sequence[Learnt]) -> dict[str, float | None]:
    known = [one for one in learnt if one.f1 is not None]
    total = sum(one.mentions for one in known)
    names = ("f1", "low", "high", "gain")
    if not total or len(known) < len(learnt):
        return dict.fromkeys(names)
    return {name: sum(one.mentions * getattr(one, name) for one in known) / total for name in names}


def judged(
    model: Model, sentences: Sequence[Sentence], labels: Collection[str]
) -> dict[str, Any] | None:
    """How the model does on sentences that it did not learn from, and what it gets wrong."""
    if not sentences:
        return None
    gold = [only(sentence, labels) for sentence in sentences]
    found = [
        tuple(span for span, _ in spans if span.label in labels) for spans in model.spans(gold)
    ]
    total = score([sentence.spans for sentence in gold], found)
    wrong = mistakes(Predicted(s, spans) for s, spans in zip(gold, found, strict=True))
    return {
        "sentences": len(gold),
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "mistakes": [
            {**asdict(mistake), "sentence": int(mistake.sentence)} for mistake in wrong[:SHOWN]
        ],
    }


def changes(
    sentences: Sequence[Sentence],
    before: Sequence[Scored],
    after: Sequence[Scored],
    labels: Collection[str],
) -> dict[str, Any]:
    """The mentions that one of two models finds alone, the surest first."""
    kept = 0
    gained: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    for sentence, old, new in zip(sentences, before, after, strict=True):
        was = {span: value for span, value in old if span.label in labels}
        now = {span: value for span, value in new if span.label in labels}
        kept += len(was.keys() & now.keys())
        gained += [_change(sentence, span, now[span]) for span in now.keys() - was.keys()]
        lost += [_change(sentence, span, was[span]) for span in was.keys() - now.keys()]
    return {
        "looked": len(sentences),
        "kept": kept,
        "gained": sorted(gained, key=_sureness)[:SHOWN],
        "lost": sorted(lost, key=_sureness)[:SHOWN],
        "gained_total": len(gained),
        "lost_total": len(lost),
    }


def _sureness(change: dict[str, Any]) -> tuple[float, int, str]:
    return -change["score"], change["sentence"], change["text"]


def _change(sentence: Sentence, span: Span, value: float) -> dict[str, Any]:
    left, right = max(0, span.start - WORDS), span.end + WORDS
    words = sentence.tokens
    return {
        "sentence": int(sentence.id),
        "text": " ".join(words[span.start : span.end]),
        "label": span.label,
        "score": round(value, 4),
        "before": " ".join(words[left : span.start]),
        "after": " ".join(words[span.end : right]),
    }
