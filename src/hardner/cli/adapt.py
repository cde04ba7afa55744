"""``hardner adapt``: from a few labelled sentences of a new type to a model for it."""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hardner.cli.common import (
    check_model_folder,
    keep_freed_memory,
    message_on_interrupt,
    print_json,
    progress_bar,
    say,
    warn,
    warnings_on_stderr,
)
from hardner.cli.options import (
    DEVICE_OPTION,
    ENCODING_OPTION,
    JSON_OPTION,
    SEED_OPTION,
    SOURCE_FORMAT_OPTION,
)
from hardner.errors import FileError, HardnerError
from hardner.files import shown_path
from hardner.formats import Report, read
from hardner.types import Sentence

if TYPE_CHECKING:
    from hardner.adapt.examples import Examples
    from hardner.adapt.forecast import Interval
    from hardner.adapt.workflow import AdaptationReport
    from hardner.evaluate.score import Score
    from hardner.tag.predictor import Predictor

_LONG = 60
"""Seconds of learning that are announced."""
_UNTIMED = 5
"""Steps at the start, which are slower; as many behind them are timed."""


def adapt_command(
    labelled: Annotated[
        list[str],
        Argument(
            metavar="LABELLED...",
            help="Labelled sentences in any format, and answers of hardner review; - is stdin.",
        ),
    ],
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the new model.")],
    label: Annotated[
        str | None, Option(metavar="NAME", help="Entity type to learn, if LABELLED has several.")
    ] = None,
    model: Annotated[
        Path | None, Option(metavar="DIR", help="Model to start from; default: the bundled model.")
    ] = None,
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    test: Annotated[
        str | None, Option(metavar="FILE", help="Labelled sentences to score the new model on.")
    ] = None,
    unlabelled: Annotated[
        str | None, Option(metavar="FILE", help="Text of the same kind to self-train on; slower.")
    ] = None,
    keep: Annotated[
        bool, Option("--keep", help="Keep the types that the model finds already.")
    ] = False,
    seed: SEED_OPTION = 0,
    force: Annotated[
        bool, Option("--force", help="Replace a model in DIR, and accept a result that is worse.")
    ] = False,
    device: DEVICE_OPTION = "auto",
    as_json: JSON_OPTION = False,
) -> None:
    """Make a model for a new entity type from 5 to 100 labelled sentences.

    Cross-validation within your sentences says which F1 to expect, and what ten more sentences
    would bring. A result that tags everything or nothing, or that is worse than a type the model
    knows already, is refused with the reason. With --keep, the model's own types are found exactly
    as before; tagging takes a second pass for the new one. With --unlabelled, a first model tags
    some of that text and a second one learns from it too; the expected F1 is measured without. The
    model is written whole, or not at all.

    Examples:

    - `hardner adapt examples/devices-train.jsonl --label Device --out device-model`
    - `hardner adapt devices.tsv --out device-model --test more.tsv --unlabelled abstracts.txt`
    - `hardner adapt brat-folder/ --label Device --keep --out larger-model --json`
    - `hardner adapt devices.tsv answers.jsonl --out device-model` (after `hardner review`)
    """
    from hardner.adapt.workflow import adapt_predictor
    from hardner.tag.predictor import Predictor

    keep_freed_memory()
    with warnings_on_stderr():
        with message_on_interrupt("interrupted; nothing was written"):
            check_model_folder(out, force)
            given = _labelled(labelled, label, source_format, encoding)
            tested = _labelled([test], given.label, source_format, encoding) if test else None
            more = _unlabelled(unlabelled, source_format, encoding) if unlabelled else None
            start = Predictor.load(model, device)
            progress = progress_bar()
            task = progress.add_task("learning", total=None)
            estimate = _Estimate()

            def told(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)
                estimate(done, total)

            with progress:
                predictor, report = adapt_predictor(
                    start,
                    [*given.sentences, *given.partial],
                    given.label,
                    unlabelled=more,
                    keep=keep,
                    seed=seed,
                    force=force,
                    on_progress=told,
                )
            predictor.save(out)
        # After saving: an interrupt now loses the score, but not the model.
        score = _score(predictor, tested) if tested else None
    warn(dict.fromkeys((*given.notes, *report.notes, *_shared(given, tested))))
    following = shlex.join(["hardner", "tag", "TEXT", "--model", str(out)])
    if as_json:
        print_json(_record(report, score, out, following))
    else:
        for line in _lines(report, score, out, following):
            typer.echo(line)


def _labelled(
    paths: Sequence[str], label: str | None, format: str | None, encoding: str | None
) -> "Examples":
    from hardner.adapt.examples import examples, read_labelled

    report = Report()
    held: list[Sentence] = []
    try:
        for path in paths:
            held += read_labelled(path, label, format=format, encoding=encoding, report=report)
        found = examples(held, label)
    except FileError:
        raise
    except HardnerError as error:
        raise FileError(", ".join(map(str, map(shown_path, paths))), str(error)) from None
    warn(report.lines())
    return found


def _unlabelled(path: str, format: str | None, encoding: str | None) -> list[Sentence]:
    from hardner.adapt.examples import read_unlabelled

    found = list(read_unlabelled(read(path, format, report=Report(), encoding=encoding)))
    if not found:
        raise FileError(shown_path(path), "holds no sentence to learn from")
    return found


class _Estimate:
    """Says once, after a few steps, how long learning will take, if that is more than a minute."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self, done: int, total: int) -> None:
        if done == _UNTIMED:
            self._began = time.monotonic()
        elif done == 2 * _UNTIMED and self._began is not None:
            seconds = (time.monotonic() - self._began) / _UNTIMED * total
            if seconds > _LONG:
                say(f"learning will take about {ceil(seconds / 60)} minutes")


def _score(predictor: "Predictor", tested: "Examples") -> "Score":
    from hardner.evaluate.score import score

    found = predictor.spans(tested.sentences, labels=[tested.label])
    gold = [sentence.spans for sentence in tested.sentences]
    return score(gold, [[span for span, _ in spans] for spans in found])


def _shared(given: "Examples", tested: "Examples | None") -> Iterator[str]:
    if tested is None:
        return
    learnt = {sentence.tokens for sentence in given.sentences}
    both = sum(sentence.tokens in learnt for sentence in tested.sentences)
    if both:
        yield f"{both} of the {len(tested.sentences)} test sentences were learnt from"


def _record(
    report: "AdaptationReport", score: "Score | None", out: Path, following: str
) -> dict[str, Any]:
    expected = report.expected
    tested = None
    if score:
        rates = {"f1": score.f1, "precision": score.precision, "recall": score.recall}
        tested = {name: round(value, 4) for name, value in rates.items()} | asdict(score)
    return {
        "label": report.label,
        "sentences": report.sentences,
        "mentions": report.mentions,
        "unlabelled": report.unlabelled,
        "expected_f1": _rounded(expected.f1) if expected else None,
        "more_sentences": expected.more if expected else None,
        "expected_gain": _rounded(expected.gain) if expected else None,
        "best_known_label": report.known,
        "test": tested,
        "notes": report.notes,
        "seconds": round(report.seconds, 2),
        "model": str(out),
        "next": following,
    }


def _rounded(value: "Interval") -> dict[str, float]:
    return {name: round(number, 4) for name, number in asdict(value).items()}


def _many(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _lines(
    report: "AdaptationReport", score: "Score | None", out: Path, following: str
) -> Iterator[str]:
    from hardner.adapt.forecast import INTERVAL_LEVEL

    beside = f", beside {report.unlabelled:,} without labels" if report.unlabelled else ""
    given = f"{_many(report.sentences, 'sentence')}, {_many(report.mentions, 'mention')}"
    yield f"{report.label}: {given}{beside}"
    if report.expected is None:
        yield "expected F1: unknown, as too few sentences hold a mention to hold some of them out"
    else:
        f1, gain = report.expected.f1, report.expected.gain
        interval = f"{INTERVAL_LEVEL:.0%} interval"
        yield (
            f"expected F1: {f1.value:.2f} ({interval} {f1.low:.2f} to {f1.high:.2f}), "
            "on sentences like these"
        )
        yield (
            f"with {report.expected.more} more sentences: {gain.value:+.2f} "
            f"({interval} {gain.low:+.2f} to {gain.high:+.2f})"
        )
    if score:
        rates = f"precision {score.precision:.3f}, recall {score.recall:.3f}"
        yield f"test F1: {score.f1:.3f} ({rates})"
    yield f"model: {out}, after {report.seconds:.1f} s"
    yield f"next: {following}"
