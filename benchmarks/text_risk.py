"""Unlabelled text as evidence of how rare a type is: what a second fit descends in place of
self-training.

Let c(x) = 1 - p(O ... O | x) be the probability that a sentence holds a mention, pi the share of
sentences that hold one, U unlabelled sentences and P those with a mention.

Expectation regularisation (Mann and McCallum, 2007): the mean of c over U is drawn to pi,

    pi log(pi / m) + (1 - pi) log((1 - pi) / (1 - m)),    m = mean of c over U.

Non-negative positive-unlabelled risk (Kiryo et al., 2017): what is found in U beyond the share
that P accounts for is in sentences without a mention,

    max(0, mean of c over U - pi * mean of c over P).

Label-shift EM (Saerens et al., 2002) finds pi from the c of a model that has learnt a share q of
sentences with mentions: c is taken to the odds that a share pi asks for, and pi to their mean.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardner.adapt.self_training import losses_beside
from hardner.batch import Batch, Store
from hardner.features import Ints
from hardner.meta.inner import Losses
from hardner.model.crf import crf_loss
from hardner.model.decoders import Emissions, tag_loss
from hardner.model.layers import SCORING, Mode, Params
from hardner.model.tagger import Tagger

_EDGE = 1e-4
"""Shares are kept so far from 0 and 1."""


def chance_of_mention(emissions: Emissions) -> Tensor:
    """The probability that a sentence holds a mention, by a CRF: [M, B]."""
    scores, lengths, limits = emissions
    scores = scores.float() if scores.dtype.itemsize < 4 else scores  # 1 - c must not vanish
    outside = torch.zeros(scores.shape[:3], dtype=torch.long, device=scores.device)
    return -torch.expm1(-crf_loss(scores, lengths, *limits, outside))


def label_shift(chances: NDArray[np.float64], learnt: float = 0.5) -> tuple[float, NDArray]:
    """The share of sentences that hold a mention, and their probabilities under it."""
    share, odds = learnt, chances / np.clip(1 - chances, 1e-9, None)
    shifted = chances
    for _ in range(1000):
        ratio = share / learnt * (1 - learnt) / (1 - share)
        shifted = ratio * odds / (1 + ratio * odds)
        before, share = share, float(np.clip(shifted.mean(), _EDGE, 1 - _EDGE))
        if abs(share - before) < 1e-6:
            break
    return share, shifted


@dataclass(frozen=True)
class PrevalenceRisk:
    """Descends the tagging loss, and what a share of mention-bearing sentences says of text."""

    rows: Ints
    prevalence: Tensor  # of each sample, [M]
    kind: Literal["expectation", "non-negative"]

    def repeat(self, times: int) -> "PrevalenceRisk":
        share = self.prevalence.repeat_interleave(times)
        return replace(self, rows=np.repeat(self.rows, times, 0), prevalence=share)

    def losses(
        self, tagger: Tagger, batch: Batch, rows: Tensor, weight: float, mode: Mode
    ) -> Losses:
        def both(labelled: Batch, own: Emissions, other: Emissions) -> Tensor:
            bearing = labelled.tags.any(-1)  # [M, B]
            risk = self.risk(other, own, bearing)
            return tag_loss(tagger.decoder, own, labelled) + weight * risk

        return losses_beside(tagger, batch, batch.lengths.shape[1] - rows.shape[1], mode, both)

    def risk(self, text: Emissions, own: Emissions, bearing: Tensor) -> Tensor:
        """Of unlabelled sentences beside labelled ones, some of them mention-bearing: [M]."""
        share = self.prevalence
        found = _mean(chance_of_mention(text), text.lengths > 0)
        if self.kind == "non-negative":
            return (found - share * _mean(chance_of_mention(own), bearing)).clamp(min=0)
        found = found.clamp(_EDGE, 1 - _EDGE)
        return share * (share / found).log() + (1 - share) * ((1 - share) / (1 - found)).log()


def _mean(values: Tensor, there: Tensor) -> Tensor:
    return (values * there).sum(-1) / there.sum(-1).clamp(min=1)


@torch.no_grad()
def chances(tagger: Tagger, params: Params, store: Store, rows: Ints) -> Tensor:
    """The probability of a mention in each row [M, N] of a store."""
    at = torch.from_numpy(rows).to(store.device)
    parts = []
    for some in at.split(64, dim=1):
        batch = store.batch(some, store.widths(some.cpu().numpy().ravel()))
        encoded = tagger.encoder(params, batch, SCORING)
        parts.append(chance_of_mention(tagger.emissions(params, encoded, batch)))
    return torch.cat(parts, dim=1)
