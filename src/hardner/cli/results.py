"""``hardner table`` and ``hardner plot``: results as tables and figures."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from hardner.cli.common import say
from hardner.errors import HardnerError

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
