"""Mistakes by example, and against the counts of the scores."""

from collections import Counter

from evaluate.strategies import corpora
from hypothesis import given

from hardner.evaluate.errors import Mistake, PredictedSentence, find_mistakes
from hardner.evaluate.score import ErrorCounts, count_errors
from hardner.types import Sentence, Span

WORDS = ("the", "renal", "cell", "carcinoma", "of", "the", "old", "mouse", "was", "small")


def predicted(right, found, words=WORDS, name="s1"):
    return PredictedSentence(Sentence(words, tuple(right), name), tuple(found))


def test_by_example():
    cut = predicted([Span(1, 4, "Disease")], [Span(2, 4, "Disease")])
    (once,) = find_mistakes([cut])
    assert once == Mistake(
        "boundary",
        ("renal cell carcinoma", "Disease"),
        ("cell carcinoma", "Disease"),
        1,
        "the [renal {cell carcinoma}] of the old mouse was small",
        "s1",
    )
    other = predicted([Span(7, 8, "Species")], [Span(7, 8, "Gene")], name="s2")
    found = find_mistakes([other, cut, cut, predicted([Span(9, 10, "Size")], [Span(0, 1, "Gene")])])
    assert [(m.kind, m.count) for m in found] == [
        ("boundary", 2),
        ("type", 1),
        ("missed", 1),
        ("spurious", 1),
    ]
    assert found[1].right == ("mouse", "Species")
    assert found[1].found == ("mouse", "Gene")
    assert found[2].context == "… carcinoma of the old mouse was [small]"
    assert found[3].context == "{the} renal cell carcinoma of the old …"


def test_the_commonest_come_first_with_the_first_place_seen():
    one = predicted([Span(7, 8, "Species")], [], name="s1")
    two = predicted([Span(3, 4, "Disease")], [], name="s2")
    found = find_mistakes([two, one, one])
    assert [(m.right[0], m.count, m.sentence) for m in found] == [
        ("mouse", 2, "s1"),
        ("carcinoma", 1, "s2"),
    ]


def test_a_long_find_over_two_right_ones_is_two_find_mistakes():
    both = predicted([Span(1, 2, "A"), Span(3, 4, "A")], [Span(1, 4, "A")])
    assert [(m.kind, m.right[0]) for m in find_mistakes([both])] == [
        ("boundary", "carcinoma"),
        ("boundary", "renal"),
    ]


@given(corpora)
def test_every_wrong_mention_is_in_a_mistake(found):
    held = [
        predicted(right, ours, tuple("w" * length), str(i))
        for i, (length, right, ours) in enumerate(found)
    ]
    counts = Counter()
    both = [p.sentence.spans for p in held], [p.found for p in held]
    total = sum(count_errors(*both).values(), ErrorCounts())
    for mistake in find_mistakes(held):
        counts[mistake.kind] += mistake.count
    assert counts["missed"] == total.missed
    assert counts["spurious"] == total.spurious
    for kind, fp, fn in (
        ("boundary", total.fp_boundary, total.fn_boundary),
        ("type", total.fp_type, total.fn_type),
    ):
        assert counts[kind] >= fn
        assert counts[kind] <= fp + fn
