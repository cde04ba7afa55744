"""Losses with known gradients in place of a network: L(theta, phi) of each task is quadratic."""

from collections.abc import Collection
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from hardner.model.layers import Mode, Params

N = 4


@dataclass(frozen=True)
class Quadratic:
    """Stands for a tagger: ``encoder.x`` and ``critic.y``, both [M|1, N]."""

    encoder = None
    """It reads no words."""

    def losses(
        self, params: Params, batch: Any, names: Collection[str], mode: Mode, cut: Collection[str]
    ) -> dict[str, Tensor]:
        found = {}
        for name in names:
            x, y = params["encoder.x"], params["critic.y"]
            if name in cut:
                x = x.detach()
            z = torch.cat((x.expand(batch.tasks, -1), y.expand(batch.tasks, -1)), dim=-1)
            a, b = batch.curves[name]
            found[name] = 0.5 * torch.einsum("mi,mij,mj->m", z, a, z) + (b * z).sum(-1) + 50
        return found


def problem(tasks: int, seed: int, names: Collection[str] = ("tag", "domain")) -> Any:
    """A batch: for each loss positive definite curvature [M, 2N, 2N] and slope [M, 2N]."""
    rng = torch.Generator().manual_seed(seed)
    curves = {}
    for name in names:
        root = torch.randn(tasks, 2 * N, 2 * N, dtype=torch.float64, generator=rng) / 3
        curves[name] = (
            root @ root.transpose(1, 2) + torch.eye(2 * N, dtype=torch.float64),
            torch.randn(tasks, 2 * N, dtype=torch.float64, generator=rng),
        )
    return SimpleNamespace(tasks=tasks, curves=curves)


def start(seed: int = 0) -> Params:
    rng = torch.Generator().manual_seed(seed)
    return {
        "encoder.x": torch.randn(1, N, dtype=torch.float64, generator=rng),
        "critic.y": torch.randn(1, N, dtype=torch.float64, generator=rng),
    }
