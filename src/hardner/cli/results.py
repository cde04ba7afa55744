"""What runs came to: ``hardner table``, ``plot``, ``errors`` and ``hardness``."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import plain_table, print_json, say
from hardner.cli.options import (
    CATALOGUE_OPTION,
    JSON_OPTION,
    PLUGIN_OPTION,
    PRESET_OPTION,
    ROOT_OPTION,
)
from hardner.errors import HardnerError

if TYPE_CHECKING:
    from hardner.evaluate.errors import Mistake, PredictedSentence
    from hardner.meta.hardness import TaskHardness


_FILES = Annotated[
    list[Path], Argument(metavar="FILE...", help="Result files of `hardner evaluate`.")
]
_ROWS = Annotated[
    list[str] | None, Option("--row", metavar="NAME", help="Show only this row; may be repeated.")
]


def table_command(
    files: Annotated[
        list[str] | None,
        Argument(
            metavar="[FILE|TABLE]...",
            help="Result files, or tables of the papers, such as hgda/3; none: list the latter.",
        ),
    ] = None,
    metric: Annotated[
        Literal["f1", "precision", "recall", "all"], Option(help="Which score.")
    ] = "f1",
    shape: Annotated[
        Literal["text", "md", "csv", "latex"], Option("--format", help="Output format.")
    ] = "text",
    baseline: Annotated[
        str,
        Option(
            metavar="NAME", help="Test every row against this one; * marks significant differences."
        ),
    ] = "",
    rows: _ROWS = None,
    results_folder: Annotated[
        Path, Option("--results", metavar="DIR", help="Of a paper's table: the folder of results.")
    ] = Path("results"),
) -> None:
    """Show results as in the papers: one row per method, one column per corpus, one table per size.

    Published values, where there are any, and the difference stand under a row. Cells that were not
    run say so. CSV has one line per cell, with confidence intervals, effect sizes and p values.

    A table of a paper is named by the paper and its number: `hgda/3`.

    Examples:

    - `hardner table`
    - `hardner table hgda/3 multigranularity/4`
    - `hardner table results/few_shot.jsonl --baseline MetaNER`
    - `hardner table results/few_shot.jsonl --metric recall --format md`
    - `hardner table results/few_shot.jsonl --metric all`
    - `hardner table results/few_shot.jsonl --row HGDA --row "MetaNER (bilstm, best)"`
    - `hardner table results/few_shot.jsonl more/few_shot.jsonl --format csv`
    """
    from hardner.evaluate.papers import paper_grids, paper_tables
    from hardner.evaluate.render import GRID_RENDERERS, METRIC_NAMES, RENDERERS
    from hardner.evaluate.results import load_results
    from hardner.evaluate.table import build_tables, select_rows
    from hardner.evaluate.trainings import read_trainings

    if not files:
        for name, paper in paper_tables().items():
            typer.echo(f"{name:20} {paper.title}")
        return
    named = [paper_tables()[name] for name in files if name in paper_tables()]
    if named:
        if len(named) < len(files) or shape == "csv" or baseline or rows:
            raise HardnerError("a table of a paper is shown by itself, as text, md or latex")
        grids = (grid for paper in named for grid in paper_grids(paper, results_folder))
        typer.echo("\n".join(map(GRID_RENDERERS[shape], grids)), nl=False)
        return
    results, trainings = select_rows(load_results(files), rows or []), read_trainings(files)
    metrics = METRIC_NAMES if metric == "all" else [metric]
    tables = [
        table for name in metrics for table in build_tables(results, name, baseline, trainings)
    ]
    typer.echo(RENDERERS[shape](tables), nl=False)


def plot_command(
    kind: Annotated[
        Literal["shots", "ratios", "errors"],
        Argument(
            metavar="shots|ratios|errors",
            help="F1 by number of sentences, F1 by share of the data, or errors by kind.",
        ),
    ],
    files: _FILES,
    out: Annotated[
        Path, Option(metavar="FILE", help=".svg, .png, or both without an ending.")
    ] = Path("figure"),
    rows: _ROWS = None,
) -> None:
    """Draw results as figures.

    Hardness over a training run is drawn by `hardner hardness --plot`.

    Examples:

    - `hardner plot shots results/few_shot.jsonl --row hardner --row HGDA --out results/shots`
    - `hardner plot ratios results/ratios.jsonl --out ratios.svg`
    - `hardner plot errors results/few_shot.jsonl --out errors.png`
    """
    from hardner.evaluate.plots import FIGURES, write_figure
    from hardner.evaluate.results import load_results
    from hardner.evaluate.table import select_rows

    results = select_rows(load_results(files), rows or [])
    for path in write_figure(lambda: FIGURES[kind](results), out):
        say(str(path))


def errors_command(
    sources: Annotated[
        list[Path],
        Argument(
            metavar="MODEL_OR_RUN | PREDICTIONS...",
            help="A model, or files of `hardner evaluate --predictions`.",
        ),
    ],
    corpus: Annotated[str, Option(help="Corpus to test a model on.")] = "",
    root: ROOT_OPTION = None,
    catalogue: CATALOGUE_OPTION = "",
    shots: Annotated[int, Option(min=0, help="Adapt to so many sentences first; 0: do not.")] = 0,
    sample: Annotated[int, Option(min=0, help="Which sample to adapt to, from 0.")] = 0,
    preset: PRESET_OPTION = "",
    count: Annotated[int, Option("-n", min=1, help="Errors to show of each kind.")] = 10,
    partial: Annotated[
        bool, Option("--partial", help="Also score partial and type matches.")
    ] = False,
    as_json: JSON_OPTION = False,
) -> None:
    """List the commonest boundary, type, missed and spurious errors.

    In the context, gold mentions are in [brackets] and predicted ones in {braces}.

    Examples:

    - `hardner errors results/predictions/few_shot_HGDA_bilstm_paper_S800_20_*`
    - `hardner errors runs/hgda-species --corpus S800 --shots 20 --root ../shared/corpora`
    - `hardner errors runs/hgda-species --corpus S800 --shots 20 -n 3 --partial --json`
    """
    from hardner.evaluate.errors import find_mistakes, read_predictions
    from hardner.evaluate.score import ErrorCounts, count_errors, lenient_scores

    if any(path.is_dir() for path in sources):
        if len(sources) > 1 or not corpus:
            raise HardnerError("give one model and its --corpus, or files of predictions alone")
        held = _predicted(sources[0], corpus, root, catalogue, shots, sample, preset)
    else:
        held = [found for path in sources for found in read_predictions(path)]
    gold, predicted = [p.sentence.spans for p in held], [p.found for p in held]
    total = sum(count_errors(gold, predicted).values(), ErrorCounts())
    lenient = lenient_scores(gold, predicted) if partial else {}
    wrong = find_mistakes(held)
    if as_json:
        print_json(
            {
                "counts": asdict(total),
                "f1": total.score.f1,
                "lenient": {name: ratios._asdict() for name, ratios in lenient.items()},
                "mistakes": [asdict(m) for m in wrong],
            }
        )
        return
    score = total.score
    console = Console(highlight=False)
    console.print(
        f"precision {score.precision:.3f}, recall {score.recall:.3f}, F1 {score.f1:.3f}: "
        f"{score.tp:,} right, {score.fp:,} wrong, {score.fn:,} not found"
    )
    for name, ratios in lenient.items():
        console.print(f"{name}: " + ", ".join(f"{k} {v:.3f}" for k, v in ratios._asdict().items()))
    console.print(_mistakes_table(wrong, count))


def _predicted(
    path: Path, name: str, root: Path | None, catalogue: str, shots: int, sample: int, preset: str
) -> "list[PredictedSentence]":
    """What a model says of a corpus, as it is or fitted to a sample."""
    from hardner.corpora import Corpora
    from hardner.evaluate.errors import PredictedSentence
    from hardner.evaluate.protocols import PROTOCOLS, draw_sample
    from hardner.evaluate.runners import fitted_runner, unchanged_runner
    from hardner.evaluate.system import system_of_folder
    from hardner.model.layers import resolve_device

    system = system_of_folder(
        path, PROTOCOLS["few_shot"], preset=preset, device=resolve_device("auto")
    )
    corpus = Corpora.under(root or system.root, catalogue or system.catalogue).load(name)
    if shots:
        drawn = {sample: {name: draw_sample(name, corpus.train, shots, sample)}}
        runner = fitted_runner(system, corpus, corpus.train, predictions=True)
    else:
        drawn = {sample: {name: ()}}
        runner = unchanged_runner(system, corpus, predictions=True)
    (scored,) = runner(shots, drawn)
    return [
        PredictedSentence(*pair) for pair in zip(corpus.test, scored.predictions[0], strict=True)
    ]


def _mistakes_table(wrong: "Sequence[Mistake]", count: int) -> Table:
    from hardner.evaluate.errors import ERROR_KINDS

    table = plain_table("kind", "times", "right", "found", "first seen")
    for kind in ERROR_KINDS:
        own = [m for m in wrong if m.kind == kind]
        for place, m in enumerate(own[:count]):
            named = [f"{pair[0]} ({pair[1]})" if pair else "" for pair in (m.right, m.found)]
            cells = [Text(cell) for cell in (*named, m.context)]
            table.add_row("" if place else kind, str(m.count), *cells)
        if len(own) > count:
            table.add_row("", "", Text(f"and {len(own) - count:,} more"), "", "")
    return table


def _check_numbers(text: str | None) -> str | None:
    if text is not None and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter(f"{text!r} is not a list such as 0,100,5000.")
    return text


def hardness_command(
    run: Annotated[Path, Argument(metavar="RUN", help="Folder of a training run.")],
    iterations: Annotated[
        str | None,
        Option(callback=_check_numbers, help="As 0,100; default: the first, middle and last."),
    ] = None,
    count: Annotated[int, Option("-n", min=1, help="Tasks to show of each end.")] = 3,
    sentences: Annotated[int, Option(min=1, help="Sentences to show of each task.")] = 4,
    plot: Annotated[
        Path | None, Option(help="Draw each domain's weight over the run: .svg, .png, or both.")
    ] = None,
    as_json: JSON_OPTION = False,
    plugin: PLUGIN_OPTION = None,
) -> None:
    """Show the hardest and easiest tasks of a training run.

    A task's weight is its share of the loss of all tasks in its iteration (HGDA, Eq. 2). A method
    that weighs tasks alike has hardness too, computed from its losses. In the sentences, entities
    are in [brackets].

    Examples:

    - `hardner hardness runs/hgda-disease`
    - `hardner hardness runs/hgda-disease --iterations 1,450 -n 2 --plot hardness.svg`
    - `hardner hardness runs/hgda-disease --json`
    """
    from hardner.evaluate.plots import plot_hardness, write_figure
    from hardner.meta.hardness import Hardness, bracketed, hardest_tasks
    from hardner.meta.methods import load_plugins

    load_plugins(plugin)
    found = Hardness.of(run)
    last = len(found.weights) - 1
    chosen = [int(part) for part in iterations.split(",")] if iterations else [0, last // 2, last]
    ranked = hardest_tasks(run, found, list(dict.fromkeys(chosen)))
    curves, per_iteration = found.curves(), len(found.weights[0])
    figures = write_figure(lambda: plot_hardness(curves, per_iteration), plot) if plot else []
    if as_json:
        tasks = [task for ranks in ranked.values() for task in ranks]
        print_json(
            {
                "used": found.used,
                "tasks": [
                    {**vars(task), "sentences": [bracketed(s) for s in task.sentences]}
                    for task in tasks
                ],
                "domains": {
                    c.domain: {"iterations": c.iterations, "weights": c.weights} for c in curves
                },
            }
        )
    else:
        Console(highlight=False).print(_hardness_table(ranked, count, sentences))
        if not found.used:
            say("this run weighed all tasks alike; hardness is from its losses")
    for path in figures:
        say(f"{path}: the weight of each domain over {last + 1:,} iterations")


def _hardness_table(ranked: "dict[int, list[TaskHardness]]", count: int, sentences: int) -> Table:
    from hardner.meta.hardness import bracketed

    table = plain_table("iteration", "weight", "domain", "sentences")
    for iteration, tasks in ranked.items():
        ends = tasks if len(tasks) <= 2 * count else [*tasks[:count], *tasks[-count:]]
        for place, task in enumerate(ends):
            if place == count < len(ends) < len(tasks):
                table.add_row("", "…", "", "")
            shown = [bracketed(sentence) for sentence in task.sentences[:sentences]]
            more = len(task.sentences) - len(shown)
            text = Text("\n".join([*shown, *([f"and {more} more"] if more else [])]))
            name = f"{iteration:,}" if not place else ""
            table.add_row(name, f"{task.weight:.3f}", Text(task.domain), text)
    return table
