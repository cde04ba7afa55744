"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from hardner.cli.common import check_encoding, check_format, check_scheme


def _check_labels(text: str | None) -> str | None:
    if text is not None and not all(part.strip() for part in text.split(",")):
        raise typer.BadParameter("a label is missing between two commas.")
    return text


def split_labels(text: str | None) -> tuple[str, ...] | None:
    """The names of `LABELS_OPTION`."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


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
ENCODING_OPTION = Annotated[
    str | None,
    Option(
        metavar="NAME",
        callback=check_encoding,
        help="Encoding of the input, such as latin-1; default: UTF-8.",
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
LABELS_OPTION = Annotated[
    str | None, Option(metavar="A,B,...", callback=_check_labels, help="Only these types.")
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
