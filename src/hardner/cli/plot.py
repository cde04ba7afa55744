"""``hardner plot``: figures of results."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hardner.cli.terminal import stderr


class Kind(StrEnum):
    shots = "shots"
    ratios = "ratios"
    errors = "errors"


def plot(
    kind: Annotated[
        Kind,
        typer.Argument(help="F1 against shots, against shares of the data, or kinds of errors."),
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results of `hardner evaluate`.")
    ],
    out: Annotated[
        Path, typer.Option(help="An .svg or .png file; without an ending, both are written.")
    ] = Path("figure"),
) -> None:
    """Draw results. How hardness went over a run is drawn by `hardner hardness --plot`.

    Examples:

    - `hardner plot shots results/few_shot.jsonl --out results/shots`
    - `hardner plot ratios results/ratios.jsonl --out ratios.svg`
    - `hardner plot errors results/few_shot.jsonl --out errors.png`
    """
    from hardner.evaluate.plots import save
    from hardner.evaluate.results import gather

    for path in save(kind.value, gather(files), out):
        stderr.print(str(path), markup=False)
