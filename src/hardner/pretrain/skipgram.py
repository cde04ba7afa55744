"""Word vectors by skip-gram with negative sampling (Mikolov et al., 2013), in large batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.files import atomic_binary
from hardner.pretrain.progress import Heard, Listener, Meter, device_of
from hardner.pretrain.text import Text, held_out
from hardner.pretrain.words import END, Words, read
from hardner.seeds import seed_of

Floats = NDArray[np.float64]
THINNED = 1 << 22
"""Words that are drawn for at once."""


@dataclass(frozen=True)
class SkipGram:
    """How the vectors are learnt."""

    dimension: int = 200
    window: int = 5
    """The farthest word that counts; each centre draws its own reach, up to this."""
    negatives: int = 512
    """Drawn once a batch and shared by its pairs; together they weigh as 5 of a pair's own."""
    frequent: float = 1e-4
    """Words with a larger share of the text are left out now and then, and the others move up:
    windows reach farther."""
    least: int = 5
    """Words seen less often have no vector."""
    batch: int = 16_384
    """Centre words a step at most; fewer in a short text, for some hundred steps an epoch."""
    epochs: int = 3
    rate: float = 0.4
    """Falls linearly to nothing."""
    seed: int = 0


class Trained(NamedTuple):
    """What came of a text."""

    words: int
    """How many have a vector."""
    left_out: int
    """Lines of the text that were not to enter."""


def train_vectors(
    texts: Sequence[str | Path],
    out: str | Path,
    how: SkipGram,
    *,
    without: str | Path | None = None,
    device: str = "auto",
    heard: Listener = lambda _: None,
) -> Trained:
    """Learn word vectors from text files and write them in the binary layout of word2vec.

    Args:
        texts: Files with a sentence a line, plain, .gz or .xz.
        out: The file; it takes its place when all is done.
        how: What to do.
        without: A folder of known corpora, whose devel and test sentences never enter.
        device: auto, cpu or cuda.
        heard: Told how it goes.
    """
    where = device_of(device)
    heard(Heard("reading the text"))
    text = Text(map(Path, texts), held_out(Path(without)) if without else frozenset())
    found = read(text, how.least)
    how = fitted(how, found)
    table = start(len(found.words), how).to(where)
    epoch = epoch_of(found, how)
    steps = how.epochs * epoch
    told, whole = Meter(how.batch), Meter(how.batch)
    for step, loss in enumerate(train(found, how, table), 1):
        told.add(loss)
        whole.add(loss)
        if step % epoch == 0:
            told.read()
            heard(Heard("", step, steps, *whole.read(), milestone=True))
        elif told.due:
            heard(Heard("", step, steps, *told.read()))
    write(Path(out), found.words, table)
    return Trained(len(found.words), text.left_out)


def start(words: int, how: SkipGram) -> Tensor:
    """Small random vectors, [V, D]."""
    rng = torch.Generator().manual_seed(how.seed)
    return (torch.rand(words, how.dimension, generator=rng) - 0.5) / how.dimension


def fitted(how: SkipGram, text: Words) -> SkipGram:
    """With batches that suit the text."""
    return replace(how, batch=min(how.batch, max(64, len(text.ids) // 500)))


def kept(text: Words, how: SkipGram) -> Floats:
    """How likely each word is to stay in the text."""
    share = text.counts / text.counts.sum()
    found: Floats = np.minimum(np.sqrt(how.frequent / share), 1.0)
    return found


def epoch_of(text: Words, how: SkipGram) -> int:
    """Steps that take in as many words as stay in the text."""
    return ceil(float((text.counts * kept(text, how)).sum()) / how.batch)


def train(text: Words, how: SkipGram, table: Tensor) -> Iterator[Tensor]:
    """Learn ``table`` [V, D] in place, and tell each step's loss a pair.

    By Adagrad (Duchi et al., 2011) with a rate a row, so that only the rows at hand are touched.
    """
    device = table.device
    ids = torch.from_numpy(text.ids).to(device)
    keep = torch.from_numpy(kept(text, how)).float().to(device)
    noise = torch.from_numpy((text.counts / text.counts.sum()) ** 0.75).to(device)
    other = torch.zeros_like(table)
    squares = [torch.zeros(len(table), 1, device=device) for _ in range(2)]
    epoch = epoch_of(text, how)
    steps = how.epochs * epoch
    for step in range(steps):
        rng = torch.Generator(device).manual_seed(seed_of(how.seed, step))
        if step % epoch == 0:
            left = thinned(ids, keep, rng)
        centre, context = pairs(left, how, rng)
        drawn = torch.multinomial(noise, how.negatives, True, generator=rng)
        near, u = centre.unique(return_inverse=True)
        far, v = torch.cat((context, drawn)).unique(return_inverse=True)
        rows = table[near].requires_grad_(), other[far].requires_grad_()
        loss = pair_loss(*rows, u, v[: len(u)], v[len(u) :])
        grads = torch.autograd.grad(loss, rows)
        rate = how.rate * (1 - step / steps)
        for values, seen, at, grad in zip((table, other), squares, (near, far), grads, strict=True):
            seen[at] += grad.square().mean(1, keepdim=True)
            values[at] -= rate * grad / (seen[at].sqrt() + 1e-10)
        yield loss.detach() / max(len(u), 1)


def thinned(ids: Tensor, keep: Tensor, rng: torch.Generator) -> Tensor:
    """The text without some of its frequent words."""
    parts = [  # a number for each word of all the text would take more memory than the text
        part[(torch.rand(len(part), generator=rng, device=ids.device) < keep[part]) | (part == END)]
        for part in ids.split(THINNED)
    ]
    return torch.cat(parts)


def pairs(ids: Tensor, how: SkipGram, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Centre words from random places, and the words of their windows: two of [P]."""
    device = ids.device
    places = torch.randint(0, len(ids), (how.batch,), generator=rng, device=device)
    reach = torch.randint(1, how.window + 1, (how.batch, 1), generator=rng, device=device)
    span = torch.cat([torch.arange(-how.window, 0), torch.arange(1, how.window + 1)]).to(device)
    around = (places.unsqueeze(1) + span).clamp(0, len(ids) - 1)  # [B, 2 * window]
    found, centre = ids[around].long(), ids[places].long()
    ends = found == END  # everything behind the nearest is out
    before = ends[:, : how.window].flip(1).cumsum(1).flip(1)
    after = ends[:, how.window :].cumsum(1)
    inside = torch.cat((before, after), dim=1) == 0
    good = inside & (span.abs() <= reach) & (centre != END).unsqueeze(1)
    return centre.unsqueeze(1).expand_as(found)[good], found[good]


def pair_loss(near: Tensor, far: Tensor, centre: Tensor, context: Tensor, drawn: Tensor) -> Tensor:
    """Eq. 4 of the paper, with the negatives' mean for 5 of them, summed over the pairs.

    near and far [rows, D] hold the vectors; centre and context [P] and drawn [N] say which.
    """
    u = functional.embedding(centre, near)  # [P, D]
    true = functional.logsigmoid((u * functional.embedding(context, far)).sum(-1))
    false = functional.logsigmoid(-(u @ functional.embedding(drawn, far).T))  # [P, N]
    return -(true.sum() + 5 * false.mean(1).sum())


def write(path: Path, words: Sequence[str], table: Tensor) -> None:
    """Save in the binary layout of word2vec, whole or not at all."""
    if not table.isfinite().all():
        raise HardnerError("a vector has become no number; lower the rate")
    with atomic_binary(path) as file:
        file.write(f"{len(words)} {table.shape[1]}\n".encode())
        for word, row in zip(words, table.cpu().numpy().astype("<f4"), strict=True):
            file.write(word.encode() + b" " + row.tobytes() + b"\n")
