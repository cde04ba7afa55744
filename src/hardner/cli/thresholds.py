"""Options for the scores that mentions must reach."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hardner.cli.common import warn

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor
    from hardner.tag.thresholds import MinScore


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
) -> "MinScore":
    """What the two options say together; a label's own threshold counts most."""
    asked = dict(map(_parsed, given or ()))
    every, named = asked.pop("", None), asked
    if precision is None and not (named and every is not None):
        return named or every
    from hardner.tag.predictor import Predictor

    predictor = Predictor.load(model)
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
