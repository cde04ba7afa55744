"""Self-training: a student is fitted to the soft labels that a teacher gives unlabelled text.

A teacher's soft label of a sentence is a distribution q over its tag sequences. A CRF descends the
cross-entropy of its own distribution p to it,

    -E_q[log p(y)] = log Z - sum_t <q(y_t), e_t> - <sum_t q(y_t-1, y_t), A>,

with emissions e_t and transitions A, start and end among them. So all that is needed of q are the
marginals of each word's tags and the expected count of each transition in the sentence. This is
exact, costs no more than the loss of hard labels, and equals it where the teacher is certain. A
softmax has no transitions and descends the cross-entropy of words.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.batch import Batch, Store
from hardner.features import Ints
from hardner.meta.inner import Losses
from hardner.model import crf
from hardner.model.crf_forward import FLOOR
from hardner.model.decoders import FORBIDDEN, UNSHOWN, DecoderKind, Emissions, tag_loss
from hardner.model.layers import SCORING, Mode, Params, mask_of, mean_over
from hardner.model.tagger import Tagger, sum_of_heads
from hardner.types import Sentence, seed_of

LONGEST_UNLABELLED = 64
"""Words of an unlabelled sentence, at most: a batch is as wide as its longest."""
_WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 16}
"""Words that the teachers label at once, counting padding and all samples."""


class TextLosses(Protocol):
    """What a second fit descends on sentences without labels."""

    @property
    def rows(self) -> Ints:
        """Of a store, [M, N]; -1 for none."""

    def repeat(self, times: int) -> "TextLosses":
        """Each sample's repeated in a row, for its restarts."""

    def losses(
        self, tagger: Tagger, batch: Batch, rows: Tensor, weight: float, mode: Mode
    ) -> Losses:
        """The tagging loss on a batch whose last sentences, at ``rows``, have no labels."""


TextTeacher = Callable[[Tagger, Params, Store, Ints], TextLosses]
"""What to descend, from what a first fit says of each sample's rows [M, N] of a store."""


def usable_sentences(sentences: Sequence[Sentence], seed: int = 0) -> list[int]:
    """Rows of sentences that can be learnt from, each text once, in a seeded order."""
    once = {s.tokens: row for row, s in enumerate(sentences) if 0 < len(s) <= LONGEST_UNLABELLED}
    return [once[text] for text in sorted(once, key=lambda text: seed_of(seed, *text))]


def unlabelled_rows(
    pool: Sequence[Sentence], order: Sequence[int], drawn: Sequence[Sequence[int]], most: int
) -> Ints:
    """For each sample drawn from a pool, the first rows of an order not in it: [M, N]."""
    found = []
    for rows in drawn:
        held = {pool[row].tokens for row in rows}
        found.append(list(islice((row for row in order if pool[row].tokens not in held), most)))
    least = min(map(len, found))
    return np.array([rows[:least] for rows in found], np.int64)


@dataclass(frozen=True)
class SoftLabels:
    """Distributions over tag sequences."""

    tags: Tensor
    """The probability of each tag of each word, 0 in the padding: [M, B, T, C]."""
    steps: Tensor
    """Expected count of each transition, [M, B, C + 1, C + 1]; the last index is outside."""


def soft_labels(emissions: Emissions) -> SoftLabels:
    """The soft labels that decoders give, under the constraints of their schemes."""
    scores, lengths, limits = emissions
    longer = pad(scores, (0, 0, 0, 1))  # one more word outside, behind the last
    pairs = crf.posterior(crf.linear_chain(longer, lengths, *limits)).pair_marginals()
    steps = pairs.sum(2)
    steps[..., -1, -1] = 0  # in the padding
    return SoftLabels(pairs.sum(-2)[:, :, :-1, :-1], steps)


def soft_label_loss(kind: DecoderKind, emissions: Emissions, wanted: SoftLabels) -> Tensor:
    """The cross-entropy of decoders to soft labels, averaged as `tag_loss` is: [M]."""
    scores, lengths, limits = emissions
    scores = scores.float() if scores.dtype.itemsize < 4 else scores
    if kind == "crf":
        # A forbidden transition has expected count 0, and 0 * -inf would be NaN.
        pair, start, end = (limit.clamp(min=FLOOR).unsqueeze(1) for limit in limits)
        expected = (wanted.tags * scores).sum((2, 3))  # [M, B]
        expected = expected + (wanted.steps[..., :-1, :-1] * pair).sum((2, 3))
        expected = expected + (wanted.steps[..., -1, :-1] * start).sum(-1)
        expected = expected + (wanted.steps[..., :-1, -1] * end).sum(-1)
        return mean_over(crf.log_partition(scores, lengths, *limits) - expected, lengths > 0)
    unused = limits.transitions.amax(1) == FORBIDDEN  # [M, C]: no tag may come before it
    logs = scores.masked_fill(unused[:, None, None], UNSHOWN).log_softmax(-1)
    return mean_over(-(wanted.tags * logs).sum(-1), mask_of(lengths, scores.shape[2]))


@dataclass(frozen=True)
class TeacherLabels:
    """The soft labels of each sample's unlabelled sentences, by its own teacher."""

    rows: Ints
    """Of a store, [M, N]; -1 for none."""
    labels: SoftLabels
    """Of each row of the store, by all D heads, [M * D, sentences + 1, ...]; the last one is for
    none."""

    def repeat(self, times: int) -> "TeacherLabels":
        """Each sample's labels repeated in a row, for its restarts."""
        tags, steps = (
            value.unflatten(0, (len(self.rows), -1)).repeat_interleave(times, 0).flatten(0, 1)
            if times > 1
            else value
            for value in (self.labels.tags, self.labels.steps)
        )
        return TeacherLabels(np.repeat(self.rows, times, 0), SoftLabels(tags, steps))

    def of(self, rows: Tensor, batch: Batch) -> SoftLabels:
        """The labels of rows [M, U], padded as the batch whose last sentences they are."""
        rows = rows.repeat_interleave(batch.heads, 0) if batch.heads > 1 else rows
        task = torch.arange(len(rows), device=rows.device).unsqueeze(1)  # [M * D, 1]
        tags = self.labels.tags[task, rows]  # [M * D, U, longest, C]
        wider = batch.tags.shape[-1] - tags.shape[2]
        return SoftLabels(pad(tags, (0, 0, 0, wider)), self.labels.steps[task, rows])

    def losses(
        self, tagger: Tagger, batch: Batch, rows: Tensor, weight: float, mode: Mode
    ) -> Losses:
        """The tagging loss on a batch whose last sentences, at ``rows``, have soft labels alone.

        Each of them weighs ``weight`` times as much as one with hard labels.
        """
        known, more = batch.lengths.shape[1] - rows.shape[1], weight * rows.shape[1]

        def both(labelled: Batch, own: Emissions, other: Emissions) -> Tensor:
            hard = tag_loss(tagger.decoder, own, labelled)
            soft = soft_label_loss(tagger.decoder, other, self.of(rows, batch))
            return (known * hard + more * soft) / (known + more)

        return losses_beside(tagger, batch, known, mode, both)


def losses_beside(
    tagger: Tagger,
    batch: Batch,
    known: int,
    mode: Mode,
    loss: Callable[[Batch, Emissions, Emissions], Tensor],
) -> Losses:
    """What a step descends on a batch of which only the first ``known`` sentences are labelled.

    ``loss`` gets these as a batch, their emissions, and those of the others.
    """

    def losses(params: Params, names: Collection[str], cut: Collection[str]) -> dict[str, Tensor]:
        scores, lengths, limits = tagger.emissions(
            params, tagger.encoder(params, batch, mode), batch
        )
        own = Emissions(scores[:, :known], lengths[:, :known], limits)
        other = Emissions(scores[:, known:], lengths[:, known:], limits)
        first = slice(known)
        partial = batch.partial and batch.partial.cut(first)
        labelled = replace(batch, tags=batch.tags[:, first], partial=partial)
        return {"tag": sum_of_heads(loss(labelled, own, other), batch)}

    return losses


@torch.no_grad()
def label_by_teacher(tagger: Tagger, params: Params, store: Store, rows: Ints) -> TeacherLabels:
    """The soft labels that each sample's parameters give its rows [M, N] of the store."""
    tags, device = tagger.tags, store.device
    like, heads = params["decoder.weight"], store.heads
    sentences, longest = len(store.tags.widths), int(store.tags.widths[rows].max())
    tasks = len(rows) * heads
    every = SoftLabels(
        like.new_zeros(tasks, sentences, longest, tags),
        like.new_zeros(tasks, sentences, tags + 1, tags + 1),
    )
    task = torch.arange(tasks, device=device).unsqueeze(1)  # [M * D, 1]
    for some in _alike(store, rows):
        at = torch.from_numpy(some).to(device)
        batch = store.batch(at, store.widths(some.ravel()))
        found = soft_labels(tagger.emissions(params, tagger.encoder(params, batch, SCORING), batch))
        at = at.repeat_interleave(heads, 0) if heads > 1 else at
        wide = min(longest, found.tags.shape[2])
        every.tags[task, at, :wide] = found.tags[:, :, :wide].to(like.dtype)
        every.steps[task, at] = found.steps.to(like.dtype)
    return TeacherLabels(rows, every)


def _alike(store: Store, rows: Ints) -> Iterator[Ints]:
    """The rows of all samples in batches of like length."""
    wide = store.tags.widths[rows]
    order = np.take_along_axis(rows, np.argsort(-wide, axis=1, kind="stable"), axis=1)
    most = max(store.widths(rows.ravel()).values()) * len(rows)
    size = max(1, _WORDS_AT_ONCE[store.device.type] // most)
    for start in range(0, order.shape[1], size):
        yield np.ascontiguousarray(order[:, start : start + size])
