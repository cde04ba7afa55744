"""Distillation: a small, fast network learns from a large one on unlabelled text.

The student is the teacher cut off after its lowest layers, or a BiLSTM over words and characters,
with the teacher's heads. It learns the teacher's marginals of every tag of every word, for all
heads at once; a cut-off teacher also learns its word vectors (FitNets), which say of every word
what tags say of few.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hardner.adapt.students import Student, choose_text, lower_layers
from hardner.batch import Batch, Store
from hardner.errors import HardnerError
from hardner.features import Ints
from hardner.meta.optim import CudaGraphRunner, Optimizer, clip
from hardner.model.crf import marginals
from hardner.model.decoders import FORBIDDEN, UNSHOWN
from hardner.model.encoders import EncoderWithCopies
from hardner.model.layers import (
    SCORING,
    Mode,
    Params,
    autocast,
    cpu_has_bfloat16,
    fit_autocast,
    mask_of,
)
from hardner.model.tagger import Model, Tagger
from hardner.model.transformer import PieceEncoder
from hardner.tag.predictor import Predictor
from hardner.types import Progress, Sentence, seed_of

_LONGEST = 128
"""Words of a sentence, at most."""
_POOL = 64
"""Batches among which sentences are sorted by length."""

_HELD = 20_000
"""Sentences of which it is remembered what the teacher said."""
_EMBEDDINGS = "encoder.pieces"
"""The teacher's vectors of subwords, which its student keeps as they are."""
_REPORT_EVERY = 50
"""Steps between two calls of ``on_progress``."""
LAYERS = 2
"""Of a teacher of six, what its student begins with."""
GENTLE_RATE = 5e-4
"""Peak learning rate of a student that begins with layers of its teacher."""


@dataclass(frozen=True)
class Distillation:
    """Training settings."""

    steps: int = 20_000
    batch: int = 128
    """Sentences a step."""
    rate: float = 2e-3
    """Peak learning rate: linear warm-up over a twentieth of the steps, then linear decay."""
    dropout: float = 0.2
    unseen: float = 0.1
    """Share of the words whose vector is dropped, so that characters are learnt to be relied on."""
    seed: int = 0

    def share(self, step: int) -> float:
        """Of the peak rate, at a step."""
        return min(1.0, 20 * (step + 1) / self.steps) * (1 - step / self.steps)


def distil_predictor(
    teacher: Predictor,
    sentences: Sequence[Sentence],
    how: Distillation,
    student: int | Student = LAYERS,
    *,
    device: torch.device | str = "cpu",
    on_choice: Progress | None = None,
    on_progress: Callable[[int, float], None] | None = None,
) -> Predictor:
    """A small predictor of the same types, taught by a large one on unlabelled text.

    Args:
        teacher: What it finds is what is learnt.
        sentences: Text of the kind that the small predictor is for; labels are ignored. A BiLSTM
            learns from all of it, a teacher that is cut off from what `choose_text` takes.
        how: Training settings.
        student: How many of the teacher's lowest layers it begins with, or the sizes of a BiLSTM.
        device: Where to compute.
        on_choice: Called with the sentences that were looked at and those in all.
        on_progress: Called now and then with the steps done and the loss.
    """
    model, text, start = Model(teacher.tagger, teacher.params), sentences, None
    if isinstance(student, Student):
        tagger = student.tagger(text, teacher.tagger.tag_sets)
    else:
        tagger, start = lower_layers(model, student)
        text = choose_text(teacher, text, on_choice)
    params = distil_tagger(
        model, tagger, text, how, start=start, device=device, on_progress=on_progress
    )
    return Predictor(tagger, params, teacher.temperatures, thresholds=teacher.thresholds)


def distil_tagger(
    teacher: tuple[Tagger, Params],
    student: Tagger,
    sentences: Sequence[Sentence],
    how: Distillation,
    *,
    start: Params | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int, float], None] | None = None,
) -> Params:
    """The student's parameters after training.

    Args:
        teacher: A network and its parameters.
        student: With the teacher's heads.
        sentences: Text; labels, if any, are ignored.
        how: Training settings.
        start: What `lower_layers` made for the student to begin with; else it begins at random.
        device: Where to compute.
        on_progress: Called now and then with the steps done and the loss.
    """
    if student.tag_sets != teacher[0].tag_sets:
        raise HardnerError("the student must have the teacher's heads")
    texts = [Sentence(s.tokens) for s in sentences if 0 < len(s) <= _LONGEST]
    if not texts:
        raise HardnerError("there are no sentences to learn from")
    device = torch.device(device)
    lesson = _Lesson(
        teacher[0],
        {name: value.to(device) for name, value in _fast(teacher, device).items()},
        teacher[0].store(texts, None, device),
        student,
        student.store(texts, None, device),
        how,
        start is not None,
    )
    begun = student.init(how.seed) if start is None else start
    current = {name: value.to(device, copy=True) for name, value in begun.items()}
    still = {n: current.pop(n) for n in [*current] if start is not None and n == _EMBEDDINGS}
    optimizer = Optimizer("adamw", weight_decay=1e-2)
    state = optimizer.init(current)
    replay = CudaGraphRunner([*current.values(), *state.values()])
    for step, rows in zip(range(how.steps), _batches(lesson.read, how), strict=False):
        torch.manual_seed(seed_of("distil", how.seed, step))
        widths = lesson.widths(rows)

        def compute(
            share: Tensor, rows: Tensor, widths: tuple[dict[str, int], ...] = widths
        ) -> tuple[list[Tensor], list[Tensor]]:
            leaves = {n: p.detach().requires_grad_() for n, p in current.items()}
            loss = lesson.loss(leaves | still, rows, widths)
            found = torch.autograd.grad(loss, list(leaves.values()))
            grads = clip(dict(zip(leaves, found, strict=True)), 1.0)
            rates: dict[str, Tensor | float] = dict.fromkeys(grads, how.rate * share)
            optimizer.move(leaves, grads, state, rates)
            return [*current.values(), *state.values()], [loss.detach()]

        key = (*(tuple(width.items()) for width in widths), rows.shape)
        inputs = [torch.tensor(how.share(step)), torch.from_numpy(rows)]
        (loss,) = replay(key, compute, inputs)
        if on_progress and ((step + 1) % _REPORT_EVERY == 0 or step + 1 == how.steps):
            on_progress(step + 1, float(loss))
    return {name: value.cpu() for name, value in (current | still).items()}


def _fast(teacher: tuple[Tagger, Params], device: torch.device) -> Params:
    """The teacher's parameters, in half precision where a CPU is faster with that."""
    tagger, params = teacher
    encoder = (
        tagger.encoder.base if isinstance(tagger.encoder, EncoderWithCopies) else tagger.encoder
    )
    if device.type == "cpu" and cpu_has_bfloat16() and isinstance(encoder, PieceEncoder):
        return encoder.transformer.halved(params)
    return params


class _Heard(NamedTuple):
    """What the teacher said of sentences."""

    marginals: Tensor  # [D, B, T, C]
    words: Tensor | None  # its vectors, [B, T, H], where the student is to have the same


@dataclass(frozen=True)
class _Lesson:
    """Both networks, and the sentences as each of them reads them."""

    teacher: Tagger
    known: Params
    shown: Store
    student: Tagger
    read: Store
    how: Distillation
    cut: bool = False
    """Whether the student is the teacher cut off."""
    heard: dict[int, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    """What the teacher said of sentences, [T, D, C] and [T, H]; on a CPU, where saying it again
    costs more than holding it."""

    @property
    def vectors(self) -> bool:
        """Whether the student is to have the teacher's word vectors too; copies have several."""
        return self.cut and isinstance(self.teacher.encoder, PieceEncoder)

    def widths(self, rows: Ints) -> tuple[dict[str, int], dict[str, int]]:
        return self.shown.widths(rows), self.read.widths(rows)

    def loss(self, params: Params, rows: Tensor, widths: Sequence[dict[str, int]]) -> Tensor:
        """The cross-entropy of the student to the teacher per word, averaged over heads.

        If word vectors are to be the same, summed over heads, and their mean squared difference is
        added.
        """
        heads = torch.arange(len(self.student.tag_sets), device=rows.device)
        wanted, vectors = self._hear(rows, widths[0], heads)
        read = _drop_words(self.read.batch(rows.unsqueeze(0), widths[1]), self.how.unseen)
        halves = self.cut and rows.device.type == "cpu"
        with fit_autocast("bfloat16", rows.device) if halves else nullcontext():
            encoded = self.student.encoder(params, read, Mode(self.how.dropout))
            scores, lengths, chain = self.student.emissions(params, encoded, read, heads)
        unused = chain.transitions.amax(1) == FORBIDDEN  # [D, C]: no tag may come before it
        logs = scores.float().masked_fill(unused[:, None, None], UNSHOWN).log_softmax(-1)
        wide = min(wanted.shape[2], logs.shape[2])  # both hold the longest sentence
        there = mask_of(lengths, wide)  # [D, B, T]
        loss = -(wanted[:, :, :wide] * logs[:, :, :wide]).sum() / there.sum()
        if vectors is None:
            return loss
        own = encoded.words[0, :, :wide].float()
        apart = (own - vectors[:, :wide].float()).square().mean(-1)  # [B, T]
        return loss * len(heads) + (apart * there[0]).sum() / there[0].sum()

    def _hear(self, rows: Tensor, widths: dict[str, int], heads: Tensor) -> _Heard:
        """What the teacher says of each word."""
        numbers = rows.tolist() if rows.device.type == "cpu" else []
        if numbers and all(number in self.heard for number in numbers):
            told, vectors = zip(*(self.heard[number] for number in numbers), strict=True)
            padded = pad_sequence([*told], batch_first=True).permute(2, 0, 1, 3)
            own = pad_sequence([*vectors], batch_first=True) if self.vectors else None
            return _Heard(padded, own)
        shown = self.shown.batch(rows.unsqueeze(0), widths)
        with torch.no_grad():
            with autocast("bfloat16", rows.device):
                encoded = self.teacher.encoder(self.known, shown, SCORING)
                taught = self.teacher.emissions(self.known, encoded, shown, heads)
            found = marginals(taught.scores.float(), taught.lengths, *taught.chain)
        words = encoded.words[0] if self.vectors else None
        if len(self.heard) < _HELD:
            for row, number in enumerate(numbers):
                length = int(shown.lengths[0, row])
                # Vectors in half precision: at 400 numbers a word they are what fills the memory.
                own = None if words is None else words[row, :length].bfloat16()
                self.heard[number] = found[:, row, :length].transpose(0, 1).clone(), own
        return _Heard(found, words)


def _drop_words(batch: Batch, share: float) -> Batch:
    """The batch with some words replaced by the unknown word, if the network reads words."""
    if "words" not in batch.inputs:
        return batch
    words = batch.inputs["words"]
    kept = torch.rand(words.shape, device=words.device) >= share
    return replace(batch, inputs={**batch.inputs, "words": words * kept})


def _batches(store: Store, how: Distillation) -> Iterator[Ints]:
    """Rows of sentences of like length, [B], epoch after epoch, each in a new order."""
    lengths = store.tags.widths[:-1]
    size = min(how.batch, len(lengths))
    rng: Any = np.random.default_rng(how.seed)
    while True:
        order = rng.permutation(len(lengths))
        for start in range(0, len(order), size * _POOL):
            pool = order[start : start + size * _POOL]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            cuts = np.arange(0, len(pool) - size + 1, size)
            for cut in rng.permutation(cuts):
                yield pool[cut : cut + size]
