"""``hardner model drop``, ``rename``, ``merge``, ``forget``, ``diff``, ``threshold``: types."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hardner.cli.common import check_model_folder, print_json, say
from hardner.cli.options import (
    FORCE_OPTION,
    JSON_OPTION,
    MIN_PRECISION_OPTION,
    THRESHOLD_OPTION,
    chosen_min_score,
    split_pairs,
)

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor

FOLDER = Annotated[Path, Argument(metavar="FOLDER", help="A model.")]
OUT = Annotated[Path, Option("--out", metavar="DIR", help="Folder of the new model.")]


def drop(
    folder: FOLDER,
    labels: Annotated[list[str], Argument(metavar="LABEL...", help="Types to drop.")],
    out: OUT,
    force: FORCE_OPTION = False,
) -> None:
    """Write a model without some of its types; the others are found exactly as before.

    Examples:

    - `hardner model drop my-model Device --out smaller-model`
    """
    from hardner.tag.heads import drop_labels

    _write(drop_labels(_loaded(folder, out, force), labels), out)


def rename(
    folder: FOLDER,
    names: Annotated[list[str], Argument(metavar="OLD=NEW...", help="Types and their new names.")],
    out: OUT,
    force: FORCE_OPTION = False,
) -> None:
    """Write a model with other names for some of its types; what is found stays the same.

    Examples:

    - `hardner model rename my-model Device=Implant --out renamed-model`
    """
    from hardner.tag.heads import rename_labels

    pairs = split_pairs(names, "OLD=NEW")
    _write(rename_labels(_loaded(folder, out, force), pairs), out)


def threshold(
    folder: FOLDER,
    out: OUT,
    threshold: THRESHOLD_OPTION = None,
    min_precision: MIN_PRECISION_OPTION = None,
    force: FORCE_OPTION = False,
) -> None:
    """Write a model with other thresholds for its types, which every way to tag then goes by.

    Examples:

    - `hardner model threshold my-model --threshold Device=0.7 --out careful-model`
    - `hardner model threshold my-model --min-precision 0.8 --out careful-model`
    """
    least = chosen_min_score(threshold, min_precision, folder, None)
    if least is None:
        raise typer.BadParameter("name a --threshold or a --min-precision")
    _write(_loaded(folder, out, force).with_thresholds(least), out)


def merge(
    folders: Annotated[list[Path], Argument(metavar="FOLDER...", help="Two models or more.")],
    out: OUT,
    force: FORCE_OPTION = False,
) -> None:
    """Write one model with the types of several that have the same kind of encoder.

    Each type is found exactly as by the model it comes from. Tagging takes a pass of the encoder
    for each of the models.

    Examples:

    - `hardner model merge device-model drug-model --out both`
    """
    from hardner.tag.heads import merge_models

    if len(folders) < 2:
        raise typer.BadParameter("name two models or more")
    _write(merge_models([_loaded(folder, out, force) for folder in folders]), out)


def forget(folder: FOLDER, out: OUT, force: FORCE_OPTION = False) -> None:
    """Write a model without the sentences that adapt --keep-sentences has stored in it.

    What it finds stays the same. Do so before the folder goes to people who may not read them.

    Examples:

    - `hardner model forget my-model --out model-to-share`
    """
    from hardner.tag.heads import forget_sentences

    _write(forget_sentences(_loaded(folder, out, force)), out)


def diff(
    one: Annotated[Path, Argument(metavar="FOLDER", help="A model.")],
    other: Annotated[Path, Argument(metavar="FOLDER", help="Another.")],
    as_json: JSON_OPTION = False,
) -> None:
    """Compare two models: their types, what these were learnt from, how, and how good they are.

    Examples:

    - `hardner model diff model-of-may model-of-june`
    """
    from hardner.tag.heads import differences
    from hardner.tag.predictor import Predictor

    found = differences(Predictor.load(one), Predictor.load(other))
    if as_json:
        print_json(found)
        return
    for label, own in found.items():
        for name, (here, there) in own.items():
            typer.echo(f"{label}, {name}: {_shown(here)} -> {_shown(there)}")
    if not found:
        typer.echo("the same types, with the same numbers and records")


def _shown(value: Any) -> str:
    return "nothing" if value in (None, "", [], {}, ()) else str(value)


def _loaded(folder: Path, out: Path, force: bool) -> "Predictor":
    from hardner.tag.predictor import Predictor

    check_model_folder(out, force)
    return Predictor.load(folder)


def _write(predictor: "Predictor", out: Path) -> None:
    predictor.save(out)
    say(f"{out}: {', '.join(predictor.labels)}; next: hardner tag TEXT --model {out}")
