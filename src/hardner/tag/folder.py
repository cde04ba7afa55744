"""A predictor's model folder: a tagger's, with the temperatures of its heads in the description."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.model.describe import describe_tagger, files_of, load_model, parameter_shapes
from hardner.model.layers import Params
from hardner.model.tagger import Tagger

BUNDLED_MODEL = Path(__file__).parents[1] / "assets" / "model"
BUNDLED_START = BUNDLED_MODEL.with_name("start")
"""Whose encoder the bundled model's adaptations begin with."""
TEMPERATURES = "temperatures"


def read_model_folder(folder: str | Path | None) -> tuple[Tagger, Params, dict[str, float]]:
    """The tagger, its parameters and the temperatures that are known, by domain.

    Without a folder, the model that comes with the package.
    """
    if folder is None and not BUNDLED_MODEL.is_dir():
        raise HardnerError("no model comes with this hardner; name the folder of one (--model DIR)")
    where = Path(folder or BUNDLED_MODEL)
    if not where.is_dir():
        raise FileError(where, "no such model folder")
    tagger, params = load_model(where)
    return tagger, params, _temperatures(where, tagger)


def write_model_folder(
    folder: str | Path,
    tagger: Tagger,
    params: Params,
    temperatures: Mapping[str, float],
    dtype: torch.dtype | None = None,
) -> None:
    """Whole or not at all; an earlier model there is replaced. For `dtype`: `checkpoint.save`."""
    own = {name: params[name] for name in parameter_shapes(tagger)}
    config = {**describe_tagger(tagger), TEMPERATURES: dict(temperatures)}
    checkpoint.save_checkpoint(folder, own, config, files_of(tagger), dtype=dtype)


def _temperatures(folder: Path, tagger: Tagger) -> dict[str, float]:
    raw = json.loads((folder / checkpoint.CONFIG).read_bytes()).get("config", {})
    raw = raw.get(TEMPERATURES, {})
    known = isinstance(raw, dict) and raw.keys() <= set(tagger.domains)
    if not known or not all(isinstance(t, int | float) and 0 < t < 1e6 for t in raw.values()):
        raise FileError(folder / checkpoint.CONFIG, f"damaged: odd {TEMPERATURES}: {raw}")
    return {domain: float(value) for domain, value in raw.items()}
