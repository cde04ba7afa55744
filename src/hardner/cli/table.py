"""``hardner table``: results as a table beside the published figures."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class MetricChoice(StrEnum):
    f1 = "f1"
    precision = "precision"
    recall = "recall"


class TableFormat(StrEnum):
    text = "text"
    md = "md"
    csv = "csv"
    latex = "latex"


def table_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of `hardner evaluate`.")
    ],
    metric: Annotated[MetricChoice, typer.Option(help="What to show.")] = MetricChoice.f1,
    shape: Annotated[
        TableFormat, typer.Option("--format", help="How to show it.")
    ] = TableFormat.text,
    baseline: Annotated[
        str, typer.Option(help="The row to compare the others with; * marks what differs.")
    ] = "",
    row: Annotated[
        list[str] | None, typer.Option(help="A row to show, by its name; again for more.")
    ] = None,
) -> None:
    """Show results as the papers do: a row a method, a column a corpus, a table a size.

    Under each row of ours are the published values, where there are any, and the difference. What
    was not run says so. CSV has a line a cell, with intervals, effect sizes and p values.

    Examples:

    - `hardner table results/few_shot.jsonl --baseline MetaNER`
    - `hardner table results/few_shot.jsonl --metric recall --format md`
    - `hardner table results/few_shot.jsonl --row HGDA --row "MetaNER (bilstm, best)"`
    - `hardner table results/few_shot.jsonl more/few_shot.jsonl --format csv`
    """
    from hardner.evaluate.render import RENDERERS
    from hardner.evaluate.results import gather_results
    from hardner.evaluate.table import build_tables, of_rows

    tables = build_tables(of_rows(gather_results(files), row or []), metric.value, baseline)
    typer.echo(RENDERERS[shape.value](tables), nl=False)
