"""Masked-language pre-training of the compact transformer, whole words at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.model.layers import SCORING, Params, init_linear, layer_norm, linear, prefixed, scoped
from hardner.model.runtime import autocast
from hardner.model.transformer import Rotation, Transformer
from hardner.pretrain.muon import Muon
from hardner.pretrain.tokenizer import SPECIAL
from hardner.seeds import seed_of

FIRST, MASK = SPECIAL.index("[CLS]"), SPECIAL.index("[MASK]")
NONE = -100
"""Stands for the piece at a place that is not hidden."""


@dataclass(frozen=True)
class Pretraining:
    """How the transformer learns."""

    steps: int = 10_000
    rows: int = 512
    """Blocks of a batch."""
    width: int = 256
    """Pieces of a block."""
    rate: float = 3e-3
    warmup: int = 300
    """Steps, a tenth of all at most."""
    weight_decay: float = 0.05
    hidden: float = 0.2
    """Share of the words."""
    alone: float = 0.08
    """Share of the steps, after another run's model, in which only what is fresh moves."""
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Linear up, then linear down to nothing."""
        warmup = min(self.warmup, self.steps // 10)
        if step < warmup:
            return self.rate * (step + 1) / warmup
        return self.rate * (self.steps - step) / (self.steps - warmup)


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


def draw_blocks(pieces: Tensor, training: Pretraining, step: int) -> Tensor:
    """A batch of blocks from random places of the text: pieces [all], 16 bits each -> [N, P]."""
    rng = torch.Generator(device=pieces.device).manual_seed(seed_of(training.seed, step, "place"))
    places = len(pieces) - training.width + 1
    starts = torch.randint(places, (training.rows, 1), generator=rng, device=pieces.device)
    span = torch.arange(training.width, device=pieces.device)
    blocks = pieces[starts + span].long() & 0xFFFF
    blocks[:, 0] = FIRST
    return blocks


def hide(blocks: Tensor, inside: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Which pieces to hide: whole words at random, special pieces never.

    blocks [N, P]; ``inside`` [V] says which pieces continue a word -> bool [N, P].
    """
    word = (~inside[blocks]).long().cumsum(1) - 1  # [N, P]; a block opens with a special piece
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    return (draws.gather(1, word) < share) & (blocks >= len(SPECIAL))


def disguise(blocks: Tensor, hidden: Tensor, vocabulary: int, rng: torch.Generator) -> Tensor:
    """Of the hidden, 8 in 10 become ``[MASK]``, 1 any piece, 1 stays (Devlin et al., 2019)."""
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    size = (len(SPECIAL), vocabulary)
    other = torch.randint(*size, blocks.shape, generator=rng, device=blocks.device)
    shown = torch.where(draws < 0.8, MASK, torch.where(draws < 0.9, other, blocks))
    return torch.where(hidden, shown, blocks)


def masked_places(blocks: Tensor, hidden: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The places of the hidden pieces in the batch, and the pieces: two of [H].

    H depends on the shape only, so that a compiled loss serves every batch; it is far above what
    chance hides. Places beyond the last hidden one stand for `NONE`.
    """
    size = blocks.numel()
    room = min(size, int(size * share + 6 * size**0.5))
    flat = hidden.flatten()
    places = flat.byte().sort(descending=True, stable=True).indices[:room]
    return places, torch.where(flat[places], blocks.flatten()[places], NONE)


class MaskedBatch(NamedTuple):
    """What a step learns from."""

    shown: Tensor
    """Blocks with some pieces hidden, [N, P]."""
    places: Tensor
    """Where they are in the flattened blocks, [H]."""
    gold: Tensor
    """What they are, [H]."""


def batch(pieces: Tensor, inside: Tensor, training: Pretraining, step: int) -> MaskedBatch:
    """The batch of a step: pieces [all], inside [V]."""
    seed = seed_of(training.seed, step, "hide")
    rng = torch.Generator(device=pieces.device).manual_seed(seed)
    blocks = draw_blocks(pieces, training, step)
    hidden = hide(blocks, inside, training.hidden, rng)
    shown = disguise(blocks, hidden, len(inside), rng)
    return MaskedBatch(shown, *masked_places(blocks, hidden, training.hidden))


def guess_loss(
    transformer: Transformer,
    params: Params,
    shown: Tensor,
    places: Tensor,
    gold: Tensor,
    turn: Rotation | None = None,
) -> Tensor:
    """Mean cross-entropy of the hidden pieces: shown [N, P], places and gold [H]."""
    vectors = transformer(scoped(params, "encoder"), shown.unsqueeze(0), SCORING, True, turn)
    picked = vectors.flatten(0, 2)[places].unsqueeze(0)  # [1, H, D]
    h = functional.gelu(linear(picked, params["guess.weight"], params["guess.bias"]))
    h = layer_norm(h, params["guess.norm.weight"], params["guess.norm.bias"])
    logits = linear(h, params["encoder.pieces"], params["guess.pieces"])[0]  # [H, V]
    total = functional.cross_entropy(logits.float(), gold, ignore_index=NONE, reduction="sum")
    return total / (gold != NONE).sum().clamp(min=1)


def pretrain_steps(
    transformer: Transformer,
    optimizer: Muon,
    pieces: Tensor,
    inside: Tensor,
    training: Pretraining,
) -> Iterator[Tensor]:
    """Learn step by step from where the optimiser stands, and tell each step's loss.

    On a GPU the loss is compiled, in half precision, and stays there until it is looked at.

    Args:
        transformer: The network.
        optimizer: Of parameters from `init`, on the device of the pieces; moved in place.
        pieces: The whole text, 16 bits a piece.
        inside: Which pieces continue a word, [V].
        training: How.
    """
    device = pieces.device
    if len(pieces) < training.width:
        short = f"the text has {len(pieces)} pieces, a block {training.width}"
        raise HardnerError(f"{short}; give more text or a smaller width")
    fast = device.type == "cuda"
    loss_of: Callable[..., Tensor] = torch.compile(guess_loss) if fast else guess_loss
    turn = transformer.rotation(training.width, optimizer.params["encoder.pieces"])
    for step in range(optimizer.steps, training.steps):
        given = batch(pieces, inside, training, step)
        with autocast("bfloat16", device):
            loss = loss_of(transformer, optimizer.params, *given, turn)
        grads = torch.autograd.grad(loss, list(optimizer.params.values()))
        named = dict(zip(optimizer.params, grads, strict=True))
        early = len(optimizer.late) < len(named) and step < training.alone * training.steps
        optimizer.step(named, training.rate_at(step), early)
        yield loss.detach()
