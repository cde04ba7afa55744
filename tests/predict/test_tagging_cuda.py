"""A GPU finds what a CPU finds."""

import pytest
import small_models as models
import tiny
import torch

from hardner.predict.predictor import Predictor


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_devices_agree(kind: str) -> None:
    here = models.predictor(kind)
    there = Predictor(here.tagger, here.params, here.temperatures, "auto")
    assert there.device == "cuda"
    sentences = tiny.everything("test")[0]
    for ours, theirs in zip(here.spans(sentences), there.spans(sentences), strict=True):
        assert [span for span, _ in theirs] == [span for span, _ in ours]
        assert [score for _, score in theirs] == pytest.approx([s for _, s in ours], abs=2e-3)
    assert there.hardness(sentences) == pytest.approx(here.hardness(sentences), rel=1e-3)
