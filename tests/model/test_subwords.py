"""Every word is found again, however its sentence is cut into windows."""

from itertools import pairwise

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from hardner.errors import HardnerError
from hardner.features import Pieces, Splitter, overlap_of
from hardner.types import Sentence

FIRST, LAST, UNKNOWN = 1, 2, 3


def numbered(limit: int, overlap: int) -> Pieces:
    """The word ``7:3`` has the pieces 700, 701 and 702, so that a piece tells where it is from."""

    def split(word: str) -> list[int]:
        number, count = map(int, word.split(":"))
        return [100 * number + i for i in range(count)]

    return Pieces(split, FIRST, LAST, UNKNOWN, limit, overlap)


def sentence(counts: list[int]) -> Sentence:
    return Sentence(tuple(f"{n}:{count}" for n, count in enumerate(counts, start=1)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    overlap = draw(st.integers(1, 12))
    limit = draw(st.integers(overlap + 3, 40))
    return limit, overlap, draw(st.lists(st.integers(0, 14), max_size=40))


@given(cases())
def test_each_word_is_whole_in_the_window_it_is_taken_from(case):
    limit, overlap, counts = case
    pieces = numbered(limit, overlap)
    found = pieces.features([sentence(counts)])
    flat, heads = found.streams["pieces"][0], found.streams["heads"][0]
    assert len(heads) == len(counts)
    for number, (count, head) in enumerate(zip(counts, heads, strict=True), start=1):
        kept = [100 * number + i for i in range(min(count, overlap))] or [UNKNOWN]
        assert flat[head : head + len(kept)].tolist() == kept
        assert head // limit == (head + len(kept) - 1) // limit


@given(cases())
def test_windows_are_framed_full_and_overlap(case):
    limit, overlap, counts = case
    counts = [count or 1 for count in counts]  # so that no two pieces are the same
    flat = numbered(limit, overlap).features([sentence(counts)]).streams["pieces"][0]
    text = [100 * n + i for n, count in enumerate(counts, 1) for i in range(min(count, overlap))]
    windows = [flat[i : i + limit].tolist() for i in range(0, len(flat), limit)]
    assert all(w[0] == FIRST and w[-1] == LAST for w in windows)
    assert len(windows) == 1 or all(len(w) == limit for w in windows)
    assert len(windows) > 1 or windows[0][1:-1] == text
    begin = 0
    for window, following in pairwise(windows):
        inner, after = window[1:-1], following[1:-1]
        assert text[begin : begin + len(inner)] == inner
        shared = next(n for n in range(len(inner), 0, -1) if inner[-n:] == after[:n])
        assert shared >= overlap
        begin += len(inner) - shared
    if len(windows) > 1:
        assert text[-len(windows[-1]) + 2 :] == windows[-1][1:-1]


@given(cases())
def test_a_word_is_taken_where_it_stands_farthest_from_a_cut(case):
    limit, overlap, counts = case
    found = numbered(limit, overlap).features([sentence(counts)])
    flat, heads = found.streams["pieces"][0], found.streams["heads"][0]
    if len(flat) <= limit:
        return
    last = (len(flat) - 1) // limit

    def room(head: int, length: int) -> int:
        """Pieces to the nearer cut; the text's own ends are none."""
        window, place = divmod(head, limit)
        left = place - 1 if window else limit
        right = limit - 1 - place - length if window < last else limit
        return min(left, right)

    for number, (count, head) in enumerate(zip(counts, heads, strict=True), start=1):
        length = min(count, overlap)
        if not length:
            continue
        word = np.array([100 * number + i for i in range(length)])
        places = [
            place
            for place in np.flatnonzero(flat == 100 * number)
            if place // limit == (place + length - 1) // limit
            and np.array_equal(flat[place : place + length], word)
        ]
        assert room(head, length) == max(room(place, length) for place in places)


def test_words_split_as_the_tokenizer_says():
    pieces = Pieces.by(tiny.tokenizer())
    names = tiny.piece_list()
    for word in ("mutations", "BRCA1", "in", "IL-2"):
        expected = tiny.tokenizer().encode(word, add_special_tokens=False).tokens
        assert [names[i] for i in pieces.of(word)] == expected
    for word in ("日本", "", " ", "\ud800"):
        assert pieces.of(word) == (pieces.unknown,)
    assert (pieces.first, pieces.last, pieces.unknown) == (2, 3, 1)


def test_a_word_spelt_like_padding_is_not_padding():
    pieces = Pieces.by(tiny.tokenizer())
    assert 0 not in pieces.of("[PAD]")
    assert Pieces(lambda _: [0, 0], FIRST, LAST, UNKNOWN).of("x") == (UNKNOWN,)


def test_only_so_many_words_are_remembered(monkeypatch):
    monkeypatch.setattr("hardner.features._REMEMBERED", 3)
    asked = []
    pieces = Pieces(lambda word: asked.append(word) or [ord(word)], FIRST, LAST, UNKNOWN)
    assert [pieces.of(word)[0] for word in "aabbccd"] == [97, 97, 98, 98, 99, 99, 100]
    assert asked == list("abcd")
    assert len(pieces._cache) == 1


def test_shifted_pieces_leave_zero_free():
    plain, shifted = Splitter(tiny.tokenizer()), Splitter(tiny.tokenizer(), shift=1)
    assert [i + 1 for i in plain("mutation")] == shifted("mutation")


def test_an_overlap_that_fills_a_window_is_refused():
    for limit, overlap in ((10, 8), (10, 0), (2, 1)):
        with pytest.raises(HardnerError, match="cannot overlap"):
            Pieces(lambda _: [], FIRST, LAST, UNKNOWN, limit, overlap)
    assert [overlap_of(limit) for limit in (512, 256, 64)] == [64, 64, 16]


def test_a_tokenizer_without_special_pieces_is_named():
    bare = Tokenizer(models.WordPiece({"[UNK]": 0, "[CLS]": 1}, unk_token="[UNK]"))
    with pytest.raises(HardnerError, match=r"no piece \[SEP\]"):
        Pieces.by(bare)
