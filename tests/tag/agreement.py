"""Whether two ways to compute find the same, but for rounding."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

TIES = 0.01
"""The share of spans that one way may find alone where it rounds products to a few digits: random
networks often can hardly choose between two tags."""


class Outcome(NamedTuple):
    spans: list[dict[Span, float]]
    hardness: list[float]


def outcome(
    predictor: Predictor, sentences: Sequence[Sentence], size: int | None = None
) -> Outcome:
    spans = predictor.spans(sentences, batch_size=size)
    return Outcome([*map(dict, spans)], predictor.hardness(sentences, batch_size=size))


def agree(ours: Outcome, theirs: Outcome, within: float, ties: float = 0.0) -> None:
    """Fails where scores or hardness lie further apart than that."""
    every, apart = 0, 0
    for left, right in zip(ours.spans, theirs.spans, strict=True):
        both = sorted(left.keys() & right.keys())
        assert [left[s] for s in both] == pytest.approx([right[s] for s in both], abs=within)
        every += len(left)
        apart += len(left.keys() ^ right.keys())
    assert every > 50
    assert apart <= ties * every
    assert theirs.hardness == pytest.approx(ours.hardness, rel=within)
