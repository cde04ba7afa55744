"""Where experiments come from: a name of two tables or a file, with a preset beneath."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from hardner.config import ConfigTable, make, merged
from hardner.errors import FileError, HardnerError
from hardner.files import read_json, read_toml
from hardner.meta.experiment import EncoderSection, Experiment
from hardner.renamed import with_new_names


def experiment(table: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The preset's values, with those of a table and then the overrides on top."""
    given = with_new_names(merged(table, overrides or {}))
    presets = training_presets()
    layers = presets.get(str(given.get("preset", Experiment.preset)), {})
    # A preset depends on the kind of encoder, which the preset itself may set.
    encoder = merged(layers.get("any", {}), given).get("encoder", {})
    kind = encoder.get("kind", EncoderSection.kind) if isinstance(encoder, Mapping) else ""
    made = make(Experiment, merged(merged(layers.get("any", {}), layers.get(str(kind), {})), given))
    if made.preset not in presets:
        raise HardnerError(f"preset: none is {made.preset!r}; there are {', '.join(presets)}")
    return made


def read_experiment(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a TOML (or a run's JSON) file."""
    table = read_json(path) if Path(path).suffix == ".json" else read_toml(path)
    try:
        return experiment(table, overrides)
    except HardnerError as error:
        raise FileError(path, str(error)) from None


def load_experiment(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of that name, or of that TOML or JSON file."""
    path, tables = Path(name), experiment_tables()
    if path.as_posix() in tables:
        return experiment(tables[path.as_posix()], overrides)
    if path.suffix in (".toml", ".json") or path.is_file():
        return read_experiment(path, overrides)
    near = ", ".join(get_close_matches(path.as_posix(), tables, 3, cutoff=0.0))
    missing = "no such file or folder, and no experiment has that name"
    raise HardnerError(f"{name}: {missing}; the nearest are {near} (see hardner experiments)")


def run_name(name: str | Path) -> str:
    """What an experiment's run is called by default."""
    path = Path(name)
    named = path.as_posix() in experiment_tables()
    return path.as_posix().replace("/", "-") if named else path.stem


@cache
def training_presets() -> Mapping[str, Mapping[str, ConfigTable]]:
    """The values of each preset, for ``any`` encoder and by its kind."""
    return read_toml(Path(__file__).with_name("presets.toml"))


@cache
def experiment_tables() -> Mapping[str, ConfigTable]:
    """What each named experiment sets."""
    first, more = (
        read_toml(Path(__file__).with_name(f"{name}.toml")) for name in ("experiments", "ablations")
    )
    table = merged(first, more)
    methods, settings, cells = table["methods"], table["settings"], table["cells"]
    groups = table["groups"]
    tables = {}
    for method in methods:
        values = _section(methods, method)
        named = methods[method].get("settings", [""])  # without any: METHOD alone
        for setting in chain.from_iterable(groups.get(name, [name]) for name in named):
            name = f"{method}/{setting}" if setting else method
            over = merged(_section(settings, setting) if setting else {}, cells.get(name, {}))
            tables[name] = merged(values, over)
    return tables


def _section(sections: Mapping[str, ConfigTable], name: str) -> ConfigTable:
    """A section's values over those of the section that it extends."""
    own = {key: value for key, value in sections[name].items() if key != "settings"}
    base = own.pop("extends", None)
    return merged(_section(sections, base), own) if base else own
