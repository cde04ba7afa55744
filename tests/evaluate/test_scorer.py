"""Scores are those of what users get: one decoding path for figures and for users."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from adapt.adapted import RULE, known
from evaluate.test_protocol import system
from formats.command import Command

import hardner
from hardner.adapt.adapter import Adapter
from hardner.adapt.sample import Sample
from hardner.corpora import load_corpus
from hardner.evaluate.runners import runner_for
from hardner.evaluate.score import ErrorCounts, Scorer, count_errors
from hardner.formats.conll import read_sentences
from hardner.model.tagger import Model
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
from hardner.types import Sentence

LONG = Sentence(tuple(["gene", "of", "IL-2", "and", "BRCA1", "."] * 200))
"""Longer than a window."""


def model(kind: str, scheme: str = "IOB2") -> Model:
    whole = tiny.tagger(kind, "crf", scheme)
    return Model(whole, {name: value.float() for name, value in tiny.params(whole).items()})


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_scored_spans_are_those_that_users_get(kind: str, scheme: str) -> None:
    predictor = Predictor(*model(kind, scheme))
    sentences = [*tiny.sentences("Gene", "test"), Sentence(()), LONG]
    scorer, spans = Scorer(sentences), 0
    for domain, tag_set in zip(tiny.DOMAINS, predictor.tagger.tag_sets, strict=True):
        found = scorer.predictions(predictor, domain)
        users = predictor.spans(sentences, labels=tag_set.labels)
        assert found == [tuple(span for span, _ in own) for own in users]
        assert scorer(predictor, domain) == count_errors([s.spans for s in sentences], found)
        spans += sum(map(len, found))
    assert spans > 5


def test_sentences_are_encoded_once_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Predictor(*model("bilstm")), Predictor(*model("bilstm"))
    scorer = Scorer(tiny.sentences("Gene", "test"))
    expected = scorer(one)
    monkeypatch.setattr(type(one.tagger), "store", None)
    assert scorer(other) == expected


def test_the_bundled_model_scores_what_it_tags() -> None:
    tagger = hardner.load()
    for path in sorted((tiny.ROOT).glob("*/test.tsv")):
        sentences = list(read_sentences(path))
        found = Scorer(sentences).predictions(tagger)
        for sentence, spans in zip(sentences, found, strict=True):
            alone = tagger.spans([sentence])[0]
            assert spans == tuple(span for span, _ in alone)


def test_labels_without_a_decoder_are_missed() -> None:
    sentences = tiny.sentences("Drug", "test")
    found = Scorer(sentences)(Predictor(*model("bilstm")), "Gene")
    total = sum(found.values(), ErrorCounts()).score
    assert total.tp == 0
    assert total.fn == sum(len(s.spans) for s in sentences)


def test_the_evaluation_finds_what_users_get(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same fitted parameters, as they run here: in bfloat16 where the CPU multiplies it."""
    model, shots = Model(known().tagger, known().params), 9
    made = replace(system(model), adaptation=RULE)
    corpus = load_corpus("Drug", tiny.ROOT)
    drawn = {0: {corpus.name: tuple(range(shots))}}
    run = runner_for(made, [corpus], {corpus.name: corpus.train}, predictions=True)
    (found,) = run(shots, drawn)
    (evaluated,) = found.predictions

    labels = {span.label for sentence in corpus.train for span in sentence.spans}
    adapter = Adapter(model, [TagSet("Drug", tuple(labels))], RULE)
    seed = (corpus.name, repr(shots), 0, made.seed)
    params = adapter.fit([Sample(corpus.train[:shots], seed)])
    users = Predictor(adapter.tagger, params, (0.6,))
    assert [tuple(s for s, _ in own) for own in users.spans(corpus.test)] == evaluated
    users.save(tmp_path / "model")
    tagged = tmp_path / "tagged.tsv"
    command = Command(capfd, monkeypatch)
    given = tiny.ROOT / "Drug" / "test.tsv"
    assert command("tag", given, "--model", tmp_path / "model", "--out", tagged)[0] == 0
    assert [sentence.spans for sentence in read_sentences(tagged)] == evaluated
    assert sum(map(len, evaluated)) > 5
