"""The experiments that have a name, as ``experiments.toml`` describes them."""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hardner.config import ConfigTable, merged
from hardner.errors import HardnerError
from hardner.meta.experiment import Experiment, experiment, read_experiment


@cache
def experiment_tables() -> Mapping[str, ConfigTable]:
    """What each named experiment sets."""
    text = files("hardner.meta").joinpath("experiments.toml").read_text("utf-8")
    table = tomllib.loads(text)
    methods, settings, cells = table["methods"], table["settings"], table["cells"]
    made = {}
    for method in methods:
        values = _section(methods, method)
        for setting in methods[method].get("settings", [""]):  # without any: METHOD alone
            name = f"{method}/{setting}" if setting else method
            over = merged(_section(settings, setting) if setting else {}, cells.get(name, {}))
            made[name] = merged(values, over)
    return made


def _section(sections: Mapping[str, ConfigTable], name: str) -> ConfigTable:
    """A section's values over those of the section that it extends."""
    own = dict(sections[name])
    own.pop("settings", None)
    base = own.pop("extends", None)
    return merged(_section(sections, base), own) if base else own


def load_experiment(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of that name, or of that TOML or JSON file."""
    path, tables = Path(name), experiment_tables()
    if path.as_posix() in tables:
        return experiment(tables[path.as_posix()], overrides)
    if path.suffix in (".toml", ".json") or path.is_file():
        return read_experiment(path, overrides)
    near = ", ".join(get_close_matches(path.as_posix(), tables, 3, cutoff=0.0))
    raise HardnerError(
        f"{name}: no such file or folder, and no experiment has that name; the nearest are {near} "
        "(see hardner experiments)"
    )


def run_name(name: str | Path) -> str:
    """What an experiment's run is called by default."""
    path = Path(name)
    named = path.as_posix() in experiment_tables()
    return path.as_posix().replace("/", "-") if named else path.stem
