"""Word vectors by skip-gram with negative sampling (Mikolov et al., 2013), in large batches."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.files import atomic_binary
from hardner.learn.optim import Optimizer
from hardner.seeds import seed_of
from hardner.text import tokenize

END = -1
"""Stands after each line, so that no window reaches across."""


@dataclass(frozen=True)
class SkipGram:
    """How the vectors are learnt."""

    dimension: int = 200
    window: int = 5
    negatives: int = 512
    """Drawn once a batch and shared by its pairs, each weighing as 5 of a pair's own would."""
    frequent: float = 1e-4
    """Words with a larger share of the text are skipped now and then."""
    least: int = 5
    """Words seen less often have no vector."""
    batch: int = 16_384
    """Centre words a step."""
    epochs: int = 3
    rate: float = 2e-3
    """Falls linearly to nothing."""
    seed: int = 0


class Text(NamedTuple):
    """A text as rows of its vocabulary, lines parted by `END`."""

    words: tuple[str, ...]
    """By falling frequency."""
    counts: NDArray[np.int64]
    ids: NDArray[np.int32]


class Learnt(NamedTuple):
    """What a step found."""

    step: int
    steps: int
    loss: Tensor
    seconds: float


def read(lines: Iterable[str], least: int) -> Text:
    """Count and number the words of a text; rare ones are left out."""
    numbers: dict[str, int] = {}
    seen: Counter[int] = Counter()
    parts: list[NDArray[np.int32]] = []
    for line in lines:
        row = [numbers.setdefault(line[start:end], len(numbers)) for start, end in tokenize(line)]
        seen.update(row)
        parts.append(np.array([*row, END], np.int32))
    kept = sorted((i for i, n in seen.items() if n >= least), key=lambda i: (-seen[i], i))
    if not kept:
        raise HardnerError(f"no word occurs {least} times; give more text or a lower limit")
    words = list(numbers)
    place = np.full(len(words) + 1, END - 1, np.int32)  # the last row is that of END
    place[kept], place[END] = np.arange(len(kept)), END
    ids = place[np.concatenate(parts)]
    counts = np.array([seen[i] for i in kept])
    return Text(tuple(words[i] for i in kept), counts, ids[ids >= END])


def train(text: Text, how: SkipGram, table: Tensor, device: str = "cpu") -> Iterator[Learnt]:
    """Learn ``table`` [V, D], on the device, in place."""
    ids = torch.from_numpy(text.ids).to(device)
    share = torch.from_numpy(text.counts / text.counts.sum()).to(device)
    keep = (how.frequent / share).sqrt().clamp(max=1)
    noise = share**0.75
    other = torch.zeros_like(table)
    optimizer = Optimizer("adamw")
    state = optimizer.init({"word": table, "other": other})
    steps = how.epochs * -(-len(ids) // how.batch)
    clock = time.perf_counter()
    for step in range(steps):
        rng = torch.Generator(device).manual_seed(seed_of(how.seed, step))
        centre, context = pairs(ids, keep, how, rng)
        drawn = torch.multinomial(noise, how.negatives, True, generator=rng)
        leaves = {"word": table.requires_grad_(), "other": other.requires_grad_()}
        loss = _loss(leaves["word"], leaves["other"], centre, context, drawn)
        grads = torch.autograd.grad(loss, list(leaves.values()))
        rate = how.rate * (1 - step / steps)
        with torch.no_grad():
            moved, state = optimizer.step(
                leaves, dict(zip(leaves, grads, strict=True)), state, dict.fromkeys(leaves, rate)
            )
            table.copy_(moved["word"])
            other.copy_(moved["other"])
        now = time.perf_counter()
        yield Learnt(step, steps, loss.detach(), now - clock)
        clock = now
    table.requires_grad_(False)


def pairs(ids: Tensor, keep: Tensor, how: SkipGram, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Centre words from random places, and the words of their windows: two of [P]."""
    device = ids.device
    places = torch.randint(0, len(ids), (how.batch,), generator=rng, device=device)
    reach = torch.randint(1, how.window + 1, (how.batch, 1), generator=rng, device=device)
    span = torch.cat([torch.arange(-how.window, 0), torch.arange(1, how.window + 1)]).to(device)
    around = (places.unsqueeze(1) + span).clamp(0, len(ids) - 1)  # [B, 2 * window]
    found = ids[around].long()
    # No window reaches beyond the end of a line: everything behind the first END is out.
    ends = found == END
    before = ends[:, : how.window].flip(1).cumsum(1).flip(1)
    after = ends[:, how.window :].cumsum(1)
    inside = torch.cat((before, after), dim=1) == 0
    centre = ids[places].long()
    lucky = torch.rand(found.shape, generator=rng, device=device) < keep[found.clamp(min=0)]
    here = torch.rand(centre.shape, generator=rng, device=device) < keep[centre.clamp(min=0)]
    good = inside & (span.abs() <= reach) & lucky & ((centre >= 0) & here).unsqueeze(1)
    return centre.unsqueeze(1).expand_as(found)[good], found[good]


def _loss(word: Tensor, other: Tensor, centre: Tensor, context: Tensor, drawn: Tensor) -> Tensor:
    """-log s(u.v) - sum log s(-u.n), averaged over the pairs."""
    u = functional.embedding(centre, word)  # [P, D]
    true = functional.logsigmoid((u * functional.embedding(context, other)).sum(-1))
    false = functional.logsigmoid(-(u @ functional.embedding(drawn, other).T))  # [P, N]
    return -(true + 5 * false.mean(-1)).sum() / max(len(centre), 1)


def start(text: Text, how: SkipGram) -> Tensor:
    """Small random vectors, [V, D]."""
    rng = torch.Generator().manual_seed(how.seed)
    return (torch.rand(len(text.words), how.dimension, generator=rng) - 0.5) / how.dimension


def write(path: Path, words: Sequence[str], table: Tensor) -> None:
    """Save in the binary layout of word2vec."""
    with atomic_binary(path) as file:
        file.write(f"{len(words)} {table.shape[1]}\n".encode())
        for word, row in zip(words, table.float().cpu().numpy(), strict=True):
            file.write(word.encode() + b" " + row.tobytes() + b"\n")
