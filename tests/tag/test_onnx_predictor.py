"""A model tagged by onnxruntime and numpy alone: what torch finds, without torch."""

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sequences import brute_force
from small_models import folder, predictor
from without_torch import REFUSED

import hardner
from hardner import OnnxPredictor
from hardner.errors import HardnerError
from hardner.schemes import TagSet, tags_to_spans
from hardner.tag.onnx_predictor import NumpyHead
from hardner.types import Document, Sentence

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from hardner.export.onnx import to_onnx

TEXTS = (
    "Aspirin may worsen asthma in mice. BRCA1 is a gene; p53 is one too.\n\nE. coli is not.",
    *("", " ", ".", "\x01\x02", "😀" * 40, "Naïve β-cells 🧬 die; the 👩🏽‍🔬 adds 5-fluorouracil."),
    " ".join(["Aspirin worsens asthma"] * 150),  # several windows of pieces
    " ".join(["p53"] * 1_300),  # several windows of tokens
)
TEMPERATURES = (0.5, 1.0, 2.0, 4.0)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("onnx") / "model"
    to_onnx(replace(predictor("transformer"), temperatures=TEMPERATURES)).save(made)
    return made


@pytest.mark.parametrize(
    ("kind", "scheme", "decoder", "quantised"),
    [
        ("transformer", "IOB2", "crf", True),
        ("transformer", "IOBES", "crf", False),
        ("transformer", "IO", "softmax", False),
        ("bert", "IOB2", "softmax", False),
    ],
)
def test_spans_and_scores_are_those_of_torch(
    kind: str, scheme: str, decoder: str, quantised: bool, tmp_path: Path
) -> None:
    model = replace(predictor(kind, scheme, decoder), temperatures=TEMPERATURES)
    to_onnx(model, quantised=quantised).save(tmp_path / "model")
    torchs, ours = hardner.load(tmp_path / "model"), OnnxPredictor.load(tmp_path / "model")
    assert ours.labels == torchs.labels == model.labels
    for threads in (1, 2):
        found = list(replace(ours, threads=threads).pipe(TEXTS))
        assert sum(map(len, found)) > 100
        assert found == list(torchs.pipe(TEXTS))
    assert list(ours.pipe(TEXTS, batch_size=1)) == found
    assert [ours(text) for text in TEXTS] == found
    some = {"labels": model.labels[:1], "min_score": 0.5}
    assert [*ours.pipe(TEXTS, **some)] == [*torchs.pipe(TEXTS, **some)] != found
    sentences = [Sentence(tuple(text.split())) for text in TEXTS]
    assert ours.spans(sentences) == torchs.spans(sentences)
    document = Document("", " ".join(sentences[0].tokens), sentences=(sentences[0],))
    assert [*ours.documents([document])] == [*torchs.documents([document])]


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES", "IO"])
@pytest.mark.parametrize("chained", [True, False])
def test_tags_and_scores_are_those_of_all_sequences(scheme: str, chained: bool) -> None:
    rng = np.random.default_rng(len(scheme) + chained)
    tag_set = TagSet("X", ("A", "B") if scheme != "IOBES" else ("A",), scheme)
    tags, size = len(tag_set.tags), 3
    # The parameters are as wide as those of a richer head beside it.
    decoder = {"weight": rng.normal(size=(tags + 2, size)), "bias": rng.normal(size=tags + 2)}
    if chained:
        decoder["transitions"] = rng.normal(size=(tags + 2, tags + 2))
        decoder |= {name: rng.normal(size=tags + 2) for name in ("start", "end")}
    head = NumpyHead.of(tag_set, decoder, temperature=0.7)
    lengths = np.array([4, 1, 3])
    words = rng.normal(size=(3, 4, size)) * 3
    found = head.decode(words, lengths)
    assert found
    for row, length in enumerate(lengths):
        scores = torch.from_numpy((words @ head.weight + head.bias)[row, :length])
        paths = brute_force(scores, tuple(map(torch.from_numpy, head[3:])))
        read_as = {
            path: tags_to_spans([tag_set.tags[tag] for tag in path], scheme)[0]
            for path, p in paths.items()
            if p > 0
        }
        best = read_as[max(paths, key=paths.__getitem__)]
        own = {run.span: score for run, score in found if run.row == row}
        assert sorted(own) == sorted(best)
        for span, score in own.items():
            held = sum(p for path, p in paths.items() if span in read_as.get(path, ()))
            assert score == pytest.approx(held, abs=1e-9)


def test_threads_share_one(exported: Path) -> None:
    model = OnnxPredictor.load(exported)
    expected, found = [*model.pipe(TEXTS)], list[object]()
    threads = [
        threading.Thread(target=lambda: found.append([*model.pipe(TEXTS)])) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


ALONE = (
    REFUSED
    + """
import hardner
model = hardner.OnnxPredictor.load(sys.argv[1])
found = model("Aspirin may worsen asthma.")
assert "torch" not in sys.modules
print(len(found), repr(model))
try:
    hardner.load(sys.argv[1])
except hardner.errors.HardnerError as error:
    print(error)
"""
)


def test_torch_is_not_needed(exported: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, exported], capture_output=True, text=True, check=True
    )
    shown, error = ran.stdout.splitlines()
    expected = hardner.load(exported)
    assert shown == (
        f"{len(expected('Aspirin may worsen asthma.'))} OnnxPredictor({', '.join(expected.labels)})"
    )
    assert error == (
        "hardner.load needs torch, which is not installed; hardner.OnnxPredictor.load reads an "
        "ONNX model without it"
    )


def test_folders_that_hold_no_onnx_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="no such model folder"):
        OnnxPredictor.load(tmp_path / "absent")
    with pytest.raises(HardnerError, match="no config"):
        OnnxPredictor.load(tmp_path)
    with pytest.raises(HardnerError, match="make one of it: hardner export --onnx OUT --model"):
        OnnxPredictor.load(folder("transformer"))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("encoder.onnx", lambda old: b"not a graph", "damaged graph"),
        ("tokenizer.json", lambda old: b"{}", "tokenizer.json is damaged"),
        ("weights.safetensors", lambda old: old[:40], "truncated|damaged"),
        ("config.json", lambda old: old.replace(b'"IOB2"', b'"IOB9"'), "IOB9"),
        ("config.json", lambda old: old.replace(b'"limit"', b'"limits"'), "limits"),
        ("config.json", lambda old: old.replace(b'"tag_sets"', b'"other"'), "damaged or newer"),
    ],
)
def test_damage_is_one_line(exported: Path, tmp_path: Path, name, change, said: str) -> None:
    for path in exported.iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(change(content) if path.name == name else content)
    config = json.loads((tmp_path / "config.json").read_bytes())
    config["sizes"] = {n: (tmp_path / n).stat().st_size for n in config["sizes"]}
    config["checksums"] = {}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(HardnerError, match=said) as raised:
        OnnxPredictor.load(tmp_path)
    assert "\n" not in str(raised.value)
