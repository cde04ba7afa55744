"""Learning from text without labels: a pupil is fitted to what a fitted teacher thinks of it.

What a teacher thinks of a sentence is a distribution q over its tag sequences. A CRF descends the
cross-entropy of its own distribution p to it,

    -E_q[log p(y)] = log Z - sum_t <q(y_t), e_t> - <sum_t q(y_t-1, y_t), A>,

with emissions e_t and transitions A, start and end among them. So all that is needed of q are the
probabilities of each word's tags, and how often it expects each step from a tag to the next in
the whole sentence. This is exact, costs no more than the loss of given tags, and is that loss
where the teacher is sure. A softmax has no transitions and descends the cross-entropy of words.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.batch import Batch, Ints, Store
from hardner.meta.terms import Losses
from hardner.model import crf
from hardner.model.crf_forward import FLOOR
from hardner.model.decoders import FORBIDDEN, UNSHOWN, DecoderKind, Emissions, tag_loss
from hardner.model.heads import mean_over
from hardner.model.layers import SCORING, Mode, Params, mask_of
from hardner.model.tagger import Tagger
from hardner.seeds import seed_of
from hardner.types import Sentence

LONGEST_UNLABELLED = 64
"""Words of a sentence that is learnt from: one longer would make a whole batch as wide."""
_WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 16}
"""Words that are taught at once, padding and all samples counted."""


def usable_sentences(sentences: Sequence[Sentence], seed: int = 0) -> list[int]:
    """Those that can be learnt from, each text once, in an order that hashes of them decide."""
    once = {s.tokens: row for row, s in enumerate(sentences) if 0 < len(s) <= LONGEST_UNLABELLED}
    return [once[text] for text in sorted(once, key=lambda text: seed_of(seed, *text))]


def unlabelled_rows(
    pool: Sequence[Sentence], order: Sequence[int], drawn: Sequence[Sequence[int]], most: int
) -> Ints:
    """For each sample drawn of a pool, rows in that order of texts it does not hold: [M, N]."""
    found = []
    for rows in drawn:
        held = {pool[row].tokens for row in rows}
        found.append(list(islice((row for row in order if pool[row].tokens not in held), most)))
    least = min(map(len, found))
    return np.array([rows[:least] for rows in found], np.int64)


@dataclass(frozen=True)
class SoftLabels:
    """What teachers think of sentences, or what they are expected to."""

    tags: Tensor
    """The probability of each tag of each word, 0 in the padding: [M, B, T, C]."""
    steps: Tensor
    """How often each step between tags is expected, outside being the last: [M, B, C + 1, C + 1]"""


def soft_labels(emissions: Emissions) -> SoftLabels:
    """Of decoders, under what their schemes allow."""
    scores, lengths, limits = emissions
    longer = pad(scores, (0, 0, 0, 1))  # one more word outside, behind the last
    pairs = crf.posterior(crf.linear_chain(longer, lengths, *limits)).pair_marginals()
    steps = pairs.sum(2)
    steps[..., -1, -1] = 0  # in the padding
    return SoftLabels(pairs.sum(-2)[:, :, :-1, :-1], steps)


def soft_label_loss(kind: DecoderKind, emissions: Emissions, wanted: SoftLabels) -> Tensor:
    """The cross-entropy of decoders to opinions, averaged as `tag_loss` is: [M]."""
    scores, lengths, limits = emissions
    scores = scores.float() if scores.dtype.itemsize < 4 else scores
    if kind == "crf":
        # What is forbidden is never expected, and must not make 0 * -inf of it.
        pair, start, end = (limit.clamp(min=FLOOR).unsqueeze(1) for limit in limits)
        expected = (wanted.tags * scores).sum((2, 3))  # [M, B]
        expected = expected + (wanted.steps[..., :-1, :-1] * pair).sum((2, 3))
        expected = expected + (wanted.steps[..., -1, :-1] * start).sum(-1)
        expected = expected + (wanted.steps[..., :-1, -1] * end).sum(-1)
        return mean_over(crf.log_partition(scores, lengths, *limits) - expected, lengths > 0)
    foreign = limits.transitions.amax(1) == FORBIDDEN  # [M, C]: no tag may come before it
    logs = scores.masked_fill(foreign[:, None, None], UNSHOWN).log_softmax(-1)
    return mean_over(-(wanted.tags * logs).sum(-1), mask_of(lengths, scores.shape[2]))


@dataclass(frozen=True)
class TeacherLabels:
    """What each sample's teacher thinks of the sentences without labels that the sample has."""

    rows: Ints
    """Of a store, [M, N]; -1 for none."""
    starts: Tensor
    """Where the words of a sentence begin among all words of the store."""
    tags: Tensor
    """As in `SoftLabels`, of all words of the store: [M, words, C]."""
    steps: Tensor
    """As in `SoftLabels`, of all its sentences: [M, sentences + 1, C + 1, C + 1]."""

    def repeat(self, times: int) -> "TeacherLabels":
        """Each sample's so many times in a row."""
        if times == 1:
            return self
        many = [value.repeat_interleave(times, 0) for value in (self.tags, self.steps)]
        return replace(self, rows=np.repeat(self.rows, times, 0), tags=many[0], steps=many[1])

    def of(self, rows: Tensor, batch: Batch) -> SoftLabels:
        """Of some rows [M, U], in the width of a batch whose last sentences they are."""
        task = torch.arange(len(rows), device=rows.device).unsqueeze(1)  # [M, 1]
        place, there = _places(self.starts, rows, batch.lengths[:, -rows.shape[1] :], batch)
        flat = task.unsqueeze(-1) * self.tags.shape[1] + place  # [M, U, T]
        tags = self.tags.flatten(0, 1)[flat] * there.unsqueeze(-1)
        return SoftLabels(tags, self.steps[task, rows])

    def losses(
        self, tagger: Tagger, batch: Batch, rows: Tensor, pseudo_label_weight: float, mode: Mode
    ) -> Losses:
        """The tagging loss on a batch whose last sentences, at ``rows``, have opinions alone.

        Each of them weighs ``pseudo_label_weight`` times as much as one with tags.
        """
        known, more = batch.lengths.shape[1] - rows.shape[1], pseudo_label_weight * rows.shape[1]

        def losses(
            params: Params, names: Collection[str], cut: Collection[str]
        ) -> dict[str, Tensor]:
            scores, lengths, limits = tagger.emissions(
                params, tagger.encoder(params, batch, mode), batch
            )
            own = Emissions(scores[:, :known], lengths[:, :known], limits)
            other = Emissions(scores[:, known:], lengths[:, known:], limits)
            told = tag_loss(tagger.decoder, own, replace(batch, tags=batch.tags[:, :known]))
            thought = soft_label_loss(tagger.decoder, other, self.of(rows, batch))
            return {"tag": (known * told + more * thought) / (known + more)}

        return losses


@torch.no_grad()
def label_by_teacher(tagger: Tagger, params: Params, store: Store, rows: Ints) -> TeacherLabels:
    """What each sample's parameters think of its sentences, at rows [M, N] of the store."""
    starts, tags, device = store.tags.starts, tagger.tags, store.device
    nothing = torch.zeros(len(rows), 1, 1, 1, device=device, dtype=params["decoder.weight"].dtype)
    made = TeacherLabels(
        rows,
        starts,
        nothing[..., 0].repeat(1, len(store.tags.values), tags),
        nothing.repeat(1, len(starts), tags + 1, tags + 1),
    )
    task = torch.arange(len(rows), device=device).unsqueeze(1)  # [M, 1]
    for some in _alike(store, rows):
        at = torch.from_numpy(some).to(device)
        batch = store.batch(at, store.widths(some.ravel()))
        found = soft_labels(tagger.emissions(params, tagger.encoder(params, batch, SCORING), batch))
        place, there = _places(starts, at, batch.lengths, batch)
        whose = task.unsqueeze(-1).expand_as(place)
        made.tags[whose[there], place[there]] = found.tags[there].to(made.tags.dtype)
        made.steps[task, at] = found.steps.to(made.steps.dtype)
    return made


def _alike(store: Store, rows: Ints) -> Iterator[Ints]:
    """The rows of all samples in parts, each sample's sentences of like length together."""
    wide = store.tags.widths[rows]
    order = np.take_along_axis(rows, np.argsort(-wide, axis=1, kind="stable"), axis=1)
    start = 0
    while start < order.shape[1]:
        widest = max(store.widths(order[:, start]).values())
        size = max(1, _WORDS_AT_ONCE[store.device.type] // (widest * len(rows)))
        yield np.ascontiguousarray(order[:, start : start + size])
        start += size


def _places(starts: Tensor, rows: Tensor, lengths: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Where the words of a batch's rows are in a store, 0 in the padding: [M, U, T], and a mask."""
    there = mask_of(lengths, batch.tags.shape[-1])
    position = torch.arange(batch.tags.shape[-1], device=rows.device)
    return (starts[rows].unsqueeze(-1) + position).masked_fill(~there, 0), there
