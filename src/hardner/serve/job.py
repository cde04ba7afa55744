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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardner.errors import HardnerError
from hardner.evaluate.errors import PredictedSentence, find_mistakes
from hardner.evaluate.score import score
from hardner.serve.errors import DISK_FULL, is_disk_full
from hardner.serve.learning import OnProgress, learn_types, only_labels, overall
from hardner.serve.runs import FIRST_MODEL, MODEL_IN_USE, NEW_MODEL, AdaptationOrder, falls
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

_SHOWN = 100  # changes and mistakes of each kind that are reported
_CONTEXT = 6  # tokens on each side of a change


def run_order(folder: Path, say: Callable[[dict[str, Any]], None]) -> None:
    """Adapt as the folder's order says; `say` sends a line to the server."""
    order = AdaptationOrder.read(folder)

    def on_progress(stage: str, done: int, total: int) -> None:
        say({"stage": stage, "done": done, "total": total})

    on_progress("reading", 0, 1)
    base = Predictor.load(order.base)
    in_use = folder / MODEL_IN_USE
    before = Predictor.load(in_use) if in_use.is_dir() else base

    def held_out(after: Predictor, labels: Sequence[str]) -> dict[str, Any]:
        scored = score_held_out(after, order.held_out, labels)
        old = score_held_out(before, order.held_out, labels) if scored else None
        return {"held_out": scored, "held_out_before": old and old["f1"]}

    def on_first(first: Predictor) -> None:
        """Let the server use the first model while cross-validation goes on, if it is better."""
        if not falls(held_out(first, order.labels)):
            first.save(folder / FIRST_MODEL)
            say({"first": [*first.labels]})

    model, results, notes = learn_types(base, order, on_progress, on_first)
    labels = [result["label"] for result in results]
    result = {
        **overall(results),
        "types": results,
        "notes": notes,
        "changes": compare_models(before, model, order.unlabelled, labels, on_progress),
        **held_out(model, labels),
    }
    on_progress("saving", 0, 1)
    model.save(folder / NEW_MODEL)
    say({"result": result, "labels": [*model.labels]})


def compare_models(
    before: Predictor,
    after: Predictor,
    sentences: Sequence[Sentence],
    labels: Collection[str],
    on_progress: OnProgress,
) -> dict[str, Any] | None:
    """The mentions of known types that only one of two models finds, the surest first."""
    known = set(labels) & set(before.labels)
    if not known or not sentences:
        return None
    on_progress("comparing", 0, 2)
    old_spans = before.spans(sentences)
    on_progress("comparing", 1, 2)
    new_spans = after.spans(sentences)
    kept = 0
    gained: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    for sentence, old, new in zip(sentences, old_spans, new_spans, strict=True):
        was = {span: score for span, score in old if span.label in known}
        now = {span: score for span, score in new if span.label in known}
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
    model: Predictor, sentences: Sequence[Sentence], labels: Collection[str]
) -> dict[str, Any] | None:
    """Precision, recall and F1 on sentences that were not learnt from, with the mistakes."""
    if not sentences:
        return None
    gold = [only_labels(sentence, labels) for sentence in sentences]
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
    except (HardnerError, OSError) as error:
        if isinstance(error, OSError) and not is_disk_full(error):
            raise
        say({"error": DISK_FULL if is_disk_full(error) else str(error)})
        return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(code)  # the watching thread still reads
