"""``hardner train``: an experiment to its end; ``hardner experiments``: those that have a name."""

import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from hardner.cli.common import (
    RunBar,
    interruptible,
    plain_table,
    print_json,
    say,
    warnings_on_stderr,
)
from hardner.cli.options import CATALOGUE_OPTION, JSON_OPTION, PLUGIN_OPTION
from hardner.errors import HardnerError

TRAIN_CONTEXT = {"ignore_unknown_options": True}
"""What the command line needs to pass dotted keys on to `train_command`."""


def train_command(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        Argument(
            metavar="EXPERIMENT",
            help="A name that `hardner experiments` lists, or a TOML file. Any of its keys can be "
            "set as an option: --inner.steps 3.",
        ),
    ],
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Folder of the run; default: runs/ and the name.")
    ] = None,
    show: Annotated[
        bool, Option("--show", help="Print all keys with their values, and exit.")
    ] = False,
    catalogue: CATALOGUE_OPTION = "",
    plugin: PLUGIN_OPTION = None,
) -> None:
    """Train a tagger as an experiment describes.

    The run's folder gets the best model on the sources' devel data, a log, and a state from which
    the same command goes on after any interruption. Ctrl-C saves the state first.

    Examples:

    - `hardner train hgda/disease`
    - `hardner train hgda/disease --train.shots 20 --out runs/hgda-disease-20`
    - `hardner train hgda/disease --show > mine.toml`
    - `hardner train mine.toml --plugin my_method.py`
    - `torchrun --nproc-per-node 8 -m hardner train hgda/disease`
    """
    from hardner.config import merged, toml
    from hardner.jobs import MODEL_FOLDER
    from hardner.meta.distributed import join_ranks
    from hardner.meta.experiment import load_experiment, run_name
    from hardner.meta.methods import load_plugins
    from hardner.meta.run import run_experiment
    from hardner.model.layers import resolve_device

    load_plugins(plugin)
    name, overrides = _parsed(context, arguments)
    if catalogue:
        overrides = merged(overrides, {"data": {"catalogue": catalogue}})
    experiment = load_experiment(name, overrides)
    if show:
        typer.echo(toml(experiment.table()), nl=False)
        return
    folder = out or Path("runs", run_name(name))
    iterations = experiment.train.iterations
    board = RunBar()
    with interruptible() as stop, join_ranks(resolve_device(experiment.device)) as ranks:
        if not ranks.leads:
            with warnings.catch_warnings(action="ignore"):
                followed = run_experiment(experiment, folder, stop=stop, ranks=ranks)
            if not followed.finished:
                raise KeyboardInterrupt
            return
        with warnings_on_stderr(), board.bar:
            standing = run_experiment(experiment, folder, board, stop, board.reading, ranks)
    done = f"{standing.iteration:,} of {iterations:,} iterations"
    if not standing.finished:
        again = "the same command" if ranks.joined else shlex.join(["hardner", *sys.argv[1:]])
        say(f"stopped after {done}; to go on: {again}")
        raise KeyboardInterrupt
    best = f", devel loss {standing.best:.4f} after {standing.best_at:,}" if standing.best else ""
    model, run = folder / MODEL_FOLDER, shlex.quote(str(folder))
    say(f"{model}: {done}{best}; next: hardner hardness {run}")


def experiments_command(
    pattern: Annotated[
        str, Argument(metavar="[PATTERN]", help="Part of a name; * stands for anything.")
    ] = "",
    as_json: JSON_OPTION = False,
) -> None:
    """List the experiments that `hardner train` and `hardner evaluate` know by name.

    Examples:

    - `hardner experiments`
    - `hardner experiments heterogeneous`
    - `hardner experiments "hgda*/disease" --json`
    """
    from fnmatch import fnmatchcase

    from hardner.meta.experiment import experiment_tables, load_experiment

    names = [name for name in experiment_tables() if fnmatchcase(name, f"*{pattern}*")]
    if not names:
        raise HardnerError(f"no experiment's name holds {pattern!r}")
    found = {name: load_experiment(name) for name in names}
    if as_json:
        print_json([{"name": name, **e.table()} for name, e in found.items()])
        return
    table = plain_table("name", "method", "preset", "encoder", "left out")
    for name, e in found.items():
        table.add_row(name, e.method, e.preset, e.encoder.kind, e.target)
    Console().print(table)


def _parsed(context: typer.Context, arguments: Sequence[str]) -> tuple[str, dict[str, object]]:
    """The experiment's name, and what the dotted options say."""
    from hardner.config import merged, parse_key
    from hardner.meta.experiment import Experiment

    names: list[str] = []
    overrides: dict[str, object] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            names.append(word)
            continue
        key, given, value = word.lstrip("-").partition("=")
        text = value if given else next(words, "")
        try:
            overrides = merged(overrides, parse_key(Experiment, key, text))
        except HardnerError as error:
            context.fail(str(error))
    if len(names) != 1:
        context.fail(f"Expected one experiment, got {', '.join(names) or 'none'}.")
    return names[0], overrides
