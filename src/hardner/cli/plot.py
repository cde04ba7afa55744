"""``hardner plot``: figures of results."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hardner.cli.common import stderr
from hardner.errors import HardnerError


class FigureKind(StrEnum):
    shots = "shots"
    ratios = "ratios"
    errors = "errors"
    curves = "curves"
    pairs = "pairs"
    tasks = "tasks"


def plot_command(
    kind: Annotated[
        FigureKind,
        typer.Argument(
            help="F1 against shots, against shares of the data, or kinds of errors; of `hardner "
            "curves`, F1 over a training, which task helps which, or the map of the tasks."
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Of `hardner evaluate` or `hardner curves`."),
    ],
    out: Annotated[
        Path, typer.Option(help="An .svg or .png file; without an ending, both are written.")
    ] = Path("figure"),
    row: Annotated[
        list[str] | None,
        typer.Option(help="A row to draw, by its name in `hardner table`; again for more."),
    ] = None,
) -> None:
    """Draw results. How hardness went over a run is drawn by `hardner hardness --plot`.

    Examples:

    - `hardner plot shots results/few_shot.jsonl --row hardner --row HGDA --out results/shots`
    - `hardner plot ratios results/ratios.jsonl --out ratios.svg`
    - `hardner plot errors results/few_shot.jsonl --out errors.png`
    - `hardner plot curves results/curves.jsonl --out results/curves`
    - `hardner plot pairs results/curves.jsonl --out results/pairs`
    - `hardner plot tasks results/task_space.jsonl --out results/tasks`
    """
    from hardner.evaluate import curve_plots, plots
    from hardner.evaluate.results import gather_results
    from hardner.evaluate.table import of_rows

    if kind.value in curve_plots.FIGURES:
        if row:
            raise HardnerError(f"--row is for results of `hardner evaluate`; {kind.value} has none")
        written = curve_plots.save(kind.value, files, out)
    else:
        written = plots.save_figure(kind.value, of_rows(gather_results(files), row or []), out)
    for path in written:
        stderr.print(str(path), markup=False)
