"""Heads of the bundled model that follow one corpus."""

import pytest
import torch
from formats.command import Command

import hardner
from hardner.catalogue import BENCHMARK
from hardner.errors import HardnerError
from hardner.tag.guidelines import (
    GuidelineHead,
    follow_guidelines,
    known_guidelines,
    save_guidelines,
)
from hardner.tag.predictor import BUNDLED_MODEL

TEXT = "Mutant p53 protein in HeLa cells and mice with breast cancer was inhibited by aspirin."


pytestmark = pytest.mark.skipif(
    not BUNDLED_MODEL.is_dir(), reason="no model comes with this checkout; make model"
)


@pytest.fixture(scope="module")
def bundled():
    return hardner.load()


def test_every_benchmark_corpus_has_its_guidelines(bundled):
    heads = known_guidelines()
    assert sorted(heads) == sorted(BENCHMARK)
    assert {head.label for head in heads.values()} <= set(bundled.labels)
    assert all(head.temperature > 0 for head in heads.values())


def test_one_head_changes_and_no_other(bundled):
    other = hardner.load(guidelines=["JNLPBA"])
    head, at = known_guidelines()["JNLPBA"], bundled.tagger.domains.index("Gene")
    for name, value in bundled.params.items():
        found = other.params[name]
        if name.startswith("decoder."):
            assert torch.equal(found[:, at : at + 1], head.decoder[name.removeprefix("decoder.")])
            rest = [i for i in range(found.shape[1]) if i != at]
            found, value = found[:, rest], value[:, rest]
        assert torch.equal(found, value), name
    assert other.temperatures[at] == head.temperature
    assert other.start == bundled.start
    said, as_before = other(TEXT), bundled(TEXT)
    assert [e for e in said if e.label != "Gene"] == [e for e in as_before if e.label != "Gene"]
    assert [e for e in said if e.label == "Gene"] != [e for e in as_before if e.label == "Gene"]


def test_what_cannot_be_followed(bundled):
    with pytest.raises(HardnerError, match=r"no guidelines 'PubMed'; there are NCBI-disease \(Dis"):
        follow_guidelines(bundled, ["PubMed"])
    with pytest.raises(HardnerError, match="JNLPBA and BC2GM both say what Gene is; choose one"):
        follow_guidelines(bundled, ["JNLPBA", "BC2GM"])
    with pytest.raises(HardnerError, match="only the model that comes with hardner"):
        hardner.load(BUNDLED_MODEL, guidelines=["JNLPBA"])


def test_heads_are_kept(tmp_path):
    decoder = {"weight": torch.randn(1, 1, 3, 4), "bias": torch.zeros(1, 1, 3)}
    save_guidelines({"A": GuidelineHead("Gene", 1.5, decoder)}, tmp_path / "heads")
    found = known_guidelines(tmp_path / "heads")["A"]
    assert found[:2] == ("Gene", 1.5)
    assert torch.equal(found.decoder["weight"], decoder["weight"])
    assert known_guidelines(tmp_path / "none") == {}


def test_the_command(capfd, monkeypatch, tmp_path):
    call = Command(capfd, monkeypatch)
    assert "JNLPBA\tGene\n" in call("model", "follow")[1]
    out = tmp_path / "model"
    assert call("model", "follow", "JNLPBA", "S800", "--out", out)[0] == 0
    made, expected = hardner.load(out), hardner.load(guidelines=["JNLPBA", "S800"])
    assert made(TEXT) == expected(TEXT)
    assert call("model", "follow", "JNLPBA")[0] == 2
    code, _, said = call("model", "follow", "JNLPBA", "--out", out)
    assert code == 1
    assert "exists already" in said
    code, _, said = call("model", "follow", "PubMed", "--out", out, "--force")
    assert code == 1
    assert "no guidelines 'PubMed'" in said
