"""The process that adapts: ``python -m hardner.serve.job FOLDER``.

It reads its order from the folder, reports progress as JSON lines on standard output, and leaves
the new model in the folder. It ends when its standard input does, as that means that the server is
gone, however it went.
"""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardner.errors import HardnerError
from hardner.evaluate.errors import PredictedSentence, find_mistakes
from hardner.evaluate.score import score
from hardner.serve.ipc import MODEL_IN_USE, NEW_MODEL, AdaptationOrder
from hardner.serve.model_thread import load_predictor
from hardner.types import Sentence, Span

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor

_SHOWN = 100
"""Changes and mistakes of each kind that are reported."""
_CONTEXT = 6
"""Tokens of context on each side of a change."""

_OnProgress = Callable[[str, int, int], None]
"""Progress callback: (stage, done, total)."""


@dataclass(frozen=True)
class TypeResult:
    """What a type was learnt from, and what to expect: None where nothing could be held out."""

    label: str
    sentences: int
    mentions: int
    f1: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    """What `more` sentences would add to F1."""
    more: int = 0
    notes: tuple[str, ...] = ()


def run_order(folder: Path, say: Callable[[dict[str, Any]], None]) -> None:
    """Adapt as the folder's order says; `say` sends a line to the server."""
    order = AdaptationOrder.read(folder)

    def on_progress(stage: str, done: int, total: int) -> None:
        say({"stage": stage, "done": done, "total": total})

    on_progress("reading", 0, 1)
    base = load_predictor(order.base)
    in_use = folder / MODEL_IN_USE
    before = load_predictor(in_use) if in_use.is_dir() else base
    model, results = _adapt_types(base, order, on_progress)
    labels = [result.label for result in results]
    result = {
        **_overall(results),
        "types": [asdict(result) for result in results],
        "notes": [note for result in results for note in result.notes],
        "changes": _compare(before, model, order.unlabelled, labels, on_progress),
        "held_out": score_held_out(model, order.held_out, labels),
    }
    on_progress("saving", 0, 1)
    model.save(folder / NEW_MODEL)
    say({"result": result, "labels": [*model.labels]})


def _adapt_types(
    base: "Predictor", order: AdaptationOrder, on_progress: _OnProgress
) -> tuple["Predictor", list[TypeResult]]:
    """Learn one type after the other, each beside those before it."""
    labels = sorted({span.label for sentence in order.labelled for span in sentence.spans})
    on_progress("adapting", 0, 1)
    model, results = base, []
    for place, label in enumerate(labels):

        def on_type_progress(done: int, total: int, place: int = place) -> None:
            on_progress("adapting", place * total + done, len(labels) * total)

        keep = order.keep or place > 0
        own = [_with_labels(sentence, {label}) for sentence in order.labelled]
        model, result = _adapt(model, own, label, keep, order.force, on_type_progress)
        results.append(result)
    return model, results


def _adapt(
    model: "Predictor",
    sentences: Sequence[Sentence],
    label: str,
    keep: bool,
    force: bool,
    on_progress: Callable[[int, int], None],
) -> tuple["Predictor", TypeResult]:
    from hardner.adapt.workflow import adapt_predictor  # torch, which the tests do without

    adapted, report = adapt_predictor(
        model, sentences, label, keep=keep, force=force, on_progress=on_progress
    )
    result = TypeResult(label, report.sentences, report.mentions, notes=report.notes)
    if (seen := report.expected) is not None:
        f1 = seen.f1
        result = replace(
            result, f1=f1.value, low=f1.low, high=f1.high, gain=seen.gain.value, more=seen.more
        )
    return adapted, result


def _with_labels(sentence: Sentence, labels: Collection[str]) -> Sentence:
    """The sentence with its mentions of these labels."""
    return replace(sentence, spans=tuple(s for s in sentence.spans if s.label in labels))


def _overall(results: Sequence[TypeResult]) -> dict[str, float | None]:
    """The expected F1 of all types, each weighted by its mentions."""
    known = [result for result in results if result.f1 is not None]
    total = sum(result.mentions for result in known)
    names = ("f1", "low", "high", "gain")
    if not total or len(known) < len(results):
        return dict.fromkeys(names)
    return {name: sum(one.mentions * getattr(one, name) for one in known) / total for name in names}


def _compare(
    before: "Predictor",
    after: "Predictor",
    sentences: Sequence[Sentence],
    labels: Collection[str],
    on_progress: _OnProgress,
) -> dict[str, Any] | None:
    """What is new since the model before, for types that both find."""
    known = set(labels) & set(before.labels)
    if not known or not sentences:
        return None
    on_progress("comparing", 0, 2)
    old = before.spans(sentences)
    on_progress("comparing", 1, 2)
    return compare_spans(sentences, old, after.spans(sentences), known)


def compare_spans(
    sentences: Sequence[Sentence],
    before: Sequence[Sequence[tuple[Span, float]]],
    after: Sequence[Sequence[tuple[Span, float]]],
    labels: Collection[str],
) -> dict[str, Any]:
    """The mentions that only one of two models finds, the surest first."""
    kept = 0
    gained: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    for sentence, old, new in zip(sentences, before, after, strict=True):
        was = {span: value for span, value in old if span.label in labels}
        now = {span: value for span, value in new if span.label in labels}
        kept += len(was.keys() & now.keys())
        gained += [_change(sentence, span, now[span]) for span in now.keys() - was.keys()]
        lost += [_change(sentence, span, was[span]) for span in was.keys() - now.keys()]
    for changes in (gained, lost):
        changes.sort(key=lambda change: (-change["score"], change["sentence"], change["text"]))
    return {
        "looked": len(sentences),
        "kept": kept,
        "gained": gained[:_SHOWN],
        "lost": lost[:_SHOWN],
        "gained_total": len(gained),
        "lost_total": len(lost),
    }


def _change(sentence: Sentence, span: Span, value: float) -> dict[str, Any]:
    words, left = sentence.tokens, max(0, span.start - _CONTEXT)
    return {
        "sentence": int(sentence.id),
        "text": " ".join(words[span.start : span.end]),
        "label": span.label,
        "score": round(value, 4),
        "before": " ".join(words[left : span.start]),
        "after": " ".join(words[span.end : span.end + _CONTEXT]),
    }


def score_held_out(
    model: "Predictor", sentences: Sequence[Sentence], labels: Collection[str]
) -> dict[str, Any] | None:
    """Precision, recall and F1 on sentences that were not learnt from, with the mistakes."""
    if not sentences:
        return None
    gold = [_with_labels(sentence, labels) for sentence in sentences]
    found = [
        tuple(span for span, _ in spans if span.label in labels) for spans in model.spans(gold)
    ]
    total = score([sentence.spans for sentence in gold], found)
    wrong = find_mistakes(PredictedSentence(s, spans) for s, spans in zip(gold, found, strict=True))
    return {
        "sentences": len(gold),
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "mistakes": [
            {**asdict(mistake), "sentence": int(mistake.sentence)} for mistake in wrong[:_SHOWN]
        ],
    }


def _end_with_server(folder: Path) -> None:
    """End the process, and remove its folder, when standard input ends."""
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(folder: Path) -> int:
    """Run the order of a folder; returns the exit code."""
    # Only our lines may reach the server: what libraries print goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        try:
            out.write(json.dumps(line) + "\n")
        except BrokenPipeError:
            threading.Event().wait()  # the watching thread ends the process

    threading.Thread(target=_end_with_server, args=(folder,), daemon=True).start()
    try:
        run_order(folder, say)
    except HardnerError as error:
        say({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(code)  # the watching thread still reads
