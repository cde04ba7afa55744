"""``hardner adapt``: from a few labelled sentences of new types to a model for them."""

import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hardner.cli.common import (
    check_model_folder,
    keep_freed_memory,
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
    from hardner.adapt.forecast import Forecast, Interval
    from hardner.adapt.report import AdaptationReport, TypeReport
    from hardner.adapt.workflow import AdaptationResult
    from hardner.evaluate.score import Score
    from hardner.tag.predictor import Predictor

_LONG = 60
"""Seconds of learning that are announced."""
SOME_LEFT_OUT = 3
"""Exit code: there is a model, without some of the types."""
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
        list[str] | None,
        Option(metavar="NAME", help="Entity type to learn; repeat it for more. Default: all."),
    ] = None,
    description: Annotated[
        list[str] | None,
        Option(metavar="TEXT", help="What the --label means; for several, as many in their order."),
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
        bool, Option("--keep", "--add", help="Keep the types that the model finds already.")
    ] = False,
    continued: Annotated[
        bool,
        Option(
            "--continue",
            help="Learn types of the model afresh, from LABELLED and the sentences that it keeps.",
        ),
    ] = False,
    keep_sentences: Annotated[
        bool,
        Option(
            "--keep-sentences",
            help="Store the labelled sentences in DIR, for --continue; whoever gets the folder can "
            "read them.",
        ),
    ] = False,
    seed: SEED_OPTION = 0,
    force: Annotated[
        bool, Option("--force", help="Replace a model in DIR, and accept a result that is worse.")
    ] = False,
    device: DEVICE_OPTION = "auto",
    as_json: JSON_OPTION = False,
) -> None:
    """Make a model for new entity types from 5 to 100 labelled sentences.

    All types of LABELLED are learnt in one go, and may overlap; a sentence without a mention of a
    type says that it holds none. Cross-validation within your sentences says which F1 to expect of
    each type, and what ten more sentences would bring. A type whose outcome tags everything or
    nothing, or is worse than a type the model knows already, is left out with the reason; exit
    code 3 says so. If none is left, nothing is written. With --add, the model's own types are found
    exactly as before; tagging takes a second pass for the new ones. With --description, learning
    begins with what the type means, where that says more of your sentences than how rare mentions
    are. With --unlabelled, a first model tags some of that text and a second one learns from it
    too; you are also told which F1 to expect on that text as it runs, where most sentences hold no
    mention. With --continue, LABELLED holds new sentences alone: what the model has kept of earlier
    ones (--keep-sentences) is learnt from beside them, and its other types stay as they are. DIR is
    usable before cross-validation ends: Ctrl-C then keeps the model.

    Examples:

    - `hardner adapt examples/devices-train.jsonl --label Device --out device-model`
    - `hardner adapt few.jsonl --label Device --description "an implant or instrument" --out model`
    - `hardner adapt project.jsonl --out model --test more.jsonl`
    - `hardner adapt devices.tsv --out device-model --test more.tsv --unlabelled abstracts.txt`
    - `hardner adapt brat-folder/ --label Device --label Drug --add --out larger-model --json`
    - `hardner adapt devices.tsv answers.jsonl --out device-model` (after `hardner review`)
    - `hardner adapt devices.tsv --out model-of-may --keep-sentences`
    - `hardner adapt more.tsv --model model-of-may --continue --out model-of-june`
    """
    from hardner.adapt.report import AdaptationRefused
    from hardner.adapt.workflow import adapt_predictor
    from hardner.tag.predictor import Predictor

    if len(description or ()) not in (0, len(label or ())):
        raise typer.BadParameter("each --description belongs to a --label: name as many of both")
    keep_freed_memory()
    first = _FirstModel(out)
    with warnings_on_stderr():
        try:
            check_model_folder(out, force)
            if continued and model is None:
                raise HardnerError("--continue goes on with a model of yours; name it: --model DIR")
            given = _labelled(labelled, label, source_format, encoding)
            tested = _tested(test, given.labels, source_format, encoding) if test else None
            more = _unlabelled(unlabelled, source_format, encoding) if unlabelled else None
            progress = progress_bar()
            task = progress.add_task("learning", total=None)
            estimate = _Estimate()

            def told(done: int, total: int) -> None:
                name = "cross-validating" if first.is_there else "learning"
                progress.update(task, completed=done, total=total, description=name)
                estimate(done, total)

            with progress:
                predictor, report = adapt_predictor(
                    partial(Predictor.load, model, device),
                    [*given.sentences, *given.partial],
                    given.labels,
                    descriptions=dict(zip(label or (), description or (), strict=False)),
                    unlabelled=more,
                    keep=keep,
                    keep_sentences=keep_sentences,
                    continued=continued,
                    seed=seed,
                    force=force,
                    on_progress=told,
                    on_model=first.take,
                )
            predictor.save(out)
        except AdaptationRefused:
            first.remove()
            raise
        except KeyboardInterrupt:
            say(f"interrupted; {first.left_behind()}")
            raise
        # After saving: an interrupt now loses the score, but not the model.
        scores = _scores(predictor, tested) if tested else None
    warn(dict.fromkeys((*given.notes, *report.notes, *_shared(given, tested))))
    following = shlex.join(["hardner", "tag", "TEXT", "--model", str(out)])
    if as_json:
        print_json(_record(report, scores, out, following))
    else:
        for line in _lines(report, scores, out, following):
            typer.echo(line)
    if report.left_out:
        raise typer.Exit(SOME_LEFT_OUT)


class _FirstModel:
    """The model that is there before cross-validation, in a folder that is new."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.is_there = False
        self._saved = False

    def take(self, result: "AdaptationResult") -> None:
        """Keep it; a model that was there is replaced only by one that is judged."""
        self.is_there = True
        if not self.out.exists() or not any(self.out.iterdir()):
            result.predictor.save(self.out)
            self._saved = True

    def remove(self) -> None:
        """It would do harm."""
        if self._saved:
            shutil.rmtree(self.out)

    def left_behind(self) -> str:
        """What an interrupt leaves."""
        if self._saved:
            return f"{self.out} holds the model, but which F1 to expect of it is not known"
        return "nothing was written"


def _labelled(
    paths: Sequence[str], labels: Sequence[str] | None, format: str | None, encoding: str | None
) -> "Examples":
    from hardner.adapt.examples import examples, read_labelled

    report = Report()
    held: list[Sentence] = []
    try:
        for path in paths:
            held += read_labelled(path, labels, format=format, encoding=encoding, report=report)
        found = examples(held, labels)
    except FileError:
        raise
    except HardnerError as error:
        raise FileError(", ".join(map(str, map(shown_path, paths))), str(error)) from None
    warn(report.lines())
    return found


def _tested(
    path: str, labels: Sequence[str], format: str | None, encoding: str | None
) -> "Examples":
    """The test sentences, with those of the labels that they have."""
    from hardner.adapt.examples import read_labelled

    sentences = read_labelled(path, labels, format=format, encoding=encoding, report=Report())
    held = {span.label for sentence in sentences for span in sentence.spans}
    wanted = [label for label in labels if label in held] or labels
    return _labelled([path], wanted, format, encoding)


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


def _scores(predictor: "Predictor", tested: "Examples") -> dict[str, "Score"]:
    """Scores by label, and those of all together under an empty one."""
    from hardner.evaluate.score import score

    known = [label for label in tested.labels if label in predictor.labels]
    found = predictor.spans(tested.sentences, labels=known)

    def of(labels: Sequence[str]) -> "Score":
        gold = [[s for s in sentence.spans if s.label in labels] for sentence in tested.sentences]
        return score(gold, [[s for s, _ in spans if s.label in labels] for spans in found])

    return {label: of([label]) for label in tested.labels} | {"": of(tested.labels)}


def _shared(given: "Examples", tested: "Examples | None") -> Iterator[str]:
    if tested is None:
        return
    learnt = {sentence.tokens for sentence in given.sentences}
    both = sum(sentence.tokens in learnt for sentence in tested.sentences)
    if both:
        yield f"{both} of the {len(tested.sentences)} test sentences were learnt from"


def _record(
    report: "AdaptationReport", scores: "dict[str, Score] | None", out: Path, following: str
) -> dict[str, Any]:
    rows = [_row(row, (scores or {}).get(row.label)) for row in report.types]
    only = rows[0] | {"sentences": report.sentences} if len(rows) == 1 else {}
    common = {
        "sentences": report.sentences,
        "mentions": report.mentions,
        "unlabelled": report.unlabelled,
        "test": _tested_as(scores[""]) if scores else None,
        "types": rows,
        "notes": report.notes,
        "seconds": round(report.seconds, 2),
        "model": str(out),
        "next": following,
    }
    return only | common


def _row(row: "TypeReport", tested: "Score | None") -> dict[str, Any]:
    expected = row.expected
    text = expected.on_text if expected else None
    return {
        "label": row.label,
        "outcome": row.outcome,
        "reason": row.reason,
        "sentences": row.sentences,
        "mentions": row.mentions,
        "expected_f1": _rounded(expected.f1) if expected else None,
        "expected_f1_on_text": _rounded(text) if text else None,
        "more_sentences": expected.more if expected else None,
        "expected_gain": _rounded(expected.gain) if expected else None,
        "limit": row.limit,
        "description": row.description,
        "began_with_description": row.began,
        "best_known_label": row.known,
        "test": _tested_as(tested) if tested else None,
    }


def _tested_as(score: "Score") -> dict[str, Any]:
    rates = {"f1": score.f1, "precision": score.precision, "recall": score.recall}
    return {name: round(value, 4) for name, value in rates.items()} | asdict(score)


def _rounded(value: "Interval") -> dict[str, float]:
    return {name: round(number, 4) for name, number in asdict(value).items()}


def _many(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _lines(
    report: "AdaptationReport", scores: "dict[str, Score] | None", out: Path, following: str
) -> Iterator[str]:
    beside = f", beside {report.unlabelled:,} without labels" if report.unlabelled else ""
    given = f"{_many(report.sentences, 'sentence')}, {_many(report.mentions, 'mention')}"
    if len(report.types) == 1:
        (row,) = report.types
        yield f"{row.label}: {given}{beside}"
        yield from (*_began(row), *_expected(row.expected))
    else:
        yield f"{len(report.types)} types: {given}{beside}"
        for row in report.types:
            yield from _type_lines(row)
    for label, score in (scores or {}).items():
        if not label or len(report.types) > 1:
            yield _test_line(f"test F1 of {label}" if label else "test F1", score)
    yield f"model: {out}, after {report.seconds:.1f} s"
    yield f"next: {following}"


def _began(row: "TypeReport") -> Iterator[str]:
    """What the description was good for, if a decoder was made of it."""
    if row.began is not None:
        said = "began with the description" if row.began else "began without the description"
        why = "more" if row.began else "no more"
        yield f"{said}: it says {why} of the sentences than how rare mentions are"


def _test_line(name: str, score: "Score") -> str:
    return f"{name}: {score.f1:.3f} (precision {score.precision:.3f}, recall {score.recall:.3f})"


def _expected(expected: "Forecast | None") -> Iterator[str]:
    from hardner.adapt.forecast import INTERVAL_LEVEL

    if expected is None:
        yield "expected F1: unknown, as too few sentences hold a mention to hold some of them out"
        return
    gain, interval = expected.gain, f"{INTERVAL_LEVEL:.0%} interval"
    kinds = (expected.f1, "sentences like these"), (expected.on_text, "your text as it runs")
    for f1, kind in kinds:
        if f1:
            said = f"{f1.value:.2f} ({interval} {f1.low:.2f} to {f1.high:.2f})"
            yield f"expected F1: {said}, on {kind}"
    yield (
        f"with {expected.more} more sentences: {gain.value:+.2f} "
        f"({interval} {gain.low:+.2f} to {gain.high:+.2f})"
    )


def _type_lines(row: "TypeReport") -> Iterator[str]:
    """The lines about one type of several."""
    held = f"{_many(row.mentions, 'mention')} in {_many(row.sentences, 'sentence')}"
    outcome = {"learnt": "", "kept": "the model's own is kept, ", "left out": "left out, "}
    yield f"{row.label}: {outcome[row.outcome]}{held}"
    if row.outcome == "learnt":
        yield from (f"  {line}" for line in (*_began(row), *_expected(row.expected)))
    if said := row.reason or row.limit:
        yield f"  {said}"
