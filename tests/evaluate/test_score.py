"""Scores against seqeval, and the definition of each kind of error."""

import warnings

import pytest
from evaluate.strategies import corpora
from hypothesis import given
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from hardner.evaluate.score import ErrorCounts, Score, count_errors, error_kind, score
from hardner.schemes import spans_to_tags
from hardner.types import Span


@given(corpora)
def test_strict_micro_scores_are_seqevals(found):
    gold = [right for _, right, _ in found]
    predicted = [ours for _, _, ours in found]
    tags = [
        [spans_to_tags(s, n) for (n, *_), s in zip(found, side, strict=True)]
        for side in (gold, predicted)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where a ratio is not defined
        theirs = [
            metric(*tags, mode="strict", scheme=IOB2, zero_division=0)
            for metric in (precision_score, recall_score, f1_score)
        ]
    ours = score(gold, predicted)
    assert [ours.precision, ours.recall, ours.f1] == pytest.approx(theirs)


def test_undefined_ratios_are_zero():
    for empty in (Score(), Score(fp=2), Score(fn=2)):
        assert (empty.precision, empty.recall, empty.f1) == (0, 0, 0)


def test_scores_add_up():
    total = Score(1, 2, 3) + Score(4, 0, 1)
    assert total == Score(5, 2, 4)
    assert total.precision == 5 / 7
    assert total.recall == 5 / 9
    assert total.f1 == 10 / 16


def test_sentences_must_match():
    with pytest.raises(ValueError, match="shorter"):
        score([(), ()], [()])


def test_each_label_has_its_own_score():
    gold = [(Span(0, 1, "Drug"), Span(2, 4, "Gene")), (Span(0, 2, "Gene"),)]
    found = [(Span(0, 1, "Gene"), Span(2, 4, "Gene")), ()]
    counts = count_errors(gold, found)
    assert [(label, of.score) for label, of in counts.items()] == [
        ("Drug", Score(0, 0, 1)),
        ("Gene", Score(1, 1, 1)),
    ]


def test_kinds_by_example():
    gold = [(Span(0, 2, "Drug"), Span(3, 4, "Gene"), Span(5, 7, "Drug"), Span(8, 9, "Gene"))]
    found = [(Span(0, 1, "Drug"), Span(3, 4, "Drug"), Span(7, 8, "Drug"), Span(8, 9, "Gene"))]
    total = sum(count_errors(gold, found).values(), ErrorCounts())
    assert total == ErrorCounts(
        tp=1, fp_boundary=1, fp_type=1, spurious=1, fn_boundary=1, fn_type=1, missed=1
    )


def test_an_overlap_with_the_own_label_counts_before_others():
    assert error_kind(Span(0, 3, "Drug"), [Span(0, 1, "Gene"), Span(2, 3, "Drug")]) == "boundary"
    assert error_kind(Span(0, 3, "Drug"), [Span(0, 3, "Gene")]) == "type"
    assert error_kind(Span(0, 3, "Drug"), [Span(3, 4, "Drug")]) == "alone"


@given(corpora)
def test_kinds_part_the_errors(found):
    gold = [right for _, right, _ in found]
    predicted = [ours for _, _, ours in found]
    for label, parts in count_errors(gold, predicted).items():
        own = [
            [tuple(s for s in side if s.label == label) for side in (g, p)]
            for g, p in zip(gold, predicted, strict=True)
        ]
        right, wrong, lost = 0, 0, 0
        for g, p in own:
            right += len(set(g) & set(p))
            wrong += len(set(p) - set(g))
            lost += len(set(g) - set(p))
        assert parts.score == Score(right, wrong, lost)
