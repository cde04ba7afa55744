"""``hardner hardness``: the hardest and easiest tasks of a run, as in the papers' tables."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hardner.cli.common import stderr
from hardner.cli.train import PLUGIN_OPTION

if TYPE_CHECKING:
    from hardner.meta.hardness import TaskHardness


def _check_numbers(text: str | None) -> str | None:
    if text is not None and not all(part.strip().isdecimal() for part in text.split(",")):
        raise typer.BadParameter(f"{text!r} is not a list such as 0,100,5000.")
    return text


def hardness_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    iterations: Annotated[
        str | None,
        typer.Option(
            callback=_check_numbers,
            help="Iterations to show, as 0,100; by default the first, middle and last.",
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("-n", min=1, help="Tasks to show of the hardest and of the easiest.")
    ] = 3,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences to show of a task.")] = 4,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw each domain's weight over the run (.svg, .png or both)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    plugin: PLUGIN_OPTION = None,
) -> None:
    """Show the hardest and easiest tasks of a run with their sentences, entities in brackets.

    A task's weight is its share of the loss of its iteration's tasks (HGDA, Eq. 2). Runs that
    weighed all tasks alike are shown as if they had not.

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
        record = {
            "used": found.used,
            "tasks": [
                {**vars(task), "sentences": [bracketed(s) for s in task.sentences]}
                for task in tasks
            ],
            "domains": {
                c.domain: {"iterations": c.iterations, "weights": c.weights} for c in curves
            },
        }
        typer.echo(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        Console(highlight=False).print(_table(ranked, count, sentences))
        if not found.used:
            stderr.print("this run weighed all tasks alike; hardness is from its losses")
    for path in figures:
        stderr.print(f"{path}: the weight of each domain over {last + 1:,} iterations")


def _table(ranked: "dict[int, list[TaskHardness]]", count: int, sentences: int) -> Table:
    from hardner.meta.hardness import bracketed

    table = Table("iteration", "weight", "domain", "sentences", box=None, pad_edge=False)
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
