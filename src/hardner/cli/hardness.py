"""``hardner hardness``: the hardest and easiest tasks of a run, as in the papers' tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from hardner.cli.common import plain_table, print_json, say
from hardner.cli.options import JSON_OPTION, PLUGIN_OPTION

if TYPE_CHECKING:
    from hardner.meta.hardness import TaskHardness


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
        Console(highlight=False).print(_table(ranked, count, sentences))
        if not found.used:
            say("this run weighed all tasks alike; hardness is from its losses")
    for path in figures:
        say(f"{path}: the weight of each domain over {last + 1:,} iterations")


def _table(ranked: "dict[int, list[TaskHardness]]", count: int, sentences: int) -> Table:
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
