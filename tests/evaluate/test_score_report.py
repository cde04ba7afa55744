"""Scores on labelled data of one's own: against seqeval, brute force, and by hand."""

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from evaluate.strategies import LABELS, corpora
from hypothesis import given, settings
from seqeval.metrics import classification_report
from seqeval.scheme import IOB2
from tag import small_models as models

from hardner.errors import HardnerError
from hardner.evaluate.own_data import GoldData, read_gold
from hardner.evaluate.score import score
from hardner.evaluate.score_report import compare_data, score_data
from hardner.evaluate.significance import bootstrap_sums, f1_of_sums, permutation_test_f1
from hardner.formats import write
from hardner.schemes import spans_to_tags
from hardner.types import Document, Entity, Sentence, Span, seed_of

TEXT = "Aspirin may worsen asthma in mice. BRCA1 is a gene; p53 is one too."


def made(found: Any) -> tuple[GoldData, list[Any], list[Any]]:
    """Data with the right spans of random sentences; what is found, and nothing at all."""
    held = [
        Sentence(tuple(f"w{i}" for i in range(length)), right, f"s{number}")
        for number, (length, right, _) in enumerate(found)
    ]
    model = models.predictor()
    tag_sets = tuple(replace(tag_set, labels=LABELS) for tag_set in model.tagger.tag_sets)
    tagger = replace(model.tagger, tag_sets=tag_sets)
    data = read_gold(held, [replace(model, tagger=tagger)], LABELS)
    return data, [tuple((s, 0.5) for s in own) for _, _, own in found], [() for _ in found]


@given(corpora)
@settings(max_examples=30)
def test_each_labels_score_is_seqevals(found: Any) -> None:
    data, predicted, _ = made(found)
    report = score_data(data, predicted)
    tags = [
        [spans_to_tags(s, n) for (n, *_), s in zip(found, side, strict=True)]
        for side in ([right for _, right, _ in found], [own for _, _, own in found])
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where a ratio is not defined
        theirs = classification_report(
            *tags, mode="strict", scheme=IOB2, zero_division=0, output_dict=True
        )
    for row in report.to_records():
        name = "micro avg" if row["label"] == "all" else row["label"]
        if name not in theirs:
            assert row["mentions"] == row["found"] == 0
            continue
        right = theirs[name]
        said = [row["precision"], row["recall"], row["f1"], row["mentions"]]
        expected = [right["precision"], right["recall"], right["f1-score"], right["support"]]
        assert said == pytest.approx(expected)
        assert row["f1_low"] <= row["f1_high"]
    plain = score([s for _, s, _ in found], [s for _, _, s in found])
    assert report.total.counts.score == plain


def test_intervals_are_those_of_sentences_drawn_again() -> None:
    """Against a bootstrap that is written out, with other draws."""
    rng = np.random.default_rng(3)
    counts = np.stack([rng.integers(0, n, 80) for n in (3, 2, 2)], axis=1).astype(float)
    ours = np.quantile(f1_of_sums(bootstrap_sums(counts)), (0.025, 0.975))
    plain = []
    for _ in range(4000):
        tp, fp, fn = counts[rng.choice(80, 80)].sum(0)
        plain.append(2 * tp / (2 * tp + fp + fn))
    assert ours == pytest.approx(np.quantile(plain, (0.025, 0.975)), abs=0.015)


def test_documents_are_drawn_where_there_are_enough(tmp_path: Path) -> None:
    model = models.predictor()
    many = [Document(f"d{i}", TEXT, (Entity(0, 7, "Chemical", "Aspirin"),)) for i in range(20)]
    by_document = model.score(many)
    assert (by_document.unit, by_document.documents, len(by_document.sentences)) == (
        "document",
        20,
        40,
    )
    # Documents that are all alike leave no doubt; their sentences differ from each other.
    total = by_document.total.f1
    assert total.low == total.high == total.value
    few = model.score(many[:19])
    assert (few.unit, few.documents) == ("sentence", 19)


@given(corpora)
@settings(max_examples=20)
def test_the_permutation_test_goes_through_all_exchanges(found: Any) -> None:
    rng = np.random.default_rng(len(found))
    one = rng.integers(0, 3, (len(found), 3)).astype(float)
    other = rng.integers(0, 3, (len(found), 3)).astype(float)
    one[:, 2], other[:, 2] = 4 - one[:, 0], 4 - other[:, 0]
    seen = abs(f1_of_sums(other.sum(0)) - f1_of_sums(one.sum(0)))
    hits = 0
    for swapped in itertools.product((False, True), repeat=len(one)):
        pick = np.array(swapped)[:, None]
        a, b = np.where(pick, other, one).sum(0), np.where(pick, one, other).sum(0)
        hits += abs(f1_of_sums(b) - f1_of_sums(a)) >= seen - 1e-12
    assert permutation_test_f1(one, other) == pytest.approx(hits / 2 ** len(one))


def test_chance_alone_is_seldom_significant() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(60):
        right = rng.random((2, 60)) < 0.7
        one, other = (np.stack([r, ~r, ~r], axis=1).astype(float) for r in right)
        found.append(permutation_test_f1(one, other))
    assert sum(p < 0.05 for p in found) <= 8
    better = np.array([[1.0, 0, 0]] * 60)
    assert permutation_test_f1(one, better) < 0.001
    assert permutation_test_f1(one, one) == 1.0


GOLD = (
    Document(
        "paper",
        TEXT,
        (Entity(0, 7, "Chemical", "Aspirin"), Entity(19, 25, "Disease", "asthma")),
    ),
)


def test_what_changed_between_two_taggers() -> None:
    data = read_gold(GOLD, [models.predictor()])
    assert data.labels == ("Disease", "Chemical")
    assert data.notes == ("not scored, as the data has none of them: Gene, Species",)
    first, _ = data.sentences
    aspirin, asthma = first.sentence.spans
    may = Span(1, 2, "Chemical")
    before = [((aspirin, 0.9), (may, 0.4)), ()]
    after = [((aspirin, 0.8), (asthma, 0.7)), ((Span(0, 1, "Disease"), 0.5),)]
    report = compare_data(data, before, after)
    assert [(c["kind"], c["label"], c["text"]) for c in report.change_records()] == [
        ("gained", "Disease", "asthma"),
        ("false alarm gone", "Chemical", "may"),
        ("new false alarm", "Disease", "BRCA1"),
    ]
    gained, _, alarm = report.change_records()
    assert (gained["document"], gained["start"], gained["end"]) == ("paper", 19, 25)
    assert (alarm["start"], alarm["sentence"]) == (35, TEXT[35:])
    total = report.to_records()[-1]
    assert (total["label"], total["f1_before"], total["f1_after"]) == ("all", 0.5, 0.8)
    assert total["difference"] == pytest.approx(0.3)
    assert total["p"] == 1.0  # two sentences prove nothing


def test_a_tagger_scores_and_compares_as_it_tags(tmp_path: Path) -> None:
    model = models.predictor()
    write(list(GOLD), tmp_path / "gold.jsonl")
    report = model.score(tmp_path / "gold.jsonl", ["Disease", "Chemical"])
    found = {(e.start, e.end, e.label) for e in model(TEXT) if e.label in ("Disease", "Chemical")}
    gold = {(e.start, e.end, e.label) for e in GOLD[0].entities}
    counts = report.total.counts
    assert (counts.tp, counts.score.fp) == (len(found & gold), len(found - gold))
    assert len(report.error_records()) >= len(gold - found)
    strict = model.with_thresholds(1.0)
    assert strict.score(GOLD).total.counts.score.fp == 0
    told: list[tuple[int, int]] = []
    change = model.compare(strict, GOLD, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 4), (4, 4)]
    kinds = {c.kind for c in change.changes}
    assert kinds <= {"lost", "false alarm gone"}


UNHELD = Document(
    "d",
    "Antiaspirin drugs. Naive cells die.",
    (
        Entity(4, 11, "Chemical", "aspirin"),  # cuts a token
        Entity(12, 24, "Chemical", "drugs. Naive"),  # crosses the end of a sentence
        Entity(19, 34, "Chemical", "Naive cells die", fragments=((19, 24), (31, 34))),
    ),
)


def test_a_mention_without_a_span_counts_as_missed() -> None:
    report = models.predictor().with_thresholds(1.0).score([UNHELD])
    assert report.total.counts.missed == 3
    assert report.total.recall.value == 0
    assert report.notes[1] == "3 mentions cut a token, have gaps or cross sentences: counted missed"
    assert [(e["kind"], e["gold"]) for e in report.error_records()] == [
        ("missed", e.text) for e in UNHELD.entities
    ]
    first, _ = report.worst()
    assert first.as_document().id == "d, from character 0: 2 missed"


def test_data_of_any_kind() -> None:
    model = models.predictor()
    pairs = [(TEXT, [(0, 7, "Chemical")]), ("He went home.", [])]
    by_pair, by_document = model.score(pairs), model.score(GOLD, ["Chemical"])
    assert by_pair.total.counts.tp == by_document.total.counts.tp
    by_sentence = model.score(tiny.sentences("Gene"))
    assert len(tiny.sentences("Gene")) >= 20
    assert by_sentence.unit == "document"  # each sentence is on its own


def test_several_labels_of_the_data_may_be_one_of_the_models() -> None:
    entities = (
        Entity(0, 7, "DRUG", "Aspirin"),
        Entity(0, 7, "SALT", "Aspirin"),  # the same mention, once it is named alike
        Entity(29, 33, "Species", "mice"),
        Entity(1, 3, "SALT", "sp"),  # cuts a token
    )
    model = models.predictor()
    names = {"DRUG": "Chemical", "SALT": "Chemical"}
    report = model.score([Document("d", TEXT, entities)], label_map=names)
    rows = {row["label"]: row for row in report.to_records()}
    assert rows["Chemical"]["mentions"] == 2  # the one that cuts a token is missed
    assert rows["Species"]["mentions"] == 1
    plain = [replace(e, label=names.get(e.label, e.label)) for e in entities]
    same = model.score([Document("d", TEXT, (plain[0], *plain[2:]))])
    assert same.to_records() == report.to_records()
    changes = model.compare(model, [Document("d", TEXT, entities)], label_map=names)
    assert [row.label for row in changes.labels] == [row.label for row in report.labels]


@pytest.mark.parametrize(
    ("given", "labels", "said"),
    [
        (GOLD, "Disease", r"labels are a list or a set: labels=\['Disease'\]"),
        (GOLD, ["Device"], "the model has no label 'Device'"),
        ([("The stent.", [(4, 9, "Device")])], None, r"the data has Device \(1\), the model Dis"),
        ([Sentence(("a",), state="open")], None, "no labelled sentence to score on"),
        ([], None, "no labelled sentence to score on"),
        (None, None, "expected a path or labelled sentences, got None"),
        ("no-such-file.jsonl", None, "no such file or folder"),
    ],
)
def test_wrong_uses_are_one_line(given: Any, labels: Any, said: str) -> None:
    with pytest.raises(HardnerError, match=said):
        models.predictor().score(given, labels)


def test_what_is_left_out_is_said() -> None:
    other = Entity(5, 10, "Device", "stent")
    given = [
        Document("d", "Some stent in mice.", (other, Entity(14, 18, "Species", "mice"))),
        Document("e", "", sentences=(Sentence(("open",), state="open"),)),
    ]
    report = models.predictor().score(given)
    assert report.notes == (
        "not scored, as the model does not know them: Device (1)",
        "not scored, as the data has none of them: Disease, Chemical, Gene",
        "1 sentences that are not labelled to their end were left out",
    )
    # A label that is asked for counts, whether the model or the data knows it.
    asked = models.predictor().score(given, ["Device", "Gene"])
    assert asked.labels[0].counts.score.fn == 1
    assert asked.labels[1].recall.value == 0


def test_sentences_that_were_learnt_from_are_named() -> None:
    tokens = ("Some", "stent", "in", "mice", ".")
    model = replace(models.predictor(), learnt={"Species": {seed_of(*tokens)}})
    given = [Sentence(tokens, (Span(3, 4, "Species"),)), Sentence(("mice",), ())]
    (*_, said) = model.score(given).notes
    assert said == "the model has learnt from 1 of the 2 sentences: on new text expect less"
    assert "learnt" not in "".join(model.score(given, ["Gene"]).notes)


def test_partial_matches_count_half() -> None:
    pytest.importorskip("nervaluate", reason="nervaluate is not installed")
    tokens = ("the", "old", "renal", "cell", "carcinoma")
    given = [
        Sentence(tokens, (Span(2, 5, "Disease"),)),
        Sentence(("mice",), (Span(0, 1, "Species"),)),
    ]
    data = read_gold(given, [models.predictor()])
    found = [((Span(1, 5, "Disease"), 0.5),), ((Span(0, 1, "Species"), 0.5),)]
    report = score_data(data, found, partial=True)
    disease, species, total = report.to_records()
    assert (disease["f1"], disease["partial_f1"]) == (0.0, 0.5)
    assert (species["partial_f1"], total["partial_f1"]) == (1.0, 0.75)
    assert "partial_f1" not in score_data(data, found).to_records()[0]


def test_a_sentence_is_marked_where_it_is_wrong() -> None:
    tokens = ("the", "renal", "cell", "carcinoma", "of", "a", "mouse")
    given = [Sentence(tokens, (Span(1, 4, "Disease"), Span(6, 7, "Species")))]
    data = read_gold(given, [models.predictor()])
    cut = ((Span(2, 4, "Disease"), 0.5), (Span(0, 1, "Species"), 0.5), (Span(6, 7, "Disease"), 0.5))
    (own,) = score_data(data, [cut]).worst()
    assert own.marked() == "{the} [renal {cell carcinoma}] of a [{mouse}]"
    labels = [(e.text, e.label) for e in own.as_document().entities]
    assert labels == [
        ("renal cell carcinoma", "Disease boundary, gold"),
        ("cell carcinoma", "Disease boundary, found"),
        ("mouse", "Species type, gold"),
        ("mouse", "Disease type, found"),
        ("the", "Species spurious"),
    ]
    right = ((Span(1, 4, "Disease"), 0.5), (Span(6, 7, "Species"), 0.5))
    assert score_data(data, [right]).worst() == []
