"""Types dropped, renamed and merged: what stays is found exactly as before."""

import json
from dataclasses import astuple, replace
from pathlib import Path

import pytest
import tiny
import torch
from adapt.adapted import DRUGS, RULE, known
from formats.command import Command

import hardner
from hardner.adapt import adapter as fitting
from hardner.adapt.workflow import adapt_predictor
from hardner.errors import HardnerError
from hardner.model.encoders import EncoderWithCopies
from hardner.tag.heads import (
    data_hash,
    differences,
    drop_labels,
    keep_labels,
    merge_models,
    origin_of,
    rename_labels,
)
from hardner.tag.predictor import Predictor

TEXT = " ".join(" ".join(s.tokens) for s in (*DRUGS, *tiny.sentences("Gene")))


@pytest.fixture(scope="module")
def made() -> dict[str, Predictor]:
    """Drugs alone, and drugs beside what was known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "recipe_for", lambda preset, kind: RULE)
        patch.setenv("SOURCE_DATE_EPOCH", "1767225600")
        alone = adapt_predictor(known(), DRUGS).predictor
        beside = adapt_predictor(known(), DRUGS, keep=True).predictor
    return {"alone": alone, "beside": beside}


def of(model: Predictor, *labels: str) -> list[hardner.Entity]:
    return [entity for entity in model(TEXT) if entity.label in labels]


def test_a_type_is_dropped_and_the_others_are_found_as_before(made: dict[str, Predictor]) -> None:
    beside = made["beside"]
    left = drop_labels(beside, ["Species"])
    assert left.labels == ("Gene", "Drug")
    assert left(TEXT) == of(beside, "Gene", "Drug") != []
    assert left.temperatures == (beside.temperatures[0], beside.temperatures[2])
    assert (left.learnt, left.origins) == (beside.learnt, beside.origins)
    only = drop_labels(beside, ["Gene", "Species"])
    assert only(TEXT) == of(beside, "Drug") == made["alone"](TEXT)
    assert not isinstance(only.tagger.encoder, EncoderWithCopies)  # one pass again
    old = drop_labels(beside, ["Drug"])
    assert old(TEXT) == known()(TEXT) and not old.origins
    assert all(torch.equal(p, known().params[n]) for n, p in old.params.items())


def test_what_cannot_be_dropped_is_one_line(made: dict[str, Predictor]) -> None:
    with pytest.raises(HardnerError, match="no label 'Dog'"):
        drop_labels(made["alone"], ["Dog"])
    with pytest.raises(HardnerError, match="finds nothing; leave one"):
        drop_labels(made["alone"], ["Drug"])
    two = replace(known().tagger.tag_sets[0], labels=("Gene", "Protein"))
    tagger = known().tagger.with_domains([two, known().tagger.tag_sets[1]])
    shared = Predictor(tagger, tagger.init(0))
    with pytest.raises(HardnerError, match="Gene is found by one head with Protein; drop both"):
        drop_labels(shared, ["Gene"])
    assert drop_labels(shared, ["Gene", "Protein"]).labels == ("Species",)


def test_a_type_is_renamed_and_found_as_before(made: dict[str, Predictor], tmp_path: Path) -> None:
    found = rename_labels(
        made["beside"], {"Drug": "Medicine", "Gene": "Species", "Species": "Gene"}
    )
    assert found.labels == ("Species", "Gene", "Medicine")
    back = {"Species": "Gene", "Gene": "Species", "Medicine": "Drug"}
    named = [replace(entity, label=back[entity.label]) for entity in found(TEXT)]
    assert sorted(map(astuple, named)) == sorted(map(astuple, made["beside"](TEXT))) != []
    found.save(tmp_path / "m")
    again = Predictor.load(tmp_path / "m")
    assert again(TEXT) == found(TEXT)
    assert again.temperatures == made["beside"].temperatures
    origin = origin_of(again, "Medicine")
    assert origin is not None and origin.labels == ("Drug",)
    for wrong in ({"Drug": "Gene"}, {"Drug": " "}, {"Dog": "Cat"}):
        with pytest.raises(HardnerError):
            rename_labels(made["beside"], wrong)


def test_merged_models_find_what_each_found(made: dict[str, Predictor], tmp_path: Path) -> None:
    genes = keep_labels(known(), ["Gene"])
    both = merge_models([made["alone"], genes])
    assert both.labels == ("Drug", "Gene")
    assert of(both, "Drug") == made["alone"](TEXT) and of(both, "Gene") == genes(TEXT)
    other = rename_labels(made["beside"], {"Gene": "G", "Drug": "D"})
    every = merge_models([both, other])
    assert every.labels == ("Drug", "Gene", "G", "Species", "D")
    assert len(set(every.tagger.domains)) == 5
    assert of(every, "G", "Species", "D") == other(TEXT)
    assert of(every, "Drug", "Gene") == both(TEXT)
    every.save(tmp_path / "m")
    assert Predictor.load(tmp_path / "m")(TEXT) == every(TEXT)
    with pytest.raises(HardnerError, match="both models find 'Gene'; drop or rename it"):
        merge_models([genes, known()])
    whole = tiny.tagger("bilstm")
    with pytest.raises(HardnerError, match="different encoders"):
        merge_models([made["alone"], Predictor(whole, whole.init(0))])


def test_a_folder_says_where_its_types_come_from(
    made: dict[str, Predictor], tmp_path: Path
) -> None:
    made["beside"].save(tmp_path / "m")
    model = Predictor.load(tmp_path / "m")
    origin = origin_of(model, "Drug")
    assert origin is not None and origin_of(model, "Gene") is None
    assert origin == origin_of(made["beside"], "Drug")
    assert (origin.date, origin.sentences, origin.seed) == ("2026-01-01", 9, 0)
    assert origin.data == data_hash(reversed(DRUGS))
    assert origin.recipe["steps"] == RULE.steps and origin.versions["hardner"]
    assert len(origin.expected) == 3
    assert origin.began == "the model's own encoder"
    assert data_hash(DRUGS[1:]) != origin.data


def test_models_are_compared(made: dict[str, Predictor]) -> None:
    alone, beside = made["alone"], made["beside"]
    assert differences(alone, alone) == {}
    found = differences(alone, beside)
    assert found == {"Gene": {"type": (None, "there")}, "Species": {"type": (None, "there")}}
    origin = origin_of(alone, "Drug")
    assert origin is not None
    params = {n: p + 1 if n == "decoder.bias" else p for n, p in alone.params.items()}
    other = replace(alone, params=params, origins={"Drug": replace(origin, seed=4, sentences=3)})
    own = differences(alone, other)["Drug"]
    assert own == {"seed": (0, 4), "sentences": (9, 3), "numbers": ("these", "others")}


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


def test_the_commands(call: Command, made: dict[str, Predictor], tmp_path: Path) -> None:
    alone, beside, out = (tmp_path / name for name in ("alone", "beside", "out"))
    made["alone"].save(alone)
    made["beside"].save(beside)
    assert call("model", "drop", beside, "Gene", "--out", out)[0] == 0
    assert hardner.load(out).labels == ("Species", "Drug")
    code, _, err = call("model", "rename", out, "Drug=Medicine", "--out", out)
    assert code == 1 and "exists already" in err
    assert call("model", "rename", out, "Drug=Medicine", "--out", out, "--force")[0] == 0
    assert hardner.load(out).labels == ("Species", "Medicine")
    assert call("model", "rename", out, "Drug", "--out", out, "--force")[0] == 2
    assert call("model", "merge", out, "--out", tmp_path / "no")[0] == 2
    assert call("model", "merge", out, alone, "--out", tmp_path / "all")[0] == 0
    assert hardner.load(tmp_path / "all").labels == ("Species", "Medicine", "Drug")
    code, said, _ = call("model", "diff", alone, beside)
    assert (code, said) == (0, "Gene, type: nothing -> there\nSpecies, type: nothing -> there\n")
    assert call("model", "diff", alone, alone)[1].startswith("the same types")
    assert (
        json.loads(call("model", "diff", alone, beside, "--json")[1])["Gene"]["type"][1] == "there"
    )
    code, said, _ = call("model", "show", beside)
    assert code == 0 and "Gene: no record of an adaptation" in said
    assert "Drug: learnt on 2026-01-01 from" in said and "expected F1 0." in said
    assert json.loads(call("model", "show", beside, "--json")[1])["types"]["Drug"]["sentences"] == 9
    careful = tmp_path / "careful"
    assert call("model", "threshold", beside, "--out", careful)[0] == 2
    assert call("model", "threshold", beside, "--threshold", "Drug=0.7", "--out", careful)[0] == 0
    assert hardner.load(careful).thresholds == {"Gene": 0.0, "Species": 0.0, "Drug": 0.7}
    assert "; threshold 0.7\n" in call("model", "show", careful)[1]
