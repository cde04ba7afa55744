"""Masked language modelling of the compact transformer, with whole words masked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.meta.optim import Muon
from hardner.model.layers import (
    SCORING,
    Params,
    autocast,
    init_linear,
    layer_norm,
    linear,
    prefixed,
    scoped,
)
from hardner.model.transformer import Rotation, Transformer
from hardner.pretrain.text import SPECIAL
from hardner.types import seed_of

_CLS, _MASK = SPECIAL.index("[CLS]"), SPECIAL.index("[MASK]")
IGNORED = -100
"""Label of a place that is not masked."""


@dataclass(frozen=True)
class Pretraining:
    """Hyper-parameters of masked language modelling."""

    steps: int = 10_000
    rows: int = 512
    """Blocks a batch."""
    width: int = 256
    """Subwords a block."""
    rate: float = 3e-3
    """Peak learning rate."""
    warmup: int = 300
    """Warm-up steps; with the linear schedule at most a tenth of all."""
    weight_decay: float = 0.05
    hidden: float = 0.2
    """Share of the words that is masked."""
    alone: float = 0.08
    """Going on from another run's model: the first share of the steps, in which only tensors that
    are new are trained; with ``wsd`` these are the warm-up."""
    seed: int = 0
    schedule: Literal["linear", "wsd"] = "linear"
    """Linear decay from the warm-up on; or warm-up, stable rate and decay, which can go on without
    knowing its end."""
    cooldown: int = 0
    """Steps of the decay of ``wsd``, the last ones."""
    half_state: bool = False
    """Round parameters to float16 and moments to bfloat16 whenever a state is due, in memory too:
    the state has half the size, and going on from it changes nothing."""

    def __post_init__(self) -> None:
        if self.cooldown and self.schedule != "wsd":
            raise HardnerError("a cooldown belongs to the schedule wsd; the linear one needs none")
        if not 0 <= self.cooldown <= self.steps:
            raise HardnerError(f"a cooldown of {self.cooldown:,} in {self.steps:,} steps")

    @property
    def stable_until(self) -> int:
        """The step from which on the rate depends on when the run will end."""
        return self.steps - self.cooldown if self.schedule == "wsd" else 0

    @property
    def first_alone(self) -> int:
        """Steps in which only new tensors are trained, where there are others."""
        return self.warmup if self.schedule == "wsd" else ceil(self.alone * self.steps)

    def rate_at(self, step: int) -> float:
        """Linear warm-up; then linear decay to zero, or a stable rate and its decay at the end."""
        wsd = self.schedule == "wsd"
        warmup = self.warmup if wsd else min(self.warmup, self.steps // 10)
        if step < warmup:
            return self.rate * (step + 1) / warmup
        if not wsd:
            return self.rate * (self.steps - step) / (self.steps - warmup)
        # 1 - sqrt rather than a straight line: Haegele et al., 2024, section 3.
        done = max(0, step - self.stable_until) / max(1, self.cooldown)
        return self.rate * (1 - sqrt(done))


def init_masked(transformer: Transformer, rng: torch.Generator) -> Params:
    """The transformer's parameters, and a prediction head tied to its subword embeddings."""
    size = transformer.size
    return {
        **prefixed("encoder", transformer.init(rng)),
        **prefixed("guess", init_linear(size, size, rng)),
        "guess.norm.weight": torch.ones(1, size),
        "guess.norm.bias": torch.zeros(1, size),
        "guess.pieces": torch.zeros(1, transformer.vocabulary),
    }


def draw_blocks(text: Tensor, training: Pretraining, step: int) -> Tensor:
    """A batch of blocks from random places of the text: ids [all], 16 bits each -> [N, P]."""
    rng = torch.Generator(device=text.device).manual_seed(seed_of(training.seed, step, "place"))
    places = len(text) - training.width + 1
    starts = torch.randint(places, (training.rows, 1), generator=rng, device=text.device)
    span = torch.arange(training.width, device=text.device)
    blocks = text[starts + span].long() & 0xFFFF  # torch has no uint16: undo the sign
    blocks[:, 0] = _CLS
    return blocks


def choose_masked(blocks: Tensor, inside: Tensor, share: float, rng: torch.Generator) -> Tensor:
    """Which subwords to mask: those of whole words at random, special ones never.

    blocks [N, P]; ``inside`` [V] says which subwords continue a word -> bool [N, P].
    """
    word = (~inside[blocks]).long().cumsum(1) - 1  # [N, P]; a block opens with [CLS]
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    return (draws.gather(1, word) < share) & (blocks >= len(SPECIAL))


def corrupt(blocks: Tensor, masked: Tensor, vocabulary: int, rng: torch.Generator) -> Tensor:
    """Of the masked, 8 in 10 become ``[MASK]``, 1 any subword, 1 stays (Devlin et al., 2019)."""
    draws = torch.rand(blocks.shape, generator=rng, device=blocks.device)
    size = (len(SPECIAL), vocabulary)
    other = torch.randint(*size, blocks.shape, generator=rng, device=blocks.device)
    shown = torch.where(draws < 0.8, _MASK, torch.where(draws < 0.9, other, blocks))
    return torch.where(masked, shown, blocks)


def masked_places(blocks: Tensor, masked: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Places of the masked subwords in the flattened batch, and their ids: two of [H].

    H depends on the shape alone, so that one compiled loss serves every batch. Places beyond the
    last masked one are labelled `IGNORED`.
    """
    size = blocks.numel()
    room = min(size, int(size * share + 6 * size**0.5))  # far above what chance masks
    flat = masked.flatten()
    places = flat.byte().sort(descending=True, stable=True).indices[:room]
    return places, torch.where(flat[places], blocks.flatten()[places], IGNORED)


class MaskedBatch(NamedTuple):
    """What a step is trained on."""

    shown: Tensor
    """Blocks with some subwords masked, [N, P]."""
    places: Tensor
    """Where those are in the flattened blocks, [H]."""
    gold: Tensor
    """Their ids, [H]."""


def masked_batch(text: Tensor, inside: Tensor, training: Pretraining, step: int) -> MaskedBatch:
    """The batch of a step: text [all], inside [V]."""
    rng = torch.Generator(device=text.device).manual_seed(seed_of(training.seed, step, "hide"))
    blocks = draw_blocks(text, training, step)
    masked = choose_masked(blocks, inside, training.hidden, rng)
    shown = corrupt(blocks, masked, len(inside), rng)
    return MaskedBatch(shown, *masked_places(blocks, masked, training.hidden))


def masked_loss(
    transformer: Transformer,
    params: Params,
    shown: Tensor,
    places: Tensor,
    gold: Tensor,
    turn: Rotation | None = None,
) -> Tensor:
    """Mean cross-entropy of the masked subwords: shown [N, P], places and gold [H]."""
    vectors = transformer(scoped(params, "encoder"), shown.unsqueeze(0), SCORING, True, turn)
    picked = vectors.flatten(0, 2)[places].unsqueeze(0)  # [1, H, D]
    h = functional.gelu(linear(picked, params["guess.weight"], params["guess.bias"]))
    h = layer_norm(h, params["guess.norm.weight"], params["guess.norm.bias"])
    logits = linear(h, params["encoder.pieces"], params["guess.pieces"])[0]  # [H, V]
    total = functional.cross_entropy(logits.float(), gold, ignore_index=IGNORED, reduction="sum")
    return total / (gold != IGNORED).sum().clamp(min=1)


def pretrain_steps(
    transformer: Transformer, optimizer: Muon, text: Tensor, inside: Tensor, training: Pretraining
) -> Iterator[Tensor]:
    """Train from where the optimiser stands, and yield each step's loss, still on its device.

    ``text`` is the ids of all subwords, 16 bits each; ``inside`` [V] says which continue a word.
    """
    device = text.device
    if len(text) < training.width:
        short = f"the text has {len(text)} subwords, a block {training.width}"
        raise HardnerError(f"{short}; give more text or a smaller width")
    fast = device.type == "cuda"
    loss_of: Callable[..., Tensor] = torch.compile(masked_loss) if fast else masked_loss
    turn = transformer.rotation(training.width, optimizer.params["encoder.pieces"])
    for step in range(optimizer.steps, training.steps):
        given = masked_batch(text, inside, training, step)
        with autocast("bfloat16", device):
            loss = loss_of(transformer, optimizer.params, *given, turn)
        grads = torch.autograd.grad(loss, list(optimizer.params.values()))
        named = dict(zip(optimizer.params, grads, strict=True))
        early = len(optimizer.late) < len(named) and step < training.first_alone
        optimizer.step(named, training.rate_at(step), early)
        yield loss.detach()
