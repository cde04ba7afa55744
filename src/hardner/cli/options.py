"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Option

from hardner.cli.common import check_format, check_scheme


class EngineChoice(StrEnum):
    """Where the work is done; the output is the same."""

    local = "local"
    ray = "ray"


MODEL_OPTION = Annotated[
    Path | None, Option(metavar="DIR", help="Model folder; default: the bundled model.")
]
SOURCE_FORMAT_OPTION = Annotated[
    str | None,
    Option(
        "--from",
        metavar="FORMAT",
        callback=check_format,
        help="Format of the input; default: auto-detected.",
    ),
]
TARGET_FORMAT_OPTION = Annotated[
    str | None,
    Option(
        "--to",
        metavar="FORMAT",
        callback=check_format,
        help="Format of the output; default: by the ending of its name.",
    ),
]
TARGET_SCHEME_OPTION = Annotated[
    str | None,
    Option(
        "--scheme",
        metavar="SCHEME",
        callback=check_scheme,
        help="Tag scheme of CoNLL output; default: IOB2.",
    ),
]
DEVICE_OPTION = Annotated[
    str, Option(metavar="DEVICE", help="cpu, cuda, or auto: cuda if there is a GPU, else cpu.")
]
SEED_OPTION = Annotated[int, Option(min=0, help="Random seed.")]
FORCE_OPTION = Annotated[
    bool, Option("--force", help="Replace the model if DIR holds one already.")
]
JSON_OPTION = Annotated[bool, Option("--json", help="Print JSON.")]
ENGINE_OPTION = Annotated[
    EngineChoice, Option(help="This machine (local), or a Ray cluster (ray).")
]
ADDRESS_OPTION = Annotated[
    str | None,
    Option(
        envvar="RAY_ADDRESS",
        show_envvar=False,
        metavar="HOST:PORT",
        help="Address of the Ray cluster; default: start Ray on this machine.",
    ),
]
ROOT_OPTION = Annotated[
    Path | None, Option(metavar="DIR", help="Folder of the corpora; default: the run's own.")
]
PRESET_OPTION = Annotated[
    str, Option(help="Preset to adapt by: paper, best, ...; default: the run's own.")
]
CATALOGUE_OPTION = Annotated[
    str,
    Option(
        "--catalogue",
        metavar="FILE.toml",
        help="Describes corpora of your own; default: catalogue.toml in the corpora folder.",
    ),
]
PLUGIN_OPTION = Annotated[
    list[Path] | None,
    Option(
        "--plugin",
        metavar="FILE.py",
        help="Run this Python file first, for a training method of your own. It can do anything: "
        "use only files that you trust.",
    ),
]
