"""Comparing two forms of a model."""

from dataclasses import replace

import pytest
import tiny
from tag.small_models import predictor

from hardner.errors import HardnerError
from hardner.export.check import ExportCheck, check_export, example_sentences, refuse_export
from hardner.export.onnx import to_onnx
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

MODEL = predictor("transformer")


def shifted(model: Predictor, by: float) -> Predictor:
    """The same with another score for O, so that it finds less or more."""
    bias = model.params["decoder.bias"].clone()
    bias[..., 0] += by
    return replace(model, params={**model.params, "decoder.bias": bias})


def test_the_example_is_made_of_sentences() -> None:
    found = example_sentences()
    assert len(found) > 50
    assert all(5 < len(sentence) < 60 for sentence in found)


@pytest.mark.usefixtures("single")
def test_a_model_agrees_with_itself_and_not_with_another() -> None:
    same = check_export(replace(MODEL), to_onnx(MODEL), None)
    assert same.before == same.after == 1
    assert same.difference < 1e-4
    assert all(speed > 0 for speed in same.speed)
    refuse_export(same, quantised=False)
    other = check_export(MODEL, shifted(MODEL, 2.0), None)
    assert other.before == 1 > other.after
    assert other.difference == pytest.approx(2, abs=1e-5)


def test_labels_are_what_counts_where_there_are_any() -> None:
    texts = [Sentence(s.tokens) for s in tiny.sentences("Gene", "test")]
    found = MODEL.spans(texts, labels=["Gene"])
    labelled = [
        replace(t, spans=tuple(span for span, _ in spans))
        for t, spans in zip(texts, found, strict=True)
    ]
    assert sum(len(s.spans) for s in labelled) > 3
    assert check_export(MODEL, shifted(MODEL, 9.0), labelled).before == 1
    assert check_export(shifted(MODEL, 9.0), MODEL, labelled).after == 1
    assert check_export(MODEL, shifted(MODEL, 99.0), labelled).after == 0


def test_labels_that_the_model_lacks_are_refused() -> None:
    labelled = [Sentence(("a", "b"), (Span(0, 1, "Device"),))]
    with pytest.raises(HardnerError, match="nothing to check: no label of the model's, Disease"):
        check_export(MODEL, MODEL, labelled)


@pytest.mark.parametrize(
    ("found", "quantised", "message"),
    [
        ((0.80, 0.785, 0.3), True, "F1 drops from 0.800 to 0.785, more than 0.01"),
        ((0.80, 0.785, 0.0), False, "F1 drops"),
        ((0.80, 0.80, 0.3), False, "differ by 0.3"),
        ((0.80, 0.80, float("nan")), False, "differ by nan"),
    ],
)
def test_what_is_not_the_same_is_refused(
    found: tuple[float, float, float], quantised: bool, message: str
) -> None:
    with pytest.raises(HardnerError, match=message):
        refuse_export(ExportCheck(*found, (1.0, 1.0)), quantised)


def test_what_is_the_same_is_not_refused() -> None:
    refuse_export(ExportCheck(0.80, 0.791, 0.3, (1.0, 1.0)), quantised=True)
    refuse_export(ExportCheck(0.80, 0.83, 1e-5, (1.0, 1.0)), quantised=False)
