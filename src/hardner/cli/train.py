"""``hardner train``: an experiment to its end; ``hardner experiments``: those that have a name."""

import json
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hardner.cli.common import RunBar, interruptible, stderr, warnings_on_stderr
from hardner.cli.corpora import CATALOGUE_OPTION
from hardner.errors import HardnerError

PLUGIN_OPTION = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="Run this file first, which may define a method. Only run files that you trust.",
    ),
]
TRAIN_CONTEXT = {"ignore_unknown_options": True}
"""What the command line needs to pass dotted keys on to `train_command`."""


def train_command(
    context: typer.Context,
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT",
            help="A name that `hardner experiments` lists, or a TOML file; any of its keys can be "
            "set as in --inner.steps 3.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder; by default runs/ and the experiment's name."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print all keys with their values, and exit.")
    ] = False,
    catalogue: CATALOGUE_OPTION = "",
    plugin: PLUGIN_OPTION = None,
) -> None:
    """Train a tagger as an experiment says.

    The run's folder gets the best model on the source devel data, a log and a state. The same
    command goes on from the state, whatever ended the last one; Ctrl-C saves one at once.

    Examples:

    - `hardner train hgda/disease`
    - `hardner train hgda/disease --train.shots 20 --out runs/hgda-disease-20`
    - `hardner train maml/gene --inner.meta_gradient=exact --inner.steps 3`
    - `hardner train hgda/disease --show > mine.toml`
    - `hardner train mine.toml`
    - `hardner train mine.toml --plugin my_method.py`
    - `torchrun --nproc-per-node 8 -m hardner train hgda/disease`
    """
    from hardner.config import merged, toml
    from hardner.jobs.run_folder import MODEL_FOLDER
    from hardner.meta.distributed import join_ranks
    from hardner.meta.experiments import load_experiment, run_name
    from hardner.meta.methods import load_plugins
    from hardner.meta.run import run_experiment
    from hardner.model.runtime import resolve_device

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
            raise typer.Exit(0 if followed.finished else 130)
        with warnings_on_stderr(), board.bar:
            standing = run_experiment(experiment, folder, board, stop, board.reading, ranks)
    done = f"{standing.iteration:,} of {iterations:,} iterations"
    if not standing.finished:
        again = "the same command" if ranks.joined else shlex.join(["hardner", *sys.argv[1:]])
        stderr.print(f"stopped after {done}; to go on: {again}", markup=False)
        raise typer.Exit(130)
    best = f", devel loss {standing.best:.4f} after {standing.best_at:,}" if standing.best else ""
    stderr.print(
        f"{folder / MODEL_FOLDER}: {done}{best}; next: hardner hardness {shlex.quote(str(folder))}",
        markup=False,
    )


def experiments_command(
    pattern: Annotated[
        str, typer.Argument(help="Only names that hold this; * stands for any letters.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """List the experiments that `hardner train` and `hardner evaluate` know by name.

    Examples:

    - `hardner experiments`
    - `hardner experiments heterogeneous`
    - `hardner experiments "hgda*/disease" --json`
    """
    from fnmatch import fnmatchcase

    from hardner.meta.experiments import experiment_tables, load_experiment

    names = [name for name in experiment_tables() if fnmatchcase(name, f"*{pattern}*")]
    if not names:
        raise HardnerError(f"no experiment's name holds {pattern!r}")
    found = {name: load_experiment(name) for name in names}
    if as_json:
        rows = [{"name": name, **e.table()} for name, e in found.items()]
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    table = Table("name", "method", "preset", "encoder", "left out", box=None, pad_edge=False)
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
