"""Types that are described: found without an example, and where learning begins."""

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest
import torch
from adapt.adapted import DRUGS, RULE, describing, knowing, known
from formats.command import Command

from hardner.adapt import adapter as fitting
from hardner.adapt.label_start import begin_described
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.formats import Report, write
from hardner.model.tagger import Model, described_decoder
from hardner.schemes import TagSet, spans_to_tags
from hardner.tag.doubts import DescribedTypes
from hardner.tag.heads import (
    WITHOUT_EXAMPLE,
    drop_labels,
    keep_labels,
    merge_models,
    origin_of,
)
from hardner.tag.predictor import Predictor
from hardner.types import Document, Entity, Sentence

MEANT = {"Drug": "a chemical that is given as a treatment"}
TEXT = "Aspirin inhibits COX-2 in mice."


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)


@pytest.fixture(autouse=True)
def _quick(quick: None) -> None:
    """All fits here are by the quick rule."""


def found(predictor: Predictor, sentences: tuple[Sentence, ...] = DRUGS) -> list[object]:
    return list(predictor.spans(sentences))


def test_several_types_share_one_pass_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    own = describing()
    more = own.with_types({"Device": "an implant", "Cell line": ""})
    assert more.labels == (*own.labels, "Device", "Cell line")
    assert more.tagger.encoder is own.tagger.encoder  # no copy, and so no second pass
    old = found(keep_labels(more, own.labels))
    assert old == found(own)
    assert len(more.temperatures) == 4 and more.temperatures[:2] == own.temperatures
    made = described_decoder(
        Model(own.tagger, own.params), TagSet("Device", ("Device",)), {"Device": "an implant"}
    )
    assert torch.equal(more.params["decoder.weight"][:, 2:3], made["decoder.weight"])
    assert not more.params["decoder.transitions"][:, 2:].any()
    alone = own.with_types({"Device": "an implant"})
    assert found(keep_labels(alone, ["Device"])) == found(keep_labels(more, ["Device"]))


def test_a_described_type_is_kept_with_its_description(tmp_path: Path) -> None:
    more = knowing().with_types(MEANT)
    assert found(more) != found(knowing())
    more.save(tmp_path / "model")
    back = Predictor.load(tmp_path / "model")
    assert found(back) == found(more)
    origin = back.origins["Drug"]
    assert origin.description == MEANT["Drug"] and origin.began == WITHOUT_EXAMPLE
    again = back.with_types({"Device": ""})  # the folder keeps the label encoder
    assert found(keep_labels(again, ["Drug"])) == found(keep_labels(more, ["Drug"]))


def test_a_label_that_is_there_is_not_made_anew() -> None:
    with pytest.raises(HardnerError, match="finds 'Gene' already"):
        describing().with_types({"Gene": "a unit of heredity"})
    with pytest.raises(HardnerError, match="makes no types of their names"):
        known().with_types(MEANT)


def test_added_types_leave_the_label_encoder_to_the_first_copy() -> None:
    """With ``keep``, its encoder is as it was; without, what it has learnt is of another."""
    kept = adapt_predictor(describing(), DRUGS, "Drug", keep=True).predictor
    both = kept.with_types({"Device": "an implant"})
    assert both.labels == ("Gene", "Species", "Device", "Drug")
    assert found(keep_labels(both, ["Drug"])) == found(keep_labels(kept, ["Drug"]))
    plain = describing().with_types({"Device": "an implant"})
    assert found(keep_labels(both, ["Device"])) == found(keep_labels(plain, ["Device"]))
    for without in (
        adapt_predictor(describing(), DRUGS, "Drug").predictor,
        keep_labels(kept, ["Drug"]),
    ):
        assert without.tagger.label_encoder is None
        assert not [name for name in without.params if name.startswith("labels.")]
    merged = merge_models(
        [drop_labels(both, ["Drug"]), adapt_predictor(known(), DRUGS, "Drug").predictor]
    )
    assert merged.labels[-1] == "Drug" and merged.tagger.label_encoder


def test_learning_begins_with_a_description_that_helps() -> None:
    result = adapt_predictor(knowing(), DRUGS, "Drug", descriptions=MEANT)
    (row,) = result.report.types
    assert row.began and row.description == MEANT["Drug"]
    origin = result.predictor.origins["Drug"]
    assert origin.description == MEANT["Drug"]
    assert origin.began == "its description, and the model's own encoder"


def test_learning_does_not_begin_with_one_that_says_nothing() -> None:
    meant = adapt_predictor(describing(), DRUGS, "Drug", descriptions=MEANT)
    plain = adapt_predictor(describing(), DRUGS, "Drug")
    (row,) = meant.report.types
    assert row.began is False and row.description
    assert found(meant.predictor) == found(plain.predictor)


def test_a_description_is_worth_what_it_says_beyond_how_rare_mentions_are() -> None:
    (adapter,) = fitting.adapters_for(knowing(), ["Drug"], {})
    begun, worth = begin_described(adapter, DRUGS, MEANT)
    # The best of all scores that are the same for every word, by a finer and finer grid.
    centre, width = (0.0, 0.0), 8.0
    for _ in range(12):
        steps = [width * (step / 4 - 1) for step in range(9)]
        every = [(centre[0] + x, centre[1] + y) for x in steps for y in steps]
        centre, width = min(every, key=blind_loss), width / 2
    assert worth["Drug"].rarity == pytest.approx(blind_loss(centre), rel=1e-3)
    assert worth["Drug"].helps and begun.begins_with("Drug")
    started = begun.start([fitting.Sample(DRUGS)])
    assert worth["Drug"].loss == pytest.approx(adapter.losses(started, DRUGS)[0])


def blind_loss(scores: tuple[float, float]) -> float:
    """A CRF's mean loss where B and I have a score, ``O`` 0, and I follows B or I alone."""
    begin, inside = scores
    total = 0.0
    for sentence in DRUGS:
        tags = spans_to_tags(sentence.spans, len(sentence))
        paths = (1.0, exp(begin), 0.0)  # that end in O, B, I
        for _ in tags[1:]:
            every = sum(paths)
            paths = (every, every * exp(begin), (paths[1] + paths[2]) * exp(inside))
        right = sum({"O": 0.0, "B": begin, "I": inside}[tag[0]] for tag in tags)
        total += log(sum(paths)) - right
    return total / len(DRUGS)


@pytest.mark.parametrize("seed", range(3))
def test_a_label_encoder_that_knows_nothing_never_helps(seed: int) -> None:
    own = describing()
    params = own.params | {
        n: p for n, p in own.tagger.init(seed).items() if n.startswith("labels.")
    }
    (adapter,) = fitting.adapters_for(replace(own, params=params), ["Drug"], {})
    _, worth = begin_described(adapter, DRUGS, MEANT)
    assert not worth["Drug"].helps


def test_what_is_described_must_be_learnt() -> None:
    with pytest.raises(HardnerError, match="Device is described and not learnt; learnt are Drug"):
        adapt_predictor(describing(), DRUGS, "Drug", descriptions={"Device": ""})


def test_a_model_that_reads_no_descriptions_says_so_and_learns() -> None:
    result = adapt_predictor(known(), DRUGS, "Drug", descriptions=MEANT)
    assert any("descriptions are not read" in note for note in result.report.notes)
    assert result.report.types[0].began is None
    assert result.predictor.origins["Drug"].description == MEANT["Drug"]


def test_a_poor_description_is_told_by_its_scores() -> None:
    tagger = describing().with_types(MEANT)
    document = Document("d", TEXT)

    def said(*scores: float) -> list[str]:
        watching = DescribedTypes(tagger)
        entities = tuple(Entity(0, 1, "Drug", "A", score) for score in scores)
        other = (Entity(0, 1, "Gene", "A", 0.1),)  # learnt from examples: none of its business
        assert len(list(watching.watch([replace(document, entities=entities + other)]))) == 1
        return list(watching.poor())

    assert said(0.9, 0.8) == []
    assert "expect 30% to be right" in said(0.2, 0.4)[0]
    assert "finds nothing" in said()[0]
    assert not list(DescribedTypes(tagger).poor())  # no text, no judgement
    assert not list(DescribedTypes(tagger, ["Gene"]).poor())


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("start") / "model"
    knowing().save(made)
    return made


def test_tagging_with_types(call: Command, model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(" ".join(DRUGS[0].tokens), "utf-8")
    arguments = ["tag", text, "--model", model, "--to", "jsonl", "--labels", "Drug"]
    code, said, err = call(*arguments, "--type", f"Drug: {MEANT['Drug']}", "--type", "Device")
    assert code == 0 and {e["label"] for e in json.loads(said)["entities"]} == {"Drug"}
    assert "Device" not in err  # it was not asked for
    code, said, err = call(*arguments[:-1], "Device", "--type", "Device", "--threshold", "1")
    assert code == 0 and "Device: its description finds nothing" in err
    # A threshold for all, beside one of a label, is one for described types too.
    both = ["--threshold", "1", "--threshold", "Gene=0.5"]
    assert "finds nothing" in call(*arguments, "--type", f"Drug: {MEANT['Drug']}", *both)[2]
    for wrong in (["--type", ": a text"], ["--type", "Device", "--type", "Device: again"]):
        assert call(*arguments, *wrong)[0] == 2
    assert "already" in call(*arguments, "--type", "Gene")[2]
    ray = call(*arguments, "--type", "Device", "--engine", "ray", "--out", tmp_path / "shards")
    assert ray[0] == 1 and "with_types" in ray[2]
    meant = ["--type", f"Drug: {MEANT['Drug']}"]
    assert call(*arguments, *meant, "--workers", "2")[1] == call(*arguments, *meant)[1] != ""


def test_adapting_with_a_description(call: Command, model: Path, tmp_path: Path) -> None:
    drugs, out = tmp_path / "drugs.tsv", tmp_path / "out"
    write([Document("d", "", sentences=DRUGS)], drugs, report=Report())
    arguments = ["adapt", drugs, "--model", model, "--label", "Drug", "--out", out, "--json"]
    code, said, _ = call(*arguments, "--description", MEANT["Drug"])
    record = json.loads(said)
    assert code == 0
    assert record["began_with_description"] and record["description"] == MEANT["Drug"]
    code, said, _ = call(*arguments[:-1], "--force", "--description", MEANT["Drug"])
    assert code == 0 and "began with the description: it says more of the sentences" in said
    code, said, _ = call("model", "show", out)
    assert code == 0 and f"Drug, described as {MEANT['Drug']!r}: learnt on" in said
    assert call(*arguments, "--description", "a", "--description", "b", "--force")[0] == 2


def test_a_model_shows_what_it_was_made_of(call: Command, tmp_path: Path) -> None:
    describing().with_types(MEANT).save(tmp_path / "model")
    code, said, _ = call("model", "show", tmp_path / "model")
    assert code == 0
    assert f"of {WITHOUT_EXAMPLE}, described as {MEANT['Drug']!r}" in said
    assert "labels" in said  # the part of the network


def test_an_onnx_model_finds_described_types_as_well() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from hardner.export.onnx import to_onnx

    more = knowing().with_types(MEANT)
    made = to_onnx(more)
    assert made.tagger.label_encoder is None and made.labels == more.labels
    spans = [[s for s, _ in own] for own in more.spans(DRUGS, labels=["Drug"])]
    assert [[s for s, _ in own] for own in made.spans(DRUGS, labels=["Drug"])] == spans
    assert any(spans)


def test_a_type_that_is_gone_on_with_keeps_its_description() -> None:
    own = replace(knowing(), start=None)
    first = own.adapt(DRUGS[:6], descriptions=MEANT, keep=True, keep_sentences=True)
    again = first.adapt(DRUGS[6:], continued=True)
    origin = origin_of(again, "Drug")
    assert origin and origin.description == MEANT["Drug"]
