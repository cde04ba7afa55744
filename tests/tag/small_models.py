"""Small random models, as predictors and as folders."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import tiny
import torch

from hardner.model.layers import SCORING, Params
from hardner.model.tagger import Tagger
from hardner.tag.predictor import Predictor


def predictor(kind: str = "bilstm", scheme: str = "IOB2", decoder: str = "crf") -> Predictor:
    """A model with the heads of `tiny`; each finds something here and there."""
    return Predictor(*_model(kind, scheme, decoder))


@cache
def _model(kind: str, scheme: str, decoder: str) -> tuple[Tagger, Params]:
    tagger = tiny.tagger(kind, decoder, scheme)
    params = tiny.params(tagger, dtype=torch.float32)
    words = tagger.encoder(params, tiny.batch(tagger, tasks=4, rows=4), SCORING).words
    spread, centre = torch.std_mean(words.flatten(0, 2), dim=0)
    rng = torch.Generator().manual_seed(1)
    weight = torch.randn(params["decoder.weight"].shape, generator=rng) / (spread + 1e-6)
    weight *= 2 / tagger.encoder.size**0.5
    params["decoder.weight"] = weight
    params["decoder.bias"] = -(weight @ centre)
    params["decoder.bias"][..., 0] += 1.5
    return tagger, params


@cache
def folder(kind: str = "bilstm") -> Path:
    """The same as a folder, which lasts as long as the session."""
    made = Path(tempfile.mkdtemp(prefix="hardner-predict-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    predictor(kind).save(made / "model")
    return made / "model"
