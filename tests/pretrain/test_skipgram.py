"""Skip-gram vectors: which pairs are made, what they cost, what comes out."""

import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors
from sayings import GROUPS, sayings, write
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.pretrain import words as module
from hardner.pretrain.progress import Heard
from hardner.pretrain.skipgram import (
    SkipGram,
    epoch_of,
    fitted,
    kept,
    pair_loss,
    pairs,
    start,
    thinned,
    train,
    train_vectors,
)
from hardner.pretrain.skipgram import write as write_vectors
from hardner.pretrain.words import END, Words, read
from hardner.text import tokenize
from hardner.vectors import load_vectors


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_words_are_counted_and_numbered_by_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 50)
    monkeypatch.setattr(module, "REMEMBERED", 7)
    lines = [*sayings(60), "IL-2 (IL-2R),IL-2", "rare\u00a0words: IL-2"]
    words = [[line[a:b] for a, b in tokenize(line)] for line in lines]
    counts = Counter(word for line in words for word in line)
    found = read(lines, 3)
    assert dict(zip(found.words, found.counts.tolist(), strict=True)) == {
        word: n for word, n in counts.items() if n >= 3
    }
    assert found.counts.tolist() == sorted(found.counts.tolist(), reverse=True)
    assert found.ids.dtype == np.int32
    expected = [word for line in words for word in (*(w for w in line if counts[w] >= 3), None)]
    shown = [None if i == END else found.words[i] for i in found.ids]
    assert shown == [None, *expected]


def test_text_without_a_frequent_word_is_refused() -> None:
    with pytest.raises(HardnerError, match="no word occurs 2 times; give more text or a lower"):
        read(["each word differs", "from all others"], 2)
    with pytest.raises(HardnerError, match="no word occurs 1 times"):
        read([], 1)


def unique(lengths: list[int]) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
    """A text in which no word comes twice; the line of each word, and its place."""
    ids, line, place = [END], [], []
    for number, length in enumerate(lengths):
        ids += range(len(line), len(line) + length)
        place += range(len(line), len(line) + length)
        line += [number] * length
        ids.append(END)
    return torch.tensor(ids, dtype=torch.int32), np.array(line), np.array(place)


def test_pairs_never_cross_a_line_end_and_near_words_come_more_often() -> None:
    draw = random.Random(1)
    ids, line, place = unique([draw.choice([1, 2, 3, 5, 9, 60]) for _ in range(400)])
    how = SkipGram(window=4, batch=60_000)
    centre, context = (t.numpy() for t in pairs(ids, how, rng()))
    assert (line[centre] == line[context]).all()
    distance = place[context] - place[centre]
    assert set(np.abs(distance).tolist()) == {1, 2, 3, 4}
    for far in (-4, -3, -2, -1, 1, 2, 3, 4):
        there = sum(0 <= p + far < len(line) and line[p] == line[p + far] for p in place)
        reached = (how.window - abs(far) + 1) / how.window
        expected = there * reached * how.batch / len(ids)
        assert abs((distance == far).sum() - expected) < 5 * math.sqrt(expected)


def test_lines_of_one_word_have_no_pairs() -> None:
    ids, _, _ = unique([1] * 50)
    centre, context = pairs(ids, SkipGram(batch=1000), rng())
    assert len(centre) == len(context) == 0


def test_frequent_words_are_left_out_and_the_others_move_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hardner.pretrain.skipgram.THINNED", 1000)
    ids, line, _ = unique([3] * 4000)
    keep = torch.ones(len(line))
    keep[1::3] = 0.25  # the second word of each line
    found = thinned(ids, keep, rng())
    assert (found == END).sum() == (ids == END).sum()
    words = found[found != END]
    assert (words.diff() > 0).all()
    assert (words % 3 == 1).sum().item() == pytest.approx(1000, rel=0.1)
    assert (words % 3 != 1).sum() == 8000
    centre, context = pairs(found, SkipGram(window=1, batch=100_000), rng())
    far = (context - centre).abs() == 2  # the first and the third stand together now
    assert far.sum().item() > 0.4 * len(centre)


def test_the_more_frequent_a_word_the_less_of_it_stays() -> None:
    text = Words(("a", "b", "c"), np.array([900, 90, 10]), np.zeros(1, np.int32))
    how = SkipGram(frequent=0.09, batch=100)
    assert kept(text, how).tolist() == pytest.approx([math.sqrt(0.1), 1.0, 1.0])
    assert epoch_of(text, how) == math.ceil((900 * math.sqrt(0.1) + 100) / 100)


def test_the_loss_is_that_of_the_paper_with_shared_negatives() -> None:
    near, far = torch.randn(4, 5, generator=rng(1)), torch.randn(6, 5, generator=rng(2))
    centre, context = torch.tensor([0, 3, 3]), torch.tensor([5, 1, 1])
    drawn = torch.tensor([2, 4, 4, 0, 1, 5, 0])

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    expected = 0.0
    for u, v in zip(centre.tolist(), context.tolist(), strict=True):
        expected -= math.log(sigmoid(float(near[u] @ far[v])))
        noise = [math.log(sigmoid(-float(near[u] @ far[n]))) for n in drawn.tolist()]
        expected -= 5 * sum(noise) / len(noise)
    found = pair_loss(near, far, centre, context, drawn)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_steps_are_adagrads_with_a_rate_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    text = read(sayings(50), 1)
    how = SkipGram(dimension=6, batch=400, epochs=2, negatives=9, rate=0.3, frequent=1.0)
    made: list[tuple[torch.Tensor, ...]] = []

    def spied(*given: torch.Tensor) -> torch.Tensor:
        made.append(given)
        return pair_loss(*given)

    monkeypatch.setattr("hardner.pretrain.skipgram.pair_loss", spied)
    table = start(len(text.words), how)
    expected, squares = table.clone(), torch.zeros(len(table))
    steps = 2 * -(-int(text.counts.sum()) // 400)
    for step, _ in enumerate(train(text, how, table)):
        near = made[-1][0]
        rows = [int((expected - row).abs().sum(1).argmin()) for row in near]
        for row, grad in zip(rows, torch.autograd.grad(pair_loss(*made[-1]), near)[0], strict=True):
            squares[row] += (grad**2).mean()
            expected[row] -= 0.3 * (1 - step / steps) * grad / (squares[row].sqrt() + 1e-10)
        torch.testing.assert_close(table, expected, rtol=1e-4, atol=1e-6)
    assert len(made) == steps


def neighbours(words: tuple[str, ...], table: torch.Tensor, word: str, number: int) -> list[str]:
    unit = functional.normalize(table - table.mean(0), dim=1)
    order = (unit @ unit[words.index(word)]).argsort(descending=True)
    return [words[i] for i in order.tolist() if words[i] != word][:number]


def test_words_that_stand_in_the_same_places_end_up_near() -> None:
    text = read(sayings(1500), 5)
    how = fitted(SkipGram(dimension=24, negatives=64, frequent=1.0), text)
    table = start(len(text.words), how)
    losses = [float(loss) for loss in train(text, how, table)]
    assert np.mean(losses[-50:]) < 0.8 * np.mean(losses[:10])
    right = [
        other in group
        for group in GROUPS.values()
        for word in group
        for other in neighbours(text.words, table, word, 5)
    ]
    assert len(right) == 160  # by chance, one in eight
    assert np.mean(right) > 0.9


def test_batches_suit_the_text() -> None:
    def length(number: int) -> Words:
        return Words(("a",), np.ones(1, np.int64), np.zeros(number, np.int32))

    assert fitted(SkipGram(), length(100)).batch == 64
    assert fitted(SkipGram(), length(500_000)).batch == 1000
    assert fitted(SkipGram(), length(20_000_000)).batch == 16_384


SMALL = SkipGram(dimension=8, epochs=1, least=2, negatives=32)


def test_vectors_can_be_read_by_hardner_and_by_gensim(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", 200)
    with text.open("a") as file:
        file.write("β-carotene β-carotene\n")
    heard: list[Heard] = []
    done = train_vectors([text], tmp_path / "v.bin", SMALL, device="cpu", heard=heard.append)
    ours = load_vectors(tmp_path / "v.bin", ["Lyon", "β", "carotene", "absent"])
    theirs = KeyedVectors.load_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    assert done.words == len(theirs) == len(read(text.read_text().splitlines(), 2).words)
    assert theirs.vector_size == ours.dimension == 8
    assert set(ours.words) == {"Lyon", "β", "carotene"}
    for word, row in zip(ours.words, ours.matrix, strict=True):
        assert np.array_equal(theirs[word], np.asarray(row))
    assert (heard[0].doing, heard[-1].milestone) == ("reading the text", True)
    assert heard[-1].step == heard[-1].steps > 0


def test_the_same_seed_gives_the_same_file_and_another_another(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", 100)
    found = []
    for number, how in enumerate((SMALL, SMALL, replace(SMALL, seed=1))):
        path = tmp_path / f"{number}.bin"
        train_vectors([text], path, how, device="cpu")
        found.append(path.read_bytes())
    assert found[0] == found[1] != found[2]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(b"old")
    with pytest.raises(HardnerError, match="no number; lower the rate"):
        write_vectors(path, ["a"], torch.tensor([[math.nan]]))
    with pytest.raises(ValueError, match="shorter"):
        write_vectors(path, ["a", "b"], torch.zeros(1, 3))
    assert [p.name for p in tmp_path.iterdir()] == ["v.bin"]
    assert path.read_bytes() == b"old"
