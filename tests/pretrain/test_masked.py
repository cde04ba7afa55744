"""Masked-language training: what is hidden, how it is disguised, what it costs to guess it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.meta.optim import Muon
from hardner.model.layers import SCORING, scoped
from hardner.model.transformer import Transformer
from hardner.pretrain.masked import (
    IGNORED,
    Pretraining,
    choose_masked,
    corrupt,
    draw_blocks,
    init_masked,
    masked_batch,
    masked_loss,
    masked_places,
    pretrain_steps,
)

VOCABULARY = 400
INSIDE = torch.arange(VOCABULARY) >= 250
"""Pieces 0 to 4 are special, 5 to 249 open words, the others continue them."""


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blocks(rows: int = 300, width: int = 64, seed: int = 0) -> Tensor:
    """Random pieces of all kinds, a third of which continue words; each row opens with [CLS]."""
    made = torch.randint(3, VOCABULARY, (rows, width), generator=rng(seed))
    made[:, 0] = 2
    return made


def words(row: list[int]) -> list[list[int]]:
    """The places of each word, found one by one."""
    found: list[list[int]] = []
    for place, piece in enumerate(row):
        if INSIDE[piece] and found:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def test_whole_words_are_hidden_each_by_its_own_draw() -> None:
    text = blocks()
    hidden = choose_masked(text, INSIDE, 0.2, rng(1))
    lengths: dict[int, list[bool]] = {}
    together = []
    for row, marks in zip(text.tolist(), hidden.tolist(), strict=True):
        chosen = []
        for places in words(row):
            usual = [place for place in places if row[place] >= 5]
            assert len({marks[place] for place in usual}) <= 1, "a word is hidden in part"
            assert not any(marks[place] for place in places if row[place] < 5)
            if len(usual) == len(places):
                chosen.append(marks[places[0]])
                lengths.setdefault(len(places), []).append(chosen[-1])
        together += [left and right for left, right in pairwise(chosen)]
    for length in (1, 2, 3):
        draws = lengths[length]
        deviation = (0.16 / len(draws)) ** 0.5
        assert abs(sum(draws) / len(draws) - 0.2) < 4 * deviation
    assert abs(sum(together) / len(together) - 0.04) < 0.01


def test_the_last_words_of_a_block_are_hidden_apart() -> None:
    text = torch.full((4000, 6), 7)
    text[:, 0] = 2
    hidden = choose_masked(text, INSIDE, 0.5, rng())
    assert 0.45 < (hidden[:, -1] == hidden[:, -2]).float().mean() < 0.55


def test_a_word_cut_by_the_start_of_a_block_is_hidden_whole() -> None:
    text = torch.tensor([[2, 300, 301, 302, 9, 303]]).repeat(2000, 1)
    hidden = choose_masked(text, INSIDE, 0.3, rng())
    assert not hidden[:, 0].any()
    assert torch.equal(hidden[:, 1], hidden[:, 3])
    assert torch.equal(hidden[:, 4], hidden[:, 5])
    assert not torch.equal(hidden[:, 3], hidden[:, 4])
    assert 0.25 < hidden[:, 1].float().mean() < 0.35


def test_of_the_hidden_8_in_10_are_masked_1_is_another_and_1_stays() -> None:
    text = blocks(2000)
    hidden = choose_masked(text, INSIDE, 0.2, rng(1))
    shown = corrupt(text, hidden, VOCABULARY, rng(2))
    assert torch.equal(shown[~hidden], text[~hidden])
    before, after = text[hidden], shown[hidden]
    masks, same = after == 4, after == before
    other = after[~masks & ~same]
    assert masks.float().mean().item() == pytest.approx(0.8, abs=0.01)
    assert same.float().mean().item() == pytest.approx(0.1, abs=0.01)
    assert other.min() == 5
    assert other.max() == VOCABULARY - 1
    counts = np.bincount(other.numpy(), minlength=VOCABULARY)[5:]
    expected = counts.mean()
    assert ((counts - expected) ** 2 / expected).sum() < VOCABULARY + 5 * (2 * VOCABULARY) ** 0.5


@pytest.mark.parametrize("shape", [(1, 8), (3, 20), (100, 64)])
def test_all_hidden_places_are_gathered_and_their_number_is_fixed(shape: tuple[int, int]) -> None:
    sizes = set()
    for seed in range(30):
        text = blocks(*shape, seed)
        hidden = choose_masked(text, INSIDE, 0.2, rng(seed + 100))
        places, gold = masked_places(text, hidden, 0.2)
        sizes.add(len(places))
        there = gold != IGNORED
        assert places[there].tolist() == hidden.flatten().nonzero()[:, 0].tolist()
        assert torch.equal(gold[there], text[hidden])
        assert len(set(places.tolist())) == len(places)
    assert len(sizes) == 1
    assert max(sizes) <= text.numel()


NETWORK = Transformer(VOCABULARY, size=16, layers=2, heads=2, inner=32)


def test_the_loss_is_the_cross_entropy_of_the_hidden_with_the_tied_table() -> None:
    params = {n: p + 0.1 * torch.randn(p.shape, generator=rng(5)) for n, p in init_().items()}
    text = blocks(5, 12)
    hidden = choose_masked(text, INSIDE, 0.3, rng(1))
    shown = corrupt(text, hidden, VOCABULARY, rng(2))
    vectors = NETWORK(scoped(params, "encoder"), shown[None], SCORING)[0]
    dense, norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)
    dense.weight.data, dense.bias.data = params["guess.weight"][0], params["guess.bias"][0]
    norm.weight.data, norm.bias.data = (params[f"guess.norm.{n}"][0] for n in ("weight", "bias"))
    logits = norm(functional.gelu(dense(vectors))) @ params["encoder.pieces"][0].T
    chances = (logits + params["guess.pieces"][0]).softmax(-1)  # [N, P, V]
    costs = [-chances[i, j, text[i, j]].log() for i, j in hidden.nonzero().tolist()]
    expected = torch.stack(costs).mean()
    found = masked_loss(NETWORK, params, shown, *masked_places(text, hidden, 0.3))
    torch.testing.assert_close(found, expected)


def test_the_loss_compiles_as_one_graph_for_all_batches() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(masked_loss, fullgraph=True, backend=backend)
    for seed in range(3):
        text = blocks(4, 16, seed)
        given = (
            init_(seed),
            text,
            *masked_places(text, choose_masked(text, INSIDE, 0.2, rng(seed)), 0.2),
        )
        torch.testing.assert_close(compiled(NETWORK, *given), masked_loss(NETWORK, *given))
    assert len(graphs) == 1


def init_(seed: int = 0) -> dict[str, Tensor]:
    return init_masked(NETWORK, rng(seed))


def test_nothing_hidden_costs_nothing() -> None:
    text = blocks(2, 8)
    loss = masked_loss(
        NETWORK, init_(), text, *masked_places(text, torch.zeros_like(text).bool(), 0.2)
    )
    assert loss.item() == 0


def test_blocks_come_from_everywhere_and_pieces_may_have_16_bits() -> None:
    text = np.arange(65_536, dtype=np.uint16)[-100:]
    training = Pretraining(rows=500, width=10)
    found = draw_blocks(torch.from_numpy(text.view(np.int16)), training, 3)
    assert torch.equal(found[:, 0], torch.full((500,), 2))
    starts = found[:, 1] - 1 - (65_536 - 100)
    assert starts.min() == 0
    assert starts.max() == 90
    assert torch.equal(found[:, 1:], found[:, 1:2] + torch.arange(9))
    assert not torch.equal(found, draw_blocks(torch.from_numpy(text.view(np.int16)), training, 4))


def test_each_step_and_seed_has_a_batch_of_its_own_whenever_asked() -> None:
    text = blocks(1, 500)[0].short()
    training = Pretraining(rows=8, width=500, seed=3)
    first, again = (masked_batch(text, INSIDE, training, 5) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    hidden = first.places[first.gold != IGNORED].tolist()
    for other in (
        masked_batch(text, INSIDE, training, 6),
        masked_batch(text, INSIDE, replace(training, seed=4), 5),
    ):
        assert other.places[other.gold != IGNORED].tolist() != hidden
    back = first.shown.flatten().index_put(
        (first.places[: len(hidden)],), first.gold[: len(hidden)]
    )
    assert torch.equal(back.view(8, 500)[:, 1:], text[1:].long().expand(8, -1))


def test_the_rate_goes_up_and_down_in_lines() -> None:
    training = Pretraining(steps=5000, rate=3e-3, warmup=300)
    rates = np.array([training.rate_at(step) for step in range(5000)])
    assert rates.max() == rates[299] == rates[300] == 3e-3
    assert np.allclose(np.diff(rates[:300]), 1e-5)
    assert np.allclose(np.diff(rates[300:]), -3e-3 / 4700)
    assert rates[-1] == pytest.approx(3e-3 / 4700)
    few = [replace(training, steps=20).rate_at(step) for step in range(20)]
    assert few[:3] == pytest.approx([1.5e-3, 3e-3, 3e-3])
    assert replace(training, steps=1).rate_at(0) == 3e-3


def test_a_stable_rate_does_not_depend_on_the_end_until_it_falls() -> None:
    long = Pretraining(steps=4000, rate=2e-3, warmup=100, schedule="wsd", cooldown=1000)
    open_ended = replace(long, steps=3000, cooldown=0)
    rates = [long.rate_at(step) for step in range(4000)]
    assert rates[:3000] == [open_ended.rate_at(step) for step in range(3000)]
    assert rates[49] == pytest.approx(1e-3)
    assert set(rates[99:3000]) == {2e-3}
    falling = np.arange(1000) / 1000
    assert np.allclose(rates[3000:], 2e-3 * (1 - np.sqrt(falling)))


def test_a_cooldown_is_of_the_schedule_that_has_one() -> None:
    with pytest.raises(HardnerError, match="belongs to the schedule wsd"):
        Pretraining(cooldown=10)
    with pytest.raises(HardnerError, match="cooldown of 30 in 20 steps"):
        Pretraining(steps=20, schedule="wsd", cooldown=30)


def test_training_finds_what_the_context_tells() -> None:
    """Ten words that each have a partner behind them; a word and its partner have two pieces."""
    inside = torch.arange(60) >= 30
    network = Transformer(60, size=32, layers=2, heads=2, inner=64)
    word = torch.randint(5, 15, (4000,), generator=rng(9))
    text = torch.stack((word, word + 30, word + 10, word + 40), 1).flatten().short()
    training = Pretraining(steps=200, rows=32, width=32, rate=2e-2)
    optimizer = Muon(init_masked(network, rng()), training.weight_decay)
    losses = [float(loss) for loss in pretrain_steps(network, optimizer, text, inside, training)]
    assert losses[0] == pytest.approx(np.log(60), abs=0.1)
    assert np.mean(losses[-20:]) < 0.5 * np.log(10)  # log 10 is what its place tells of a piece
    assert optimizer.steps == 200


def test_too_little_text_is_refused() -> None:
    text = torch.arange(20).short()
    steps = pretrain_steps(NETWORK, Muon(init_()), text, INSIDE, Pretraining(width=21))
    with pytest.raises(HardnerError, match=r"the text has 20 subwords, a block 21; give more text"):
        next(steps)
