"""Long texts in bounded pieces: every token is the business of exactly one."""

from itertools import pairwise

import pytest
import small_models as models
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from hardner.tag import windows as cutting
from hardner.tag.windows import (
    _CONTEXT,
    LONGEST_WINDOW,
    ScoredMention,
    best_mentions,
    tag_in_order,
    windows_of_text,
    windows_of_tokens,
)
from hardner.text import sentences
from hardner.types import Document


@settings(max_examples=200)
@given(st.integers(0, 3 * LONGEST_WINDOW), st.integers(0, 50))
def test_every_token_is_owned_once_and_has_context(count: int, first: int) -> None:
    pieces = list(windows_of_tokens([str(i) for i in range(count)], first))
    owned = [at for piece in pieces for at in range(*piece.own)]
    assert owned == list(range(first, first + count))
    for piece in pieces:
        assert len(piece.tokens) == len(piece.offsets) <= LONGEST_WINDOW
        assert piece.tokens == tuple(str(start - first) for start, _ in piece.offsets)
        left, right = piece.own[0] - piece.offsets[0][0], piece.offsets[-1][1] - piece.own[1]
        assert piece.cut == (count > LONGEST_WINDOW)
        assert left == (0 if piece is pieces[0] else _CONTEXT)
        assert right == (0 if piece is pieces[-1] else _CONTEXT)


@given(st.text(alphabet="ab1 .\n\t(β́", max_size=300), st.sampled_from([0, 20, LONGEST_WINDOW]))
def test_tokens_are_those_of_the_sentences(text: str, short: int) -> None:
    expected = [s.offsets for s in sentences(Document("d", text))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SHORT", short)
        pieces = list(windows_of_text(Document("d", text)))
    assert [piece.offsets for piece in pieces] == expected
    for piece in pieces:
        assert piece.tokens == tuple(text[a:b] for a, b in piece.offsets)
        assert (piece.own, piece.cut) == ((piece.offsets[0][0], piece.offsets[-1][1]), False)


def test_a_text_without_a_sentence_break_is_tagged_from_end_to_end() -> None:
    predictor = models.predictor()
    words = [w for s in tiny.everything("test")[0] for w in s.tokens if w.isalnum()]
    text = " ".join(words[i % len(words)] for i in range(4 * LONGEST_WINDOW))
    assert len(sentences(Document("d", text))) == 1
    found = predictor(text)
    assert all(entity.text == text[entity.start : entity.end] for entity in found)
    steps = [entity.start for entity in found]
    assert max(b - a for a, b in pairwise(steps)) < len(text) / 20
    assert max(steps) > 0.98 * len(text)
    places = [(e.start, e.end, e.label) for e in found]
    assert len(set(places)) == len(places)
    for label in predictor.labels:
        own = [e for e in found if e.label == label]
        assert all(a.end <= b.start for a, b in pairwise(own))


def test_five_megabytes_without_a_break_stay_bounded() -> None:
    """Neither spaces nor stops: one token, which no network reads whole."""
    predictor = models.predictor()
    (piece,) = windows_of_text(Document("d", "a" * 5_000_000))
    assert len(piece.tokens[0]) == cutting._READ
    (entities,) = predictor.pipe(["a" * 5_000_000])
    assert all(e.end == 5_000_000 for e in entities)
    most = 0
    for piece in windows_of_text(Document("d", "word " * 1_000_000)):
        most = max(most, len(piece.tokens))
    assert most == LONGEST_WINDOW


def test_pieces_that_disagree_at_a_seam() -> None:
    marks = [
        ScoredMention(0, 4, "A", 0.5, 0),
        ScoredMention(3, 6, "A", 0.9, 0),
        ScoredMention(5, 8, "B", 0.8, 0),  # overlaps a better one of its head
        ScoredMention(2, 9, "C", 0.1, 1),  # of another head and label
        ScoredMention(4, 7, "A", 0.7, 2),  # of another head, but overlaps a better one of its label
    ]
    assert best_mentions(marks) == [
        ScoredMention(2, 9, "C", 0.1, 1),
        ScoredMention(3, 6, "A", 0.9, 0),
    ]


def test_order_is_kept_whatever_the_lengths() -> None:
    things = [(n, windows_of_tokens(["w"] * size)) for n, size in enumerate([3, 0, 600, 1, 0, 2])]
    seen: list[int] = []

    def tag(pieces: list[cutting.Window]) -> list[list[ScoredMention]]:
        seen.append(len(pieces))
        return [[ScoredMention(0, 1, "X", 0.5, 0)] for _ in pieces]

    found = list(tag_in_order(things, tag, 2))
    assert [number for number, _ in found] == list(range(6))
    assert [len(marks) for _, marks in found] == [1, 0, 1, 1, 0, 1]
    assert max(seen) <= 2


def test_the_buffer_is_bounded_in_tokens_too() -> None:
    seen: list[int] = []

    def tag(pieces: list[cutting.Window]) -> list[list[ScoredMention]]:
        seen.append(len(pieces))
        return [[] for _ in pieces]

    things = ((n, windows_of_tokens(["x"] * 300)) for n in range(10))
    assert [number for number, _ in tag_in_order(things, tag, 10)] == list(range(10))
    assert seen == [3, 3, 3, 1]
