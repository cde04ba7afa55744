"""Letters of words against torch's convolution and LSTM."""

import pytest
import torch
from torch import Tensor, nn

from hardner.errors import HardnerError
from hardner.model.characters import ALPHABET, LETTERS, SYMBOLS, Characters, spell
from hardner.model.layers import Mode, Params, scoped

WORDS = ("BRCA1", "a", "", "in", "x" * LETTERS, "α-synuclein-deficient-mice", "of", "日本")
MODE = Mode()


def letters(words: tuple[str, ...] = WORDS, tasks: int = 1) -> Tensor:
    table = torch.stack([torch.from_numpy(spell(word)) for word in words])
    return table.expand(tasks, -1, -1)


def made(net: Characters, tasks: int = 1) -> Params:
    found = [net.init(torch.Generator().manual_seed(task)) for task in range(tasks)]
    return {n: torch.cat([p[n] for p in found]).double() for n in found[0]}


def read(word: str) -> str:
    return word if len(word) <= LETTERS else word[:10] + word[-10:]


def vectors(params: Params, word: str) -> Tensor:
    """[letters, E]."""
    ids = [ALPHABET.find(letter) + 2 if letter in ALPHABET else 1 for letter in read(word)]
    return params["table"][0][torch.tensor(ids, dtype=torch.long)]


def test_spelling() -> None:
    assert len(set(ALPHABET)) == len(ALPHABET) == SYMBOLS - 2
    assert spell("").tolist() == [0] * LETTERS
    assert spell("aé")[:3].tolist() == [2, 1, 0]
    assert spell("a" * 10 + "middle" + "b" * 10).tolist() == [2] * 10 + [3] * 10
    assert spell("a" * LETTERS).tolist() == [2] * LETTERS
    assert all(spell(letter)[0] == i + 2 for i, letter in enumerate(ALPHABET))


@pytest.mark.parametrize("filters", [8, 10, 5])
def test_convolution_equals_torch(filters: int) -> None:
    """A window starts at each letter of a word, with zeros beyond the last."""
    net = Characters(embedding=5, filters=filters, widths=(2, 3, 4, 5))
    params = made(net)
    ours = net(params, letters(), MODE)
    shares = [(filters + i) // 4 for i in range(4)]
    assert sum(shares) == filters
    column, begin, columns = 0, 0, []
    for width, share in zip(net.widths, shares, strict=True):
        conv = nn.Conv1d(5, share, width).double()
        taps = params["filters.weight"][0, column : column + width * share]
        bias = params["filters.bias"][0, begin : begin + share]
        weight = taps.view(width, share, 5).permute(1, 2, 0)  # [share, E, width]
        conv.load_state_dict({"weight": weight, "bias": bias})
        rows = []
        for word in WORDS:
            x = nn.functional.pad(vectors(params, word).T, (0, width - 1))
            rows.append(conv(x[None])[0].amax(1).relu() if word else torch.zeros(share).double())
        columns.append(torch.stack(rows))
        column, begin = column + width * share, begin + share
    torch.testing.assert_close(ours[0], torch.cat(columns, dim=1))


@pytest.mark.parametrize("twice", [False, True])
def test_recurrence_equals_the_ends_of_torch(twice: bool) -> None:
    net = Characters(embedding=5, filters=0, recurrent=6)
    params = made(net)
    ours = net(params, letters(), Mode(twice=twice))
    peer = nn.LSTM(5, 3, batch_first=True, bidirectional=True).double()
    own = scoped(params, "lstm")
    state = {f"{n}_l0{'_reverse' * d}": own[n][0, d] for n in own for d in range(2)}
    peer.load_state_dict(state)
    for row, word in enumerate(WORDS):
        expected = torch.zeros(6).double()
        if word:
            _, (ends, _) = peer(vectors(params, word)[None])
            expected = ends.flatten()
        torch.testing.assert_close(ours[0, row], expected)


def test_both_stand_side_by_side() -> None:
    net = Characters(embedding=5, filters=4, recurrent=6)
    params = made(net)
    ours = net(params, letters(), MODE)
    assert ours.shape == (1, len(WORDS), net.size)
    cnn = {n: p for n, p in params.items() if not n.startswith("lstm")}
    left = Characters(embedding=5, filters=4)(cnn, letters(), MODE)
    lstm = {n: p for n, p in params.items() if not n.startswith("filters")}
    right = Characters(embedding=5, filters=0, recurrent=6)(lstm, letters(), MODE)
    torch.testing.assert_close(ours, torch.cat((left, right), dim=-1))


def test_tasks_side_by_side_equal_one_after_another() -> None:
    net = Characters(embedding=5, filters=4, recurrent=4)
    params = made(net, tasks=3)
    together = net(params, letters(tasks=3), MODE)
    for task in range(3):
        alone = net({n: p[task : task + 1] for n, p in params.items()}, letters(), MODE)
        torch.testing.assert_close(together[task], alone[0], rtol=1e-10, atol=1e-10)


def test_an_empty_word_says_nothing() -> None:
    net = Characters(embedding=5, filters=4, recurrent=4)
    assert not net(made(net), letters(("",)), MODE).any()


def test_gradient_has_a_gradient() -> None:
    net = Characters(embedding=2, filters=2, widths=(2, 3), recurrent=2)
    params = made(net)
    shown = letters(("ab", "b", "abcd"))[:, :, :5]
    small = {**params, "table": params["table"][:, :8]}

    def run(*values: Tensor) -> Tensor:
        return net(dict(zip(small, values, strict=True)), shown, Mode(twice=True))

    leaves = [p.clone().requires_grad_() for p in small.values()]
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves)


def test_an_odd_recurrence_cannot_be_shared_by_two_directions() -> None:
    with pytest.raises(HardnerError, match="even"):
        Characters(recurrent=5)


def test_no_letters_no_parameters() -> None:
    assert Characters(filters=0).init(torch.Generator()) == {}
