"""Distillation: a small, fast network learns from a large one on unlabelled text.

The student is a BiLSTM over words and characters with the teacher's heads. It learns the teacher's
marginals of every tag of every word, for all heads at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hardner.batch import Batch, Store
from hardner.episodes import seed_of
from hardner.errors import HardnerError
from hardner.features import Ints
from hardner.meta.optim import CudaGraphRunner, Optimizer, clip
from hardner.model.characters import Characters
from hardner.model.crf import marginals
from hardner.model.decoders import FORBIDDEN, UNSHOWN
from hardner.model.encoders import WordEncoder
from hardner.model.layers import SCORING, Mode, Params, autocast, mask_of
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.types import Sentence

_LONGEST = 128
"""Words of a sentence, at most."""
_POOL = 64
"""Batches among which sentences are sorted by length."""

_HELD = 50_000
"""Sentences of which it is remembered what the teacher said."""
_REPORT_EVERY = 50
"""Steps between two calls of ``on_progress``."""


@dataclass(frozen=True)
class Student:
    """Sizes of the small network."""

    words: int = 40_000
    """Vocabulary: the most frequent words."""
    dimension: int = 128
    letters: Characters = field(
        default_factory=lambda: Characters(embedding=32, filters=96, widths=(2, 3, 4))
    )
    hidden: int = 256
    """Of one direction."""

    def tagger(self, sentences: Sequence[Sentence], tag_sets: Sequence[TagSet]) -> Tagger:
        """The network, with a vector for each frequent word that occurs more than once."""
        seen = Counter(word for sentence in sentences for word in sentence.tokens)
        often = (word for word, n in seen.most_common(self.words) if n > 1 and "\n" not in word)
        encoder = WordEncoder(tuple(often), self.dimension, True, self.letters, "lstm", self.hidden)
        return Tagger(encoder, tuple(tag_sets), "softmax")


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


def distil_tagger(
    teacher: tuple[Tagger, Params],
    student: Tagger,
    sentences: Sequence[Sentence],
    how: Distillation,
    *,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int, float], None] | None = None,
) -> Params:
    """The student's parameters after training.

    Args:
        teacher: A network and its parameters.
        student: With the teacher's heads.
        sentences: Text; labels, if any, are ignored.
        how: Training settings.
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
        {name: value.to(device) for name, value in teacher[1].items()},
        teacher[0].store(texts, None, device),
        student,
        student.store(texts, None, device),
        how,
    )
    current = {name: value.to(device) for name, value in student.init(how.seed).items()}
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
            loss = lesson.loss(leaves, rows, widths)
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
    return {name: value.cpu() for name, value in current.items()}


@dataclass(frozen=True)
class _Lesson:
    """Both networks, and the sentences as each of them reads them."""

    teacher: Tagger
    known: Params
    shown: Store
    student: Tagger
    read: Store
    how: Distillation
    heard: dict[int, Tensor] = field(default_factory=dict)
    """What the teacher said of sentences, [D, T, C]; on a CPU, where saying it again costs more
    than holding it."""

    def widths(self, rows: Ints) -> tuple[dict[str, int], dict[str, int]]:
        return self.shown.widths(rows), self.read.widths(rows)

    def loss(self, params: Params, rows: Tensor, widths: Sequence[dict[str, int]]) -> Tensor:
        """The cross-entropy of the student to the teacher per word, averaged over heads."""
        heads = torch.arange(len(self.student.tag_sets), device=rows.device)
        wanted = self._marginals(rows, widths[0], heads)
        read = _drop_words(self.read.batch(rows.unsqueeze(0), widths[1]), self.how.unseen)
        encoded = self.student.encoder(params, read, Mode(self.how.dropout))
        scores, lengths, chain = self.student.emissions(params, encoded, read, heads)
        unused = chain.transitions.amax(1) == FORBIDDEN  # [D, C]: no tag may come before it
        logs = scores.masked_fill(unused[:, None, None], UNSHOWN).log_softmax(-1)
        wide = min(wanted.shape[2], logs.shape[2])  # both hold the longest sentence
        there = mask_of(lengths, wide)  # [D, B, T]
        return -(wanted[:, :, :wide] * logs[:, :, :wide]).sum() / there.sum()

    def _marginals(self, rows: Tensor, widths: dict[str, int], heads: Tensor) -> Tensor:
        """What the teacher says of each word, [D, B, T, C]."""
        numbers = rows.tolist() if rows.device.type == "cpu" else []
        if numbers and all(number in self.heard for number in numbers):
            own = [self.heard[number].transpose(0, 1) for number in numbers]  # [T, D, C] each
            return pad_sequence(own, batch_first=True).permute(2, 0, 1, 3)
        shown = self.shown.batch(rows.unsqueeze(0), widths)
        with torch.no_grad():
            with autocast("bfloat16", rows.device):
                encoded = self.teacher.encoder(self.known, shown, SCORING)
                taught = self.teacher.emissions(self.known, encoded, shown, heads)
            found = marginals(taught.scores.float(), taught.lengths, *taught.chain)
        if len(self.heard) < _HELD:
            for row, number in enumerate(numbers):
                self.heard[number] = found[:, row, : int(shown.lengths[0, row])].clone()
        return found


def _drop_words(batch: Batch, share: float) -> Batch:
    """The batch with some words replaced by the unknown word."""
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
