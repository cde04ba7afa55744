"""The process that adapts: ``python -m hardner.serve.job FOLDER``.

It reads its order from the folder, says how far it has come in JSON lines on standard output, and
leaves the new model in the folder. It ends when its standard input does, as that means that the
server is gone, however it went.
"""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hardner.errors import HardnerError
from hardner.serve import engine, outcome, sheet
from hardner.types import Sentence

Heard = Callable[[str, int, int], None]
"""Told the stage, and how much of it is done."""
Say = Callable[[dict[str, Any]], None]


def run(folder: Path, say: Say) -> None:
    """Does what the folder's order says."""
    order = json.loads((folder / "order.json").read_text("utf-8"))
    labelled, held_out, unlabelled = (
        sheet.read(folder / f"{name}.jsonl") for name in ("labelled", "held_out", "unlabelled")
    )

    def heard(stage: str, done: int, total: int) -> None:
        say({"stage": stage, "done": done, "total": total})

    heard("reading", 0, 1)
    base = engine.load(Path(order["base"]) if order["base"] else None)
    before = engine.load(folder / "current") if (folder / "current").is_dir() else base
    made, reports = _learnt(base, labelled, order, heard)
    labels = [report.label for report in reports]
    result = outcome.expected(reports) | {
        "changes": _changes(before, made, unlabelled, labels, heard),
        "held_out": outcome.judged(made, held_out, labels),
    }
    heard("saving", 0, 1)
    made.save(folder / "model")
    say({"result": result, "labels": [*made.labels]})


def _learnt(
    base: engine.Model, labelled: Sequence[Sentence], order: dict[str, Any], heard: Heard
) -> tuple[engine.Model, list[engine.Learnt]]:
    """One type after the other, each beside those before it."""
    labels = sorted({span.label for sentence in labelled for span in sentence.spans})
    heard("adapting", 0, 1)
    made, reports = base, []
    for place, label in enumerate(labels):

        def told(done: int, total: int, place: int = place) -> None:
            heard("adapting", place * total + done, len(labels) * total)

        keep = bool(order["keep"]) or place > 0
        own = [outcome.only(sentence, {label}) for sentence in labelled]
        made, report = engine.adapted(made, own, label, keep, bool(order["force"]), told)
        reports.append(report)
    return made, reports


def _changes(
    before: engine.Model,
    made: engine.Model,
    sentences: Sequence[Sentence],
    labels: Sequence[str],
    heard: Heard,
) -> dict[str, Any] | None:
    known = set(labels) & set(before.labels)
    if not known or not sentences:
        return None
    heard("comparing", 0, 2)
    old = before.spans(sentences)
    heard("comparing", 1, 2)
    return outcome.changes(sentences, old, made.spans(sentences), known)


def _watch(folder: Path) -> None:
    """Ends the process, and what it leaves, when standard input ends."""
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(folder: Path) -> int:
    """Runs the job; what it says goes out by the standard output, what others print does not."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        try:
            out.write(json.dumps(line) + "\n")
        except BrokenPipeError:
            threading.Event().wait()  # the watching thread ends the process

    threading.Thread(target=_watch, args=(folder,), daemon=True).start()
    try:
        run(folder, say)
    except HardnerError as error:
        say({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(code)  # the watching thread still reads
