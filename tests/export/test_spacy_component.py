"""The spaCy component."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import Doc
from tag.small_models import folder, predictor

import hardner.export.spacy  # noqa: F401
from hardner.errors import HardnerError
from hardner.types import Entity

MODEL = str(folder())
TEXTS = [
    "Aspirin may worsen asthma in mice, and BRCA1 is a gene.",
    "",
    "p53-null mice got β-catenin; the café's rats had hypertension.",
    " \n",
    "Naloxone reverses the effect of clonidine. Was it lidocaine?",
]


def pipeline(**config: Any) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("hardner", config={"model": MODEL, **config})
    return nlp


def seen(doc: Doc, key: str = "hardner") -> list[tuple[Any, ...]]:
    group = doc.spans[key]
    scores = group.attrs["scores"]
    return [
        (s.start_char, s.end_char, s.label_, score) for s, score in zip(group, scores, strict=True)
    ]


@pytest.mark.parametrize("text", TEXTS)
def test_spans_are_what_the_model_finds(text: str) -> None:
    doc = pipeline()(text)
    found = predictor()(text)
    assert len(seen(doc)) == len(found)
    for (start, end, label, score), entity in zip(seen(doc), found, strict=True):
        assert (label, score) == (entity.label, entity.score)
        assert start <= entity.start < entity.end <= end
        assert start in {token.idx for token in doc}


def test_entities_do_not_overlap_and_the_best_wins() -> None:
    for doc in pipeline().pipe(TEXTS):
        group = seen(doc)
        taken: set[int] = set()
        expected = []
        for start, end, label, score in sorted(group, key=lambda row: -row[3]):
            if taken.isdisjoint(range(start, end)):
                taken |= set(range(start, end))
                expected.append((start, end, label, score))
        ents = [(e.start_char, e.end_char, e.label_, e._.score) for e in doc.ents]
        assert ents == sorted(expected)
    assert any(len(doc.ents) < len(doc.spans["hardner"]) for doc in pipeline().pipe(TEXTS))


def test_offsets_within_a_token_are_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = pipeline()
    found = [Entity(4, 7, "Gene", "p53", 0.9)]
    model = nlp.get_pipe("hardner")
    monkeypatch.setattr(type(model.predictor), "pipe", lambda *_, **__: iter([found]))
    doc = nlp("the p53ness of things")
    assert [(e.text, e.label_) for e in doc.ents] == [("p53ness", "Gene")]


@pytest.mark.parametrize("size", [1, 3, 64])
def test_batches_are_as_single_calls(size: int) -> None:
    nlp = pipeline()
    many = TEXTS * 3
    assert [seen(doc) for doc in nlp.pipe(many, batch_size=size)] == [seen(nlp(t)) for t in many]


def test_processes_find_the_same() -> None:
    nlp = pipeline()
    expected = [seen(nlp(text)) for text in TEXTS]
    assert [seen(doc) for doc in nlp.pipe(TEXTS, n_process=2)] == expected


def test_settings_are_heeded() -> None:
    doc = pipeline(labels=["Gene"], spans_key="mine", min_score=0.5)(" ".join(TEXTS))
    everything = seen(pipeline()(" ".join(TEXTS)))
    kept = [row for row in everything if row[2] == "Gene" and row[3] >= 0.5]
    assert seen(doc, "mine") == kept != []


def test_earlier_entities_stay_where_there_is_room() -> None:
    nlp = spacy.blank("en")
    rules = nlp.add_pipe("entity_ruler")
    words = [token.text for token in nlp.make_doc(TEXTS[0])]
    rules.add_patterns([{"label": "RULE", "pattern": word} for word in words])
    nlp.add_pipe("hardner", config={"model": MODEL})
    doc = nlp(TEXTS[0])
    alone = pipeline()(TEXTS[0])
    ours = [(e.start, e.end, e.label_) for e in alone.ents]
    assert [(e.start, e.end, e.label_) for e in doc.ents if e.label_ != "RULE"] == ours
    taken = {i for start, end, _ in ours for i in range(start, end)}
    assert {e.start for e in doc.ents if e.label_ == "RULE"} == set(range(len(doc))) - taken


def test_a_saved_pipeline_needs_nothing_else(tmp_path: Path) -> None:
    nlp = pipeline(labels=["Gene", "Species"], min_score=0.1)
    nlp.get_pipe("hardner")._folder = "/nowhere"
    nlp.get_pipe("hardner")._predictor = predictor()
    nlp.config["components"]["hardner"]["model"] = "/nowhere"
    nlp.to_disk(tmp_path / "nlp")
    again = spacy.load(tmp_path / "nlp")
    assert [seen(doc) for doc in again.pipe(TEXTS)] == [seen(doc) for doc in nlp.pipe(TEXTS)]
    assert again.get_pipe("hardner").labels == ("Gene", "Species")


def test_bytes_hold_everything() -> None:
    nlp = pipeline(min_score=0.2)
    other = pipeline(model="/nowhere")
    other.from_bytes(nlp.to_bytes())
    assert seen(other(TEXTS[0])) == seen(nlp(TEXTS[0]))
    assert other.get_pipe("hardner").labels == predictor().labels


def test_labels_are_those_of_the_model() -> None:
    nlp = pipeline()
    nlp("a")
    assert nlp.pipe_labels["hardner"] == list(predictor().labels)


def test_wrong_settings_are_one_clear_line() -> None:
    with pytest.raises(HardnerError, match=r"from 0 to 1; got 2\.0"):
        pipeline(min_score=2.0)
    with pytest.raises(HardnerError, match="no such model folder"):
        pipeline(model="/nowhere")("text")
    with pytest.raises(HardnerError, match="the model has no label 'Device'"):
        pipeline(labels=["Device"])("text")
