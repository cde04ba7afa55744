"""Masked-language pre-training of the compact transformer, whole words at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from hardner.model.layers import Mode, Params, init_linear, layer_norm, linear, prefixed, scoped
from hardner.model.transformer import Transformer
from hardner.pretrain.muon import Muon
from hardner.seeds import seed_of


@dataclass(frozen=True)
class Masking:
    """What is hidden, and what the special pieces are called."""

    share: float = 0.2
    """Of the words."""
    first: int = 2
    """``[CLS]``, opens a block."""
    mask: int = 4
    """``[MASK]``."""
    special: int = 5
    """Pieces below this are never hidden."""


@dataclass(frozen=True)
class Pretraining:
    """How the transformer learns."""

    steps: int = 10_000
    rows: int = 512
    """Blocks of a batch."""
    width: int = 256
    """Pieces of a block."""
    rate: float = 2e-3
    warmup: int = 300
    weight_decay: float = 0.05
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Linear up, then linear down to nothing."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        return self.rate * (self.steps - step) / max(self.steps - self.warmup, 1)


class Learnt(NamedTuple):
    """What a step found."""

    step: int
    loss: Tensor
    """Cross-entropy of a hidden piece; on the device until it is looked at."""
    seconds: float


def init(transformer: Transformer, rng: torch.Generator) -> Params:
    """The transformer's parameters, and a head that guesses pieces with the same table."""
    size = transformer.size
    return {
        **prefixed("encoder", transformer.init(rng)),
        **prefixed("guess", init_linear(size, size, rng)),
        "guess.norm.weight": torch.ones(1, size),
        "guess.norm.bias": torch.zeros(1, size),
        "guess.pieces": torch.zeros(1, transformer.vocabulary),
    }


def hide(blocks: Tensor, inside: Tensor, masking: Masking, rng: torch.Generator) -> Tensor:
    """Which pieces to hide: whole words at random.

    blocks [N, P]; ``inside`` [V] says which pieces continue a word -> bool [N, P].
    """
    opens = ~inside[blocks]
    word = opens.long().cumsum(1)  # [N, P]
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    return (draws.gather(1, word.clamp(max=blocks.shape[1] - 1)) < masking.share) & (
        blocks >= masking.special
    )


def disguise(
    blocks: Tensor, hidden: Tensor, vocabulary: int, masking: Masking, rng: torch.Generator
) -> Tensor:
    """Of the hidden, 8 in 10 become ``[MASK]``, 1 another piece, 1 stays (Devlin et al., 2019)."""
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    size = (masking.special, vocabulary)
    other = torch.randint(*size, blocks.shape, generator=rng, device=blocks.device)
    shown = torch.where(draws < 0.8, masking.mask, torch.where(draws < 0.9, other, blocks))
    return torch.where(hidden, shown, blocks)


def guess_loss(
    transformer: Transformer, params: Params, shown: Tensor, places: Tensor, gold: Tensor
) -> Tensor:
    """Cross-entropy of the hidden pieces: shown [N, P], places and gold [H], -100 for none."""
    vectors = transformer(scoped(params, "encoder"), shown.unsqueeze(0), Mode(), full=True)
    picked = vectors.flatten(0, 2)[places].unsqueeze(0)  # [1, H, D]
    h = functional.gelu(linear(picked, params["guess.weight"], params["guess.bias"]))
    h = layer_norm(h, params["guess.norm.weight"], params["guess.norm.bias"])
    logits = linear(h, params["encoder.pieces"], params["guess.pieces"])[0]  # [H, V]
    return functional.cross_entropy(logits.float(), gold)


def blocks_of(pieces: Tensor, training: Pretraining, masking: Masking, step: int) -> Tensor:
    """A batch of blocks from random places of the text: pieces [all] -> [N, P]."""
    rng = torch.Generator(device=pieces.device).manual_seed(seed_of(training.seed, step, "place"))
    last = pieces.shape[0] - training.width
    starts = torch.randint(0, last, (training.rows, 1), generator=rng, device=pieces.device)
    span = torch.arange(training.width, device=pieces.device)
    blocks = pieces[starts + span].long()
    blocks[:, 0] = masking.first
    return blocks


def pretrain(
    transformer: Transformer,
    params: Params,
    pieces: Tensor,
    inside: Tensor,
    training: Pretraining,
    masking: Masking,
    state: dict[str, Tensor] | None = None,
    start: int = 0,
    compiled: bool = False,
) -> Iterator[tuple[Learnt, Muon]]:
    """Learn in place, step by step, from wherever ``start`` and ``state`` stand.

    Args:
        transformer: The network.
        params: From `init`, on the device of the pieces; moved in place.
        pieces: The whole text, int16 or wider, on the device.
        inside: Which pieces continue a word, [V].
        training: How.
        masking: What to hide.
        state: Of the optimiser, from an earlier part of the same run.
        start: The first step.
        compiled: Whether to compile the loss (worth it on a GPU).
    """
    device = pieces.device
    leaves = {n: p.requires_grad_() for n, p in params.items()}
    optimizer = Muon(leaves, weight_decay=training.weight_decay, state=state)
    loss_of: Callable[..., Tensor] = guess_loss
    if compiled:
        loss_of = torch.compile(guess_loss)
    room = int(training.rows * training.width * masking.share * 1.05)
    clock = time.perf_counter()
    for step in range(start, training.steps):
        rng = torch.Generator(device=device).manual_seed(seed_of(training.seed, step, "hide"))
        blocks = blocks_of(pieces, training, masking, step)
        hidden = hide(blocks, inside, masking, rng)
        shown = disguise(blocks, hidden, inside.shape[0], masking, rng)
        flat = hidden.flatten()
        places = flat.byte().topk(min(room, flat.shape[0])).indices  # a fixed number of places
        gold = torch.where(flat[places], blocks.flatten()[places], -100)
        with _fast(device):
            loss = loss_of(transformer, leaves, shown, places, gold)
        grads = torch.autograd.grad(loss, list(leaves.values()))
        optimizer.step(dict(zip(leaves, grads, strict=True)), training.rate_at(step))
        now = time.perf_counter()
        yield Learnt(step, loss.detach(), now - clock), optimizer
        clock = now


def _fast(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
