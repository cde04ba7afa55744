"""How much each task of an iteration counts, for each part of the network."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from hardner.meta.terms import Term, learners

Weighting = Literal["uniform", "hardness"]


def hardness_weights(losses: Tensor) -> Tensor:
    """HGDA Eq. 2: gamma_i = L_i / sum_j L_j, over the tasks: [M] -> [M]."""
    losses = losses.detach().clamp(min=0)
    total = losses.sum()
    even = torch.full_like(losses, 1 / losses.shape[0])
    return torch.where(total > 0, losses / total.clamp(min=1e-30), even)


def task_weights(
    weighting: Weighting, terms: Sequence[Term], values: Sequence[Tensor]
) -> dict[str, Tensor]:
    """The weight of each task for each part that learns: part -> [M], summing to 1.

    A part's hardness is that of what it learns from: the encoder's L_lab + lambda L_cls, the
    decoder's L_lab, the classifier's L_cls. An adversarial sign does not make a task easier.
    """
    weights = {}
    for part in sorted(learners(terms)):
        felt = [
            abs(term.signs[part]) * value
            for term, value in zip(terms, values, strict=True)
            if part in term.parts
        ]
        total = torch.stack(felt).sum(0)
        even = torch.full_like(total, 1 / total.shape[0]).detach()
        weights[part] = hardness_weights(total) if weighting == "hardness" else even
    return weights
