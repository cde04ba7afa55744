"""A GPU finds what a CPU finds."""

from dataclasses import replace

import pytest
import small_models as models
import tiny
import torch
from agreement import TIES, agree, outcome

from hardner.tag.predictor import Predictor

CLOSE = {"bilstm": (5e-4, 0.0), "bert": (5e-4, 0.0), "transformer": (5e-3, TIES)}
"""How far results may lie apart: the transformer multiplies in float16 there."""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
@pytest.mark.parametrize("kind", CLOSE)
def test_devices_agree(kind: str, single: None) -> None:
    here = replace(models.predictor(kind))
    there = Predictor(here.tagger, here.params, here.temperatures, "auto")
    assert there.device == "cuda"
    sentences = tiny.everything("test")[0]
    for size in (None, 8):
        agree(outcome(here, sentences), outcome(there, sentences, size), *CLOSE[kind])
