"""Lenient scores through nervaluate."""

import sys

import pytest
from evaluate.strategies import corpora
from hypothesis import given

from hardner.errors import HardnerError
from hardner.evaluate.score import lenient_scores, score
from hardner.types import Span

nervaluate = pytest.importorskip("nervaluate", reason="nervaluate is not installed")


def test_by_example():
    gold = [(Span(0, 2, "Drug"), Span(3, 4, "Gene"))]
    found = [(Span(0, 1, "Drug"), Span(3, 4, "Drug"))]
    scores = lenient_scores(gold, found)
    assert scores["strict"].f1 == 0
    assert scores["exact"].f1 == 0.5  # Gene's ends are right
    assert scores["partial"].f1 == 0.75  # and Drug's overlap counts half
    assert scores["type"].f1 == 0.5  # Drug's overlap, whatever its ends


def test_without_any_mention():
    assert lenient_scores([()], [()])["partial"].f1 == 0


@given(corpora)
def test_strict_agrees_with_ours(found):
    gold = [right for _, right, _ in found]
    predicted = [ours for _, _, ours in found]
    theirs = lenient_scores(gold, predicted)
    assert theirs["type"].f1 >= theirs["strict"].f1 - 1e-12
    ours = score(gold, predicted)
    assert theirs["strict"].recall == pytest.approx(ours.recall)


def test_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nervaluate", None)
    with pytest.raises(HardnerError, match=r"pip install 'hardner\[partial\]'"):
        lenient_scores([()], [()])
