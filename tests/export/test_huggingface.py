"""Hugging Face folders for token classification, read and written."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tag.small_models import predictor
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForTokenClassification,
    pipeline,
)
from transformers.utils import logging

import hardner
from hardner.errors import HardnerError
from hardner.export.huggingface import write_huggingface
from hardner.model.huggingface import tags_of
from hardner.model.layers import SCORING
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

TEXT = "Aspirin may worsen asthma in mice , and BRCA1 is a gene"
WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def _no_bars() -> None:
    logging.disable_progress_bar()


def classifier(folder: Path, names: Sequence[str]) -> Path:
    """A random classifier with these tags, as others would publish it."""
    config = BertConfig.from_pretrained(tiny.bert_folder(), id2label=dict(enumerate(names)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = BertForTokenClassification(config)
        torch.nn.init.normal_(made.classifier.weight, std=0.5)
        torch.nn.init.normal_(made.classifier.bias)
    made.save_pretrained(folder)
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(tiny.bert_folder() / name, folder / name)
    return folder


def logits(folder: Path, words: Sequence[str]) -> np.ndarray:
    """Of each word's first piece, by transformers."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    encoded = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    owners = encoded.word_ids()
    with torch.inference_mode():
        found = model(**encoded).logits[0].numpy()
    return found[[owners.index(word) for word in range(len(words))]]


@torch.inference_mode()
def scores(model: Predictor, words: Sequence[str]) -> np.ndarray:
    """Of the only head, by hardner."""
    store = model.tagger.store([Sentence(tuple(words))])
    batch = store.batch(torch.zeros(1, 1, dtype=torch.long), store.widths(np.zeros(1, int)))
    encoded = model.tagger.encoder(model.params, batch, SCORING)
    return model.tagger.emissions(model.params, encoded, batch).scores[0, 0].numpy()


@pytest.mark.parametrize(
    ("names", "scheme", "order"),
    [
        (["O", "B-Gene", "I-Gene"], "IOB2", [0, 1, 2]),
        (["I-Gene", "O", "B-Drug", "B-Gene", "I-Drug"], "IOB2", [1, 3, 0, 2, 4]),
        (["B-X", "E-X", "I-X", "O", "S-X"], "IOBES", [3, 0, 2, 1, 4]),
        (["O", "U-X", "B-X", "L-X", "I-X"], "IOBES", [0, 2, 4, 3, 1]),
        (["O", "I-X", "I-Y"], "IO", [0, 1, 2]),
        (["Gene", "O", "Drug"], "IO", [1, 0, 2]),
        (["B", "I", "O"], "IOB2", [2, 0, 1]),
        (["O", "B-X"], "IOB2", [0, 1, None]),
    ],
)
def test_tags_are_read_from_names(names: list[str], scheme: str, order: list[int | None]) -> None:
    tag_set, found = tags_of(names, "d")
    assert (tag_set.scheme, found) == (scheme, order)


def test_a_classifier_is_a_model(tmp_path: Path) -> None:
    names = ["I-Gene", "O", "B-Drug", "B-Gene", "I-Drug"]
    folder = classifier(tmp_path / "bert", names)
    model = hardner.load(folder)
    assert model.labels == ("Gene", "Drug")
    expected = logits(folder, WORDS)[:, [names.index(t) for t in model.tagger.tag_sets[0].tags]]
    np.testing.assert_allclose(scores(model, WORDS), expected, atol=1e-5)
    assert model(TEXT)
    model.save(tmp_path / "own")
    assert hardner.load(tmp_path / "own")(TEXT) == model(TEXT)


def test_a_tag_that_the_classifier_lacks_is_never_chosen(tmp_path: Path) -> None:
    model = hardner.load(classifier(tmp_path / "bert", ["O", "B-X"]))
    found = model.spans([Sentence(tuple(WORDS))])[0]
    assert found and all(span.end - span.start == 1 for span, _ in found)


def test_what_is_written_gives_the_same_logits(tmp_path: Path) -> None:
    model = one_head()
    write_huggingface(model, tmp_path / "out")
    np.testing.assert_allclose(logits(tmp_path / "out", WORDS), scores(model, WORDS), atol=1e-5)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "O", "1": "B-Disease", "2": "I-Disease"}
    assert not [path for path in (tmp_path / "out").iterdir() if path.suffix == ".bin"]
    again = hardner.load(tmp_path / "out")
    assert again(TEXT) == model(TEXT)


def test_a_pipeline_runs_on_what_is_written(tmp_path: Path) -> None:
    write_huggingface(one_head(), tmp_path / "out")
    tag = pipeline("token-classification", str(tmp_path / "out"), device="cpu")
    found = tag(TEXT)
    assert {word["entity"] for word in found} <= {"B-Disease", "I-Disease"}


def one_head(decoder: str = "softmax") -> Predictor:
    model = predictor("bert", decoder=decoder)
    tagger = replace(model.tagger, tag_sets=(TagSet("Disease", ("Disease",)),))
    params = {n: p[:, :1] if n.startswith("decoder.") else p for n, p in model.params.items()}
    return Predictor(tagger, params)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (predictor("transformer"), "Hugging Face has no network like this one"),
        (predictor("bilstm"), "a WordEncoder is no Hugging Face network"),
        (predictor("bert"), "cannot hold a CRF's transitions"),
        (predictor("bert", decoder="softmax"), "holds one head, the model has Disease, Drug"),
    ],
    ids=["own", "words", "crf", "heads"],
)
def test_what_cannot_be_written_is_refused(model: Predictor, message: str, tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match=message):
        write_huggingface(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(HardnerError, match="exists already"):
        write_huggingface(one_head(), tmp_path)
    assert (tmp_path / "mine").read_text() == "keep"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda config: config | {"id2label": {"0": "B-X", "1": "I-X", "2": "Y"}}, "is O"),
        (lambda config: config | {"id2label": {"0": "O", "1": "B-X"}}, "of 2 tags"),
    ],
)
def test_a_folder_at_odds_with_itself_is_one_clear_line(
    damage: object, message: str, tmp_path: Path
) -> None:
    folder = classifier(tmp_path / "bert", ["O", "B-X", "I-X"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(damage(config)))  # type: ignore[operator]
    with pytest.raises(HardnerError, match=message) as caught:
        hardner.load(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "bert", ["O", "B-X", "I-X"])
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(HardnerError, match="pickled weights are not read"):
        hardner.load(folder)


def test_a_classifier_with_weights_that_are_no_numbers_is_refused(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "hf", ("O", "B-X", "I-X"))
    held = load_file(folder / "model.safetensors")
    held["classifier.bias"][0] = torch.nan
    save_file(held, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(HardnerError, match=r"parameter decoder\.bias holds what is no finite"):
        Predictor.load(folder)
