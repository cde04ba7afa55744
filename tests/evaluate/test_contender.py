"""Contenders, their models and corpora, and the plans they are put through."""

import hashlib
from dataclasses import replace

import pytest
import tiny
import torch
from evaluate.test_protocol import PLAN, RULE, lines, system, trained
from shared import CORPORA

from hardner.adapt.adapter import equal_groups
from hardner.corpora import load_corpus
from hardner.errors import HardnerError
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.protocols import protocol, published_values
from hardner.evaluate.system import for_corpus, system_of_folder, with_word_vectors
from hardner.evaluate.table import share_reaching
from hardner.evaluate.training import write_folders
from hardner.meta.experiment import load_experiment
from hardner.model.describe import save_model
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.types import Corpus, Sentence, Span


def test_decoders_of_the_same_labels_are_averaged():
    one, two = (TagSet(name, ("Gene",)) for name in ("BC", "BN"))
    tagger = tiny.tagger("bilstm").with_domains([one, two])
    model = Model(tagger, tagger.init(0))
    corpus = load_corpus("Gene", tiny.ROOT)
    mean, domain = for_corpus(model, corpus)
    assert (mean.tagger.domains, domain) == (("BC",), 0)
    both = model.params["decoder.weight"]
    assert torch.allclose(mean.params["decoder.weight"][:, 0], (both[:, 0] + both[:, 1]) / 2)
    own, domain = for_corpus(model, replace(corpus, domain="BN"))
    assert own is model
    assert domain == 1


def test_a_model_folder_is_a_contender(tmp_path):
    model = trained()
    save_model(tmp_path / "mine", *model)
    made = system_of_folder(tmp_path / "mine", PLAN)
    assert (made.method, made.encoder, made.preset, made.seed) == ("mine", "bilstm", "paper", 0)
    made = replace(made, adaptation=RULE)
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=1)
    list(execute(plan, made, EvaluationFolders(tiny.ROOT, tmp_path / "a")))
    list(execute(plan, system(model), EvaluationFolders(tiny.ROOT, tmp_path / "b")))
    one, other = lines(tmp_path / "a")[0], lines(tmp_path / "b")[0]
    assert [one[k] for k in ("tp", "fp", "fn")] == [other[k] for k in ("tp", "fp", "fn")]


def test_lines_name_their_word_vectors_and_weights(tmp_path):
    save_model(tmp_path / "mine", *trained())
    path = tmp_path / "vectors.txt"
    path.write_text(f"zyxin{' 1.5' * 12}\n")
    plan = replace(PLAN, targets=("Gene",), sizes=(3,), samples=1)
    for name, vectors in (("plain", ""), ("with", str(path))):
        made = system_of_folder(tmp_path / "mine", PLAN, vectors=vectors)
        folders = EvaluationFolders(tiny.ROOT, tmp_path / name)
        list(execute(plan, replace(made, adaptation=RULE), folders))
    plain, with_vectors = (lines(tmp_path / name)[0] for name in ("plain", "with"))
    assert plain["vectors_hash"] == ""
    assert with_vectors["vectors_hash"] == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    assert plain["encoder_hash"] == with_vectors["encoder_hash"] != ""
    other = trained()
    other.params["decoder.bias"].add_(1)
    save_model(tmp_path / "other", *other)
    assert system_of_folder(tmp_path / "other", PLAN).encoder_hash != plain["encoder_hash"]


@pytest.mark.parametrize("size", ["three", "four"])
def test_mtbioner_names_the_corpora_that_it_is_tested_on(size):
    plan = protocol("multitask-3" if size == "three" else "multitask-4")
    assert set(load_experiment(f"mtbioner/{size}").data.corpora) == set(plan.targets)
    assert {key[3] for key in published_values() if key[0] == plan.name} == set(plan.targets)


@pytest.mark.shared("JNLPBA-5")
def test_mtbioner_is_tested_on_all_types_of_jnlpba():
    assert "JNLPBA-5" in protocol("multitask-4").targets
    test = load_corpus("JNLPBA-5", CORPORA).test
    assert sum(len(sentence.spans) for sentence in test) == 8662
    assert len({span.label for sentence in test for span in sentence.spans}) == 5


def test_words_that_the_model_does_not_know_get_their_vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    rows = {"zyxin": [float(i) for i in range(12)], "Zyxin": [1.0] * 12}
    path.write_text("".join(f"{w} {' '.join(map(str, v))}\n" for w, v in rows.items()))
    model = trained()
    known = model.tagger.encoder.vocabulary[0]
    text = [Sentence(("zyxin", "unheard-of", known))]
    more = with_word_vectors(model, str(path), text)
    assert more.tagger.encoder.vocabulary == (*model.tagger.encoder.vocabulary, "zyxin")
    row = more.params["frozen.words"][0, more.tagger.encoder.look_up("zyxin")]
    assert row.tolist() == rows["zyxin"]
    assert torch.equal(more.params["frozen.words"][:, :-1], model.params["frozen.words"])
    assert with_word_vectors(model, "", text) is model


def test_protocols_by_name():
    assert protocol("few-shot").sizes == (5, 10, 20, 50, 100)
    assert protocol("few_shot").samples == 20
    assert protocol("ratios").sizes[0] == 0.05
    with pytest.raises(HardnerError, match="no protocol 'zero-shot'; there are few_shot, "):
        protocol("zero-shot")


def test_where_a_method_passes_a_bound():
    curve = {0.1: 0.4, 0.5: 0.6, 1.0: 0.8}
    assert share_reaching(curve, 0.7) == pytest.approx(0.75)
    assert share_reaching(curve, 0.3) == 0.1
    assert share_reaching(curve, 0.6) == pytest.approx(0.5)
    assert share_reaching(curve, 0.9) is None
    assert share_reaching({}, 0.9) is None


def test_groups_are_equal():
    sizes = [equal_groups(20, most) for most in (0, 1, 7, 10, 13, 19, 20, 99)]
    assert sizes == [1, 1, 7, 10, 10, 10, 20, 20]


def test_joined_corpora_hold_both_labels(tmp_path):
    words = ("a", "b", "c", "d")
    one = Sentence(words, (Span(0, 2, "Disease"), Span(3, 4, "Disease")), "1")
    two = Sentence(words, (Span(1, 2, "Drug"), Span(2, 3, "Drug")), "1")
    disease = Corpus("A", "Disease", (one,), (), (one,))
    chem = Corpus("B", "Drug", (two,), (), (two,))
    for corpus in (disease, chem):
        write_folders(tmp_path, {corpus.name: (corpus.train, (), corpus.test)})
    rows = "".join(
        f'[{name}]\ndomain = "{name}"\ntrain = {{ path = "train.tsv" }}\n' for name in ("A", "B")
    )
    (tmp_path / "catalogue.toml").write_text(f'{rows}[Both]\njoins = ["A", "B"]\n')
    (both,) = load_corpus("Both", tmp_path).train
    assert both.spans == (Span(0, 2, "Disease"), Span(2, 3, "Drug"), Span(3, 4, "Disease"))


@pytest.mark.shared("BC5CDR")
def test_the_joined_corpus_is_both_of_its_parts():
    both = load_corpus("BC5CDR", CORPORA)
    parts = [load_corpus(f"BC5CDR-{part}", CORPORA) for part in ("disease", "chem")]
    spans = [sum(len(s.spans) for s in corpus.test) for corpus in (both, *parts)]
    assert 0.999 * sum(spans[1:]) <= spans[0] <= sum(spans[1:])
    assert {span.label for s in both.test for span in s.spans} == {"Disease", "Drug"}
