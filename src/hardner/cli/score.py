"""``hardner score`` and ``hardner compare``: taggers on labelled data of one's own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import plain_table, print_json, progress_bar, say, warn
from hardner.cli.options import (
    DEVICE_OPTION,
    ENCODING_OPTION,
    JSON_OPTION,
    LABELS_OPTION,
    MAP_OPTION,
    MIN_PRECISION_OPTION,
    SOURCE_FORMAT_OPTION,
    THRESHOLD_OPTION,
    chosen_min_score,
    split_labels,
    split_pairs,
)
from hardner.errors import FileError, HardnerError
from hardner.files import shown_path
from hardner.formats import Report, write
from hardner.types import Progress

if TYPE_CHECKING:
    from hardner.evaluate.own_data import GoldData
    from hardner.evaluate.score_report import ComparisonReport, LabelScore, MentionChange
    from hardner.tag.predictor import Predictor

_MODEL_HELP = "Model folder, or `bundled` for the model that comes with hardner."
_LABELLED = Annotated[
    str, Argument(metavar="LABELLED", help="Labelled text in any format; - is stdin.")
]


def score_command(
    model: Annotated[str, Argument(metavar="MODEL", help=_MODEL_HELP)],
    labelled: _LABELLED,
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    labels: LABELS_OPTION = None,
    label_map: MAP_OPTION = None,
    threshold: THRESHOLD_OPTION = None,
    min_precision: MIN_PRECISION_OPTION = None,
    partial: Annotated[
        bool, Option("--partial", help="Also score partial matches, which count half.")
    ] = False,
    count: Annotated[int, Option("-n", min=0, help="Worst sentences to show.")] = 5,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Write the worst sentences as a page.")
    ] = None,
    device: DEVICE_OPTION = "auto",
    as_json: JSON_OPTION = False,
) -> None:
    """Score a model on labelled text of your own.

    A mention is right if its start, end and type are. Intervals hold the score on all such text
    with a probability of 95%: they are the bootstrap's over documents, or over sentences where
    there are fewer than 20 documents. Types that the model or the text does not have are left out
    and named. Use text that the model has not learnt from.

    In the worst sentences, mentions in [brackets] are right and were not found so, those in
    {braces} were found and are wrong.

    Examples:

    - `hardner score device-model examples/devices-test.jsonl`
    - `hardner score device-model brat-folder/ --labels Device --partial --html worst.html -n 50`
    - `hardner score bundled test.tsv --threshold Gene=0.8 --json`
    - `hardner score bundled test.jsonl --map DISEASE=Disease --map SYNDROME=Disease`
    """
    from hardner.evaluate.own_data import find_in
    from hardner.evaluate.score_report import SCORE_LEVEL, score_data

    wanted = split_labels(labels)
    least = chosen_min_score(threshold, min_precision, _folder(model), wanted)
    with _tagging() as on_progress:
        predictor = _loaded(model, device)
        if least is not None:
            predictor = predictor.with_thresholds(least)
        data = _gold(labelled, [predictor], wanted, label_map, source_format, encoding)
        found = find_in(data, predictor, on_progress)
    report = score_data(data, found, partial=partial)
    worst = report.worst(count)
    if html is not None:
        write((own.as_document() for own in worst), html, "html", report=Report())
    if as_json:
        print_json(
            {
                "model": model,
                "labelled": labelled,
                "documents": report.documents,
                "sentences": len(report.sentences),
                "interval": SCORE_LEVEL,
                "unit": report.unit,
                "labels": report.to_records(),
                "errors": report.error_records(),
                "notes": report.notes,
            }
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    # One label needs no row for all of them.
    rows = report.labels if len(report.labels) == 1 else (*report.labels, report.total)
    for table in (_score_table(rows), _error_table(rows)):
        console.print(table)
    for own in worst:
        console.print(Text(f"{own.gold.document}: {own.marked()}"))
    if html is not None:
        say(f"{len(worst)} sentences -> {html}")


def compare_command(
    model: Annotated[str, Argument(metavar="MODEL", help=_MODEL_HELP)],
    other: Annotated[str, Argument(metavar="OTHER", help="The same of the model to compare.")],
    labelled: _LABELLED,
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    labels: LABELS_OPTION = None,
    label_map: MAP_OPTION = None,
    count: Annotated[int, Option("-n", min=0, help="Changes of each kind to show.")] = 3,
    device: DEVICE_OPTION = "auto",
    as_json: JSON_OPTION = False,
) -> None:
    """Compare two models on labelled text: which is better, how surely, and what has changed.

    The difference is OTHER's F1 less MODEL's, with a 95% bootstrap interval. p is that of a paired
    permutation test, corrected (Holm) for the number of types: how often chance alone would bring
    such a difference.

    Examples:

    - `hardner compare device-model better-model examples/devices-test.jsonl`
    - `hardner compare bundled my-model test.tsv --labels Gene,Disease --json`
    """
    from hardner.evaluate.own_data import find_in
    from hardner.evaluate.score_report import SCORE_LEVEL, compare_data

    with _tagging() as on_progress:
        both = [_loaded(one, device) for one in (model, other)]
        data = _gold(labelled, both, split_labels(labels), label_map, source_format, encoding)
        found = [find_in(data, one, on_progress) for one in both]
    report = compare_data(data, *found)
    if as_json:
        print_json(
            {
                "models": [model, other],
                "labelled": labelled,
                "documents": report.documents,
                "sentences": report.sentences,
                "interval": SCORE_LEVEL,
                "unit": report.unit,
                "labels": report.to_records(),
                "changes": report.change_records(),
                "notes": report.notes,
            }
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(_comparison_table(report))
    for kind, own in groupby(sorted(report.changes, key=_kind), key=_kind):
        changes = list(own)
        console.print(f"{kind}: {len(changes):,}")
        for change in changes[:count]:
            console.print(Text(f"  {change.text} ({change.span.label}): {change.gold.text}"))


@contextmanager
def _tagging() -> Iterator[Progress]:
    """A bar for sentences that are tagged."""
    progress = progress_bar()
    task = progress.add_task("tagging", total=None)
    with progress:
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _folder(model: str) -> Path | None:
    return None if model == "bundled" else Path(model)


def _loaded(model: str, device: str) -> "Predictor":
    from hardner.tag.predictor import Predictor

    return Predictor.load(_folder(model), device)


def _gold(
    labelled: str,
    models: "Sequence[Predictor]",
    labels: Sequence[str] | None,
    pairs: Sequence[str] | None,
    format: str | None,
    encoding: str | None,
) -> "GoldData":
    from hardner.evaluate.own_data import read_gold

    report, names = Report(), split_pairs(pairs or (), "ITS=OURS")
    read = {"format": format, "encoding": encoding}
    try:
        data = read_gold(labelled, models, labels, label_map=names, report=report, **read)
    except FileError:
        raise
    except HardnerError as error:
        raise FileError(shown_path(labelled), str(error)) from None
    warn(data.notes)
    return data


def _score_table(rows: "Sequence[LabelScore]") -> Table:
    names = ("mentions", "precision", "recall", "F1")
    table = plain_table("label", *names, right=names)
    for row in rows:
        rates = [f"{r.value:.3f} ({r.low:.2f}-{r.high:.2f})" for r in row.rates]
        score = row.counts.score
        table.add_row(Text(row.label), f"{score.tp + score.fn:,}", *rates)
    return table


def _error_table(rows: "Sequence[LabelScore]") -> Table:
    names = ("right", "boundary", "type", "missed", "spurious")
    partial = ("partial F1",) if rows[0].partial else ()
    table = plain_table("label", *names, *partial, right=(*names, *partial))
    for row in rows:
        counts = row.counts
        # A boundary that is wrong is seen from both sides, as a rule.
        boundary = max(counts.fn_boundary, counts.fp_boundary)
        kind = max(counts.fn_type, counts.fp_type)
        numbers = (counts.tp, boundary, kind, counts.missed, counts.spurious)
        lenient = [f"{row.partial.f1:.3f}"] if row.partial else []
        table.add_row(Text(row.label), *(f"{number:,}" for number in numbers), *lenient)
    return table


def _comparison_table(report: "ComparisonReport") -> Table:
    names = ("F1 before", "F1 after", "difference", "p")
    table = plain_table("label", *names, right=names)
    for row in (*report.labels, report.total) if len(report.labels) > 1 else report.labels:
        apart = row.difference
        difference = f"{apart.value:+.3f} ({apart.low:+.2f} to {apart.high:+.2f})"
        f1 = f"{row.before.f1:.3f}", f"{row.after.f1:.3f}"
        table.add_row(Text(row.label), *f1, difference, f"{row.p:.4f}")
    return table


def _kind(change: "MentionChange") -> str:
    return change.kind
