"""Options that several commands share."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hardner.cli.common import check_encoding, check_format, check_scheme, warn

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor
    from hardner.tag.text_tagger import MinScore


def _check_labels(text: str | None) -> str | None:
    if text is not None and not all(part.strip() for part in text.split(",")):
        raise typer.BadParameter("a label is missing between two commas.")
    return text


def split_labels(text: str | None) -> tuple[str, ...] | None:
    """The names of `LABELS_OPTION`."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def split_pairs(texts: Iterable[str], form: str) -> dict[str, str]:
    """Names and what they become, each given as two with an equals sign between them."""
    pairs = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old.strip() or not new.strip():
            raise typer.BadParameter(f"{text!r} is not of the form {form}")
        pairs[old.strip()] = new.strip()
    return pairs


def _check_map(texts: list[str] | None) -> list[str] | None:
    split_pairs(texts or (), "ITS=OURS")
    return texts


def _check_types(texts: list[str] | None) -> list[str] | None:
    if len(split_types(texts)) < len(texts or ()):
        raise typer.BadParameter("a type has a name of its own, as in 'Device: an instrument'.")
    return texts


def split_types(texts: list[str] | None) -> dict[str, str]:
    """The names and descriptions of `TYPE_OPTION`."""
    pairs = (text.partition(":") for text in texts or ())
    return {name.strip(): text.strip() for name, _, text in pairs if name.strip()}


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
MAP_OPTION = Annotated[
    list[str] | None,
    Option(
        "--map",
        metavar="ITS=OURS",
        callback=_check_map,
        help="Name of a type in LABELLED, and the model's name for it (DISEASE=Disease); may be "
        "repeated.",
    ),
]
TYPE_OPTION = Annotated[
    list[str] | None,
    Option(
        "--type",
        metavar="NAME[: TEXT]",
        callback=_check_types,
        help="Find this type as well, without an example, by its name and what it means; may be "
        "repeated.",
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


def _check(texts: list[str] | None) -> list[str] | None:
    for text in texts or ():
        _parsed(text)
    return texts


def _parsed(text: str) -> tuple[str, float]:
    """The label, empty for all, and the score."""
    label, _, score = text.rpartition("=")
    try:
        value = float(score)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1 or text.startswith("="):
        raise typer.BadParameter(f"{text!r} is no score from 0 to 1, such as 0.5 or Device=0.7.")
    return label, value


THRESHOLD_OPTION = Annotated[
    list[str] | None,
    Option(
        "--threshold",
        "--min-score",
        metavar="[LABEL=]SCORE",
        callback=_check,
        help="Drop entities scoring below this, of all types or of one (Device=0.7); may be "
        "repeated. Default: the model's own thresholds.",
    ),
]
MIN_PRECISION_OPTION = Annotated[
    float | None,
    Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="Drop entities as far as this precision asks for, on sentences like those adapted to.",
    ),
]


def chosen_min_score(
    given: list[str] | None,
    precision: float | None,
    model: Path | None,
    labels: Collection[str] | None,
    types: Mapping[str, str] | None = None,
) -> "MinScore":
    """What the two options say together; a label's own threshold counts most.

    Of ``types`` that are described, no precision is known.
    """
    asked = dict(map(_parsed, given or ()))
    every, named = asked.pop("", None), asked
    if precision is None and not (named and every is not None):
        return named or every
    from hardner.tag.predictor import Predictor

    predictor = Predictor.load(model)
    if types:
        predictor = predictor.with_types(types)
    both = {} if every is None else dict.fromkeys(predictor.labels, every)
    if precision is not None:
        both |= _promised(predictor, precision, named, labels)
    return both | named


def _promised(
    predictor: "Predictor", precision: float, named: Iterable[str], labels: Collection[str] | None
) -> dict[str, float]:
    open_ = [label for label in labels or predictor.labels if label not in named]
    # Of a model with many types, a few are adapted; named ones are refused where nothing is known.
    known = [label for label in open_ if label in predictor.curves]
    wanted = known if predictor.curves and not labels else open_
    if left := [label for label in open_ if label not in wanted]:
        warn([f"--min-precision: nothing is known of {', '.join(left)}; their thresholds stay"])
    return predictor.thresholds_for(precision, wanted)
