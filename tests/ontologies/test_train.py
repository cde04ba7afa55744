"""Training an encoder on mentions that a dictionary found."""

import json
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from pathlib import Path

import entity_types
import label
import numpy as np
import pytest
import tiny
import torch
from dictionary import Dictionary
from terms import Term
from train import EntityTraining, function_words, load_labelled, targets, train

from hardner.checkpoint import load_checkpoint
from hardner.config import make
from hardner.errors import HardnerError
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.protocols import PROTOCOLS
from hardner.evaluate.system import system_of_folder, told_labels
from hardner.meta.experiment import Experiment
from hardner.meta.network import build_network
from hardner.meta.run import run_experiment
from hardner.meta.source_data import load_source_data
from hardner.model.label_encoder import LabelEncoder
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import init_masked
from hardner.pretrain.run import save_encoder
from hardner.pretrain.text import continuing, load_tokenizer, train_tokenizer
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

ORGANS, FOODS = ("liver", "spinal cord", "kidney"), ("barley", "sweet corn", "millet")
SENTENCES = [
    f"the {organ} of a mouse with {food} was seen in rats .".split()
    for organ in ORGANS
    for food in FOODS
]


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as label.py writes it, and an encoder's beside it."""
    monkeypatch.setattr(entity_types, "MENTIONS", 3)
    monkeypatch.setattr(entity_types, "NAMES", 3)
    tokenizer = train_tokenizer([" ".join(words) for words in SENTENCES] * 5, 90)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    terms = {}
    for kind, names in (("organ", ORGANS), ("food", FOODS)):
        terms[kind] = Term(kind, kind, (kind,), f"a kind of {kind}", ())
        terms |= {name: Term(name, kind, (name,), "", (kind,)) for name in names}
    fold = label.Labelled(terms, Dictionary(terms.values()), [])
    ids, starts = label.label(SENTENCES, {"all": fold}, tokenizer)
    np.save(tmp_path / "ids.npy", ids, allow_pickle=False)
    np.save(tmp_path / "starts.npy", starts, allow_pickle=False)
    assert label.write_fold(tmp_path, "all", fold) == "all: 2 types, 18 mentions of 6 names"
    transformer = Transformer(tokenizer.get_vocab_size(), 16, 1, 2, 32)
    params = init_masked(transformer, torch.Generator().manual_seed(0))
    save_encoder(tmp_path / "encoder", transformer, params, tokenizer, {})
    return tmp_path


def test_a_batch_says_of_each_word_what_the_dictionary_says(labelled: Path) -> None:
    tokenizer = load_tokenizer(labelled / "tokenizer.json")
    inside = continuing(tokenizer)
    text, rows, own = load_labelled(labelled, "all", "cpu", 64)
    assert rows.tolist() == list(range(len(SENTENCES)))
    batch = targets(text, rows, inside, function_words(tokenizer), 64)
    types = [t["name"] for t in own]
    found: Counter[tuple[str, str]] = Counter()
    for row, words in enumerate(SENTENCES):
        for word, token in enumerate(words):
            piece = tokenizer.id_to_token(int(batch.pieces[row, batch.places[row, word]]))
            assert token.startswith(piece)
            name = int(batch.name[row, word])
            gold = next(
                (
                    k
                    for k, v in (("organ", ORGANS), ("food", FOODS))
                    for n in v
                    if token in n.split()
                ),
                "",
            )
            assert (
                [types[t] for t in text.has[name].nonzero()[:, 0]] == [gold] if gold else name < 0
            )
            if gold:
                found[gold, "B" if batch.begins[row, word] else "I"] += 1
            assert bool(batch.outside[row, word]) == (
                token in {"the", "of", "a", "with", "was", "in", "."} and not gold
            )
    assert found == {("organ", "B"): 9, ("organ", "I"): 3, ("food", "B"): 9, ("food", "I"): 3}


def given(labelled: Path, out: str, minutes: float = 60) -> Namespace:
    own = {"labelled": labelled, "encoder": labelled / "encoder", "out": labelled / out}
    return Namespace(**own, fold="all", minutes=minutes)


def test_types_are_learnt_and_the_encoder_is_written(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = EntityTraining(steps=200, rows=9, width=64, types=2, rate=1e-2, masked=0, every=20)
    assert train(given(labelled, "o"), how)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    assert said[-1]["step"] == 200 and said[-1]["loss"] < 0.5 * said[0]["loss"]
    made = load_checkpoint(labelled / "o" / "model")
    assert made.config["entities"]["fold"] == "all"
    assert "encoder.pieces" in made.tensors
    # The package reads what it has learnt: an encoder, and what makes decoders for it.
    made_for = LabelEncoder(**made.config["label_encoder"])
    fresh = made_for.init(torch.Generator().manual_seed(0))
    assert {n: t.shape for n, t in fresh.items()} == {
        n.removeprefix("labels."): t.shape for n, t in made.tensors.items() if n[0] == "l"
    }


def test_a_run_in_parts_ends_in_the_same_bits(labelled: Path) -> None:
    how = EntityTraining(steps=12, rows=9, width=64, types=2, rate=1e-2, masked=2, every=4)
    assert train(given(labelled, "whole"), how)
    assert not train(given(labelled, "parts", minutes=0), how)
    assert not (labelled / "parts" / "model").exists()
    moved = labelled / "elsewhere"
    (labelled / "parts").rename(moved)
    assert not train(given(labelled, "elsewhere", minutes=0), how)
    assert train(given(labelled, "elsewhere"), how)
    one, other = (load_checkpoint(labelled / n / "model").tensors for n in ("whole", "elsewhere"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(HardnerError, match="holds another run"):
        train(given(labelled, "elsewhere"), replace(how, types=1))
    with pytest.raises(HardnerError, match=r"label\.py writes it"):
        train(Namespace(**{**vars(given(labelled, "new")), "fold": "Gene"}), how)


def test_training_on_corpora_goes_on_from_it_to_types_without_an_example(
    labelled: Path, tmp_path: Path
) -> None:
    """The whole way: labelled text, an entity encoder, decoders of corpora, a described type."""
    how = EntityTraining(steps=4, rows=9, width=64, types=2, rate=1e-2, masked=0, every=4)
    assert train(given(labelled, "o"), how)
    learnt = load_checkpoint(labelled / "o" / "model").tensors
    experiment = make(
        Experiment,
        {
            "method": "multitask",
            "target": "Drug",
            "device": "cpu",
            "data": {"root": str(tiny.ROOT), "layout": "folders", "corpora": ["Gene", "Drug"]},
            "encoder": {"kind": "transformer", "folder": str(labelled / "o" / "model")},
            "decoder": {"kind": "softmax"},
            "train": {"iterations": 2, "tasks": 2, "shots": 4},
            "devel": {"every": 0},
            "labels": {"weight": 1.0},
        },
    )
    tagger, begun = build_network(experiment, load_source_data(experiment))
    assert {label for t in tagger.tag_sets for label in t.labels} == {"Gene"}
    shared = [name for name in learnt if name.startswith(("labels.", "encoder."))]
    assert all(torch.equal(begun[name], learnt[name]) for name in shared)
    assert run_experiment(experiment, tmp_path / "run").finished
    model = Predictor.load(tmp_path / "run" / "model").with_types({"Food": "a kind of food"})
    assert model.labels == ("Gene", "Food") and len(model.spans([Sentence(("barley",))])) == 1
    plan = replace(PROTOCOLS["few_shot"], targets=("Drug",), sizes=(0, 5), samples=1)
    system = told_labels(system_of_folder(tmp_path / "run", plan, preset="quick"), "names")
    short = replace(system.adaptation, steps=2, passes=0.0, negatives=1, replacements=2)
    folders = EvaluationFolders(tiny.ROOT, tmp_path / "results")
    done = list(execute(plan, replace(system, adaptation=short), folders))
    assert [cell.size for cell in done] == [0, 5]
