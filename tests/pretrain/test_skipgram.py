"""Skip-gram vectors: which words gensim gets, and what comes out."""

import math
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors, Word2Vec
from sayings import GROUPS, sayings, write

from hardner.errors import HardnerError
from hardner.files import atomic_binary
from hardner.jobs import RunProgress
from hardner.pretrain import skipgram as module
from hardner.pretrain.skipgram import (
    SkipGram,
    WordLines,
    _Floats,
    train_skipgram,
    train_vectors,
)
from hardner.pretrain.skipgram import write_word2vec as write_vectors
from hardner.text import tokenize
from hardner.vectors import load_vectors


def test_words_are_counted_and_come_by_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 7)
    lines = [*sayings(60), "IL-2 (IL-2R),IL-2", "rare\u00a0words: IL-2"]
    words = [[line[a:b] for a, b in tokenize(line)] for line in lines]
    assert list(WordLines(lines)) == words
    counts = Counter(word for line in words for word in line)
    found, table = train_skipgram(WordLines(lines), SkipGram(dimension=2, least=3, epochs=1))
    assert set(found) == {word for word, n in counts.items() if n >= 3}
    assert [counts[word] for word in found] == sorted((counts[w] for w in found), reverse=True)
    assert table.shape == (len(found), 2)


def test_text_without_a_frequent_word_is_refused() -> None:
    with pytest.raises(HardnerError, match="no word occurs 2 times; give more text or a lower"):
        train_skipgram(
            WordLines(["each word differs", "from all others"]), SkipGram(dimension=2, least=2)
        )
    with pytest.raises(HardnerError, match="no word occurs 1 times"):
        train_skipgram(WordLines([]), SkipGram(dimension=2, least=1))


def test_gensim_gets_every_word_of_every_line_in_each_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hardner.pretrain.skipgram._LONGEST", 4)
    on_progress: list[RunProgress] = []
    lines = WordLines(["a b c d e f", "", "g", "b a"], on_progress.append)
    expected = [["a", "b", "c", "d"], ["e", "f"], ["g"], ["b", "a"]]
    assert list(lines) == expected  # to be counted
    assert not on_progress
    lines.all = 18
    assert list(lines) == expected == list(lines)
    assert [(told.done, told.total, told.milestone) for told in on_progress] == [
        (9, 18, True),
        (18, 18, True),
    ]


def neighbours(words: list[str], table: _Floats, word: str, number: int) -> list[str]:
    rows = table - table.mean(0)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    order = np.argsort(-(unit @ unit[words.index(word)]))
    return [words[i] for i in order.tolist() if words[i] != word][:number]


def test_words_that_stand_in_the_same_places_end_up_near() -> None:
    how = SkipGram(dimension=24, window=2, frequent=1.0, epochs=60, rate=0.05)
    words, table = train_skipgram(WordLines(sayings(1500)), how)
    assert table.shape == (len(words), 24)
    right = [
        other in group
        for group in GROUPS.values()
        for word in group
        for other in neighbours(words, table, word, 5)
    ]
    assert len(right) == 160  # by chance, one in eight
    assert np.mean(right) > 0.9


def test_vectors_are_those_of_gensim_by_itself() -> None:
    lines = sayings(300)
    how = SkipGram(dimension=8, least=3, epochs=2, seed=5)
    found, table = train_skipgram(WordLines(lines), how)
    words = [[line[a:b] for a, b in tokenize(line)] for line in lines]
    alone = Word2Vec(
        words, sg=1, vector_size=8, sample=1e-4, min_count=3, epochs=2, workers=1, seed=5
    )
    assert np.array_equal(table, alone.wv[found])


def test_without_gensim_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(
        HardnerError, match=r"gensim is not installed; run: pip install 'hardner\[vectors\]'"
    ):
        train_skipgram(WordLines(["a b"]), SkipGram())


SMALL = SkipGram(dimension=8, epochs=1, least=2)


def test_vectors_can_be_read_by_hardner_and_by_gensim(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", 200)
    with text.open("a") as file:
        file.write("β-carotene β-carotene\n")
    on_progress: list[RunProgress] = []
    done = train_vectors([text], tmp_path / "v.bin", SMALL, on_progress=on_progress.append)
    ours = load_vectors(tmp_path / "v.bin", ["Lyon", "β", "carotene", "absent"])
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    counts = Counter(w for line in WordLines(text.read_text().splitlines()) for w in line)
    assert done.words == len(theirs) == sum(n >= SMALL.least for n in counts.values())
    assert theirs.vector_size == ours.dimension == 8
    assert set(ours.words) == {"Lyon", "β", "carotene"}
    for word, row in zip(ours.words, ours.matrix, strict=True):
        assert np.array_equal(theirs[word], np.asarray(row))
    assert (on_progress[0].stage, on_progress[-1].milestone) == ("reading the text", True)
    assert on_progress[-1].done == on_progress[-1].total > 0


def test_the_same_seed_gives_the_same_file_and_another_another(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", 100)
    found = []
    for number, how in enumerate((SMALL, SMALL, replace(SMALL, seed=1))):
        path = tmp_path / f"{number}.bin"
        train_vectors([text], path, how)
        found.append(path.read_bytes())
    assert found[0] == found[1] != found[2]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(b"old")
    bad = pytest.raises(HardnerError, match="not finite; lower the rate")
    with bad, atomic_binary(path) as file:
        write_vectors(file, ["a"], np.array([[math.nan]], np.float32))
    with pytest.raises(ValueError, match="shorter"), atomic_binary(path) as file:
        write_vectors(file, ["a", "b"], np.zeros((1, 3), np.float32))
    assert [p.name for p in tmp_path.iterdir()] == ["v.bin"]
    assert path.read_bytes() == b"old"


def test_a_place_that_cannot_be_written_is_told_before_anything_is_read(tmp_path: Path) -> None:
    on_progress: list[RunProgress] = []
    with pytest.raises(HardnerError, match="no such file or folder"):
        train_vectors(
            ["none.txt"], tmp_path / "no" / "v.bin", SMALL, on_progress=on_progress.append
        )
    assert not on_progress
