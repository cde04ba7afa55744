"""``hardner table`` and ``hardner plot``: results as tables and figures."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from hardner.cli.common import stderr

_FILES = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Results of `hardner evaluate`.")
]
_ROWS = Annotated[
    list[str] | None,
    typer.Option("--row", help="A row to show, by its name in `hardner table`; again for more."),
]


def table_command(
    files: _FILES,
    metric: Annotated[
        Literal["f1", "precision", "recall", "all"], typer.Option(help="What to show.")
    ] = "f1",
    shape: Annotated[
        Literal["text", "md", "csv", "latex"], typer.Option("--format", help="How to show it.")
    ] = "text",
    baseline: Annotated[
        str, typer.Option(help="The row to compare the others with; * marks what differs.")
    ] = "",
    rows: _ROWS = None,
) -> None:
    """Show results as the papers do: a row a method, a column a corpus, a table a size.

    Under each row of ours are the published values, where there are any, and the difference. What
    was not run says so. CSV has a line a cell, with intervals, effect sizes and p values.

    Examples:

    - `hardner table results/few_shot.jsonl --baseline MetaNER`
    - `hardner table results/few_shot.jsonl --metric recall --format md`
    - `hardner table results/few_shot.jsonl --metric all`
    - `hardner table results/few_shot.jsonl --row HGDA --row "MetaNER (bilstm, best)"`
    - `hardner table results/few_shot.jsonl more/few_shot.jsonl --format csv`
    """
    from hardner.evaluate.render import METRIC_NAMES, RENDERERS
    from hardner.evaluate.results import load_results
    from hardner.evaluate.table import build_tables, select_rows

    results = select_rows(load_results(files), rows or [])
    metrics = METRIC_NAMES if metric == "all" else [metric]
    tables = [table for name in metrics for table in build_tables(results, name, baseline)]
    typer.echo(RENDERERS[shape](tables), nl=False)


def plot_command(
    kind: Annotated[
        Literal["shots", "ratios", "errors"],
        typer.Argument(help="F1 against shots, against shares of the data, or kinds of errors."),
    ],
    files: _FILES,
    out: Annotated[
        Path, typer.Option(help="An .svg or .png file; without an ending, both are written.")
    ] = Path("figure"),
    rows: _ROWS = None,
) -> None:
    """Draw results. How hardness went over a run is drawn by `hardner hardness --plot`.

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
        stderr.print(str(path), markup=False)
