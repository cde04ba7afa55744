"""Scores against seqeval, the definition of each kind of error, and the counts on tensors."""

import warnings

import numpy as np
import pytest
import torch
from evaluate.strategies import LABELS, corpora
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from hardner.batch import TagSet
from hardner.evaluate.counts import COUNTED, count_outcomes, marks_of, read_marks
from hardner.evaluate.score import Breakdown, Score, breakdown, error_kind, score, score_labels
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
    assert score_labels(gold, found) == {"Drug": Score(0, 0, 1), "Gene": Score(1, 1, 1)}


def test_kinds_by_example():
    gold = [(Span(0, 2, "Drug"), Span(3, 4, "Gene"), Span(5, 7, "Drug"), Span(8, 9, "Gene"))]
    found = [(Span(0, 1, "Drug"), Span(3, 4, "Drug"), Span(7, 8, "Drug"), Span(8, 9, "Gene"))]
    total = sum(breakdown(gold, found).values(), Breakdown())
    assert total == Breakdown(
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
    for label, parts in breakdown(gold, predicted).items():
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


def tensors(sides, tag_set, width):
    index = {tag: i for i, tag in enumerate(tag_set.tags)}
    rows = np.full((len(sides), width), -1)
    for row, (spans, length) in zip(rows, sides, strict=True):
        row[:length] = [index[tag] for tag in spans_to_tags(spans, length, tag_set.scheme)]
    return torch.from_numpy(rows)


@given(st.lists(corpora, min_size=1, max_size=2), st.sampled_from(["IOB2", "IOBES"]))
def test_counts_on_tensors_are_the_same(models, scheme):
    """Many models at once, in either scheme, against one set of right spans."""
    size = min(map(len, models))
    right = models[0][:size]
    width = max(length for length, *_ in right) + 1
    own, theirs = TagSet("own", LABELS, scheme), TagSet("right", LABELS)
    gold = tensors([(spans, length) for length, spans, _ in right], theirs, width)
    found, expected = [], []
    for model in models:
        ours = [
            (tuple(s for s in spans if s.end <= length), length)
            for (_, _, spans), (length, *_) in zip(model[:size], right, strict=True)
        ]
        found.append(tensors(ours, own, width))
        expected.append(breakdown([spans for _, spans, _ in right], [spans for spans, _ in ours]))
    cpu = torch.device("cpu")
    counts = count_outcomes(
        read_marks(marks_of(theirs, LABELS, cpu), gold.unsqueeze(0)),
        read_marks(marks_of(own, LABELS, cpu), torch.stack(found)),
        len(LABELS),
    )
    for model, parts in zip(counts.tolist(), expected, strict=True):
        for label, row in zip(LABELS, model, strict=True):
            named = Breakdown(**dict(zip(COUNTED, row, strict=True)))
            assert named == parts.get(label, Breakdown())
