"""ONNX models: the graph says what torch says, and the folder is a model as any other."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tiny
import torch
from tag.small_models import predictor

import hardner
from hardner.batch import Batch
from hardner.errors import HardnerError
from hardner.export.onnx import onnx_graph, to_onnx
from hardner.model.graph import EMISSIONS, PIECES, PLACES, WORDS
from hardner.model.layers import SCORING, mask_of
from hardner.model.transformer import in_windows
from hardner.tag.added_heads import KeptSentence, Origin
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

KINDS = ("transformer", "bert")
TEXT = "Aspirin may worsen asthma in mice. BRCA1 is a gene, and E. coli is not."
LONG = ("Aspirin", "worsens", "asthma") * 150


def batch_of(model: Predictor, texts: list[tuple[str, ...]]) -> Batch:
    store = model.tagger.store([Sentence(text) for text in texts])
    rows = torch.arange(len(texts))
    return store.batch(rows.unsqueeze(0), store.widths(rows.numpy()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[("p53",)], [("a", "b"), LONG, tuple(TEXT.split()), ()]])
@torch.inference_mode()
def test_the_graph_says_what_torch_says(kind: str, texts: list[tuple[str, ...]]) -> None:
    model = predictor(kind)
    batch = batch_of(model, texts)
    heads = torch.arange(4)
    encoded = model.tagger.encoder(model.params, batch, SCORING)
    expected, lengths, _ = model.tagger.emissions(model.params, encoded, batch, heads)

    session = onnxruntime.InferenceSession(onnx_graph(model.tagger, model.params))
    windows = in_windows(batch.inputs["pieces"], model.tagger.encoder.pieces.limit)[0]
    width = windows.numel() // len(texts)
    places = batch.inputs["heads"][0] + width * torch.arange(len(texts)).unsqueeze(1)
    words, said = session.run([WORDS, EMISSIONS], {PIECES: windows.numpy(), PLACES: places.numpy()})
    there = mask_of(lengths, expected.shape[2]).numpy()
    np.testing.assert_allclose(words[there[0]], encoded.words.numpy()[0][there[0]], atol=1e-4)
    np.testing.assert_allclose(said[there], expected.numpy()[there], atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_encoder_runs_the_graph(kind: str) -> None:
    model = predictor(kind)
    made = to_onnx(model)
    batch = batch_of(model, [("a", "b"), LONG, tuple(TEXT.split())])
    before, after = (m.tagger.encoder(m.params, batch, SCORING) for m in (model, made))
    there = mask_of(batch.lengths, before.words.shape[2])
    torch.testing.assert_close(after.words[there], before.words[there], atol=1e-4, rtol=0)
    torch.testing.assert_close(after.whole, before.whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_tags_as_it_did(kind: str, quantised: bool, tmp_path: Path) -> None:
    made = to_onnx(predictor(kind), quantised=quantised)
    made.save(tmp_path / "model")
    again = hardner.load(tmp_path / "model")
    assert again(TEXT) == made(TEXT) != []
    if not quantised:
        found = [(e.start, e.end, e.label) for e in predictor(kind)(TEXT)]
        assert [(e.start, e.end, e.label) for e in again(TEXT)] == found


def test_sentences_that_a_model_keeps_are_not_exported(tmp_path: Path) -> None:
    model = predictor("transformer")
    kept = Origin(kept=(KeptSentence(("A", "secret", "stent"), ((2, 3),)),))
    model = replace(model, origins={model.tagger.domains[0]: kept})
    for name, one in (("own", model), ("onnx", to_onnx(model))):
        one.save(tmp_path / name)
    held = {path.parent.name for path in tmp_path.rglob("*") if b"secret" in _bytes(path)}
    assert held == {"own"}


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("quantised", [False, True])
def test_batches_do_not_change_the_result(quantised: bool) -> None:
    made = to_onnx(predictor("transformer"), quantised=quantised)
    texts = [" ".join(s.tokens) for s in tiny.everything("test")[0]]
    found = [list(made.pipe(texts, batch_size=size)) for size in (1, 8, 64)]
    assert found[0] == found[1] == found[2]


def test_an_onnx_model_cannot_learn() -> None:
    made = to_onnx(predictor("transformer"))
    batch = batch_of(made, [("a", "b")])
    with pytest.raises(HardnerError, match="adapt the model it was made from"):
        made.tagger.losses(made.params, batch, ["tag"])


def test_a_network_that_reads_words_is_refused() -> None:
    with pytest.raises(HardnerError, match="a WordEncoder cannot be written as ONNX"):
        to_onnx(predictor("bilstm"))


@pytest.mark.parametrize("name", ["encoder.onnx", "tokenizer.json"])
def test_a_damaged_folder_is_one_clear_line(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    to_onnx(predictor("transformer")).save(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(b"\xff" * len(content))
    with pytest.raises(HardnerError) as caught:
        hardner.load(folder)
    assert "damaged" in str(caught.value) and str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    (folder / name).unlink()
    with pytest.raises(HardnerError, match="missing from the model folder"):
        hardner.load(folder)


def test_without_onnxruntime_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_onnx(predictor("transformer")).save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(HardnerError, match=r"pip install 'hardner\[onnx\]'"):
        hardner.load(tmp_path / "model")
