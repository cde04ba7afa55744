"""Training an encoder on mentions that a dictionary found."""

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path

import entity_types
import label
import numpy as np
import pytest
import torch
from dictionary import Dictionary
from terms import Term
from train import EntityTraining, function_words, load_labelled, targets, train

from hardner.checkpoint import load_checkpoint
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import init_masked
from hardner.pretrain.run import save_encoder
from hardner.pretrain.text import continuing, load_tokenizer, train_tokenizer

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
    text, rows = load_labelled(labelled, "all", tokenizer, "cpu", 64)
    assert rows.tolist() == list(range(len(SENTENCES)))
    batch = targets(text, rows, inside, function_words(tokenizer), 64)
    types = [t["name"] for t in json.loads((labelled / "types-all.json").read_text("utf-8"))]
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


def test_types_are_learnt_and_the_encoder_is_written(
    labelled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = EntityTraining(steps=200, rows=9, width=64, types=2, rate=1e-2, masked=0)
    given = Namespace(
        labelled=labelled, encoder=labelled / "encoder", fold="all", out=labelled / "o"
    )
    train(given, how)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[:1] == "{"]
    assert said[-1]["step"] == 200 and said[-1]["loss"] < 0.5 * said[0]["loss"]
    made = load_checkpoint(labelled / "o")
    assert made.config["entities"]["fold"] == "all"
    assert "encoder.pieces" in made.tensors and "types.query.weight" in made.tensors
