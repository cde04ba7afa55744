"""Random chains, all their paths, and a choice of kernel, for the tests of the CRF."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from hardner.model import crf, crf_forward

NEVER = -torch.inf
Chains = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]

each_kernel = pytest.mark.parametrize("kernel", ["scaled", "parallel", "stepwise"])
each_rule = pytest.mark.parametrize("forbidden", [0.0, -1e4, NEVER])


def only(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the other kernels away."""
    if kernel == "scaled":
        monkeypatch.delattr(crf, "parallel_sweep")
        monkeypatch.delattr(crf, "stepwise_sweep")
        monkeypatch.setattr(crf, "too_many_tags", lambda _: pytest.fail("the scaled one declined"))
        return
    monkeypatch.setattr(crf, "scaled_sweep", lambda *_: None)
    if kernel == "parallel":
        monkeypatch.setattr(crf, "_one_by_one", crf._by_halves)
    else:
        monkeypatch.setattr(crf, "too_many_tags", lambda _: True)
        monkeypatch.setattr(crf_forward, "_MOST_CELLS", 1 << 8)


def make_chains(
    tasks: int = 3,
    rows: int = 4,
    tokens: int = 5,
    tags: int = 4,
    own: bool = True,
    forbidden: float = 0.0,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Chains:
    """Random scores and lengths, from empty to full; a third of all steps may be forbidden."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=dtype)

    groups = tasks if own else 1
    lengths = torch.randint(tokens + 1, (tasks, rows), generator=rng)
    lengths[0, 0], lengths[-1, -1] = 0, tokens
    steps = normal(groups, tags, tags)
    closed = torch.rand(groups, tags, tags, generator=rng) < 1 / 3
    closed[:, range(tags), range(tags)] = False
    start, end = normal(groups, tags), normal(groups, tags)
    if forbidden:
        steps, start[:, 0], end[:, -1] = steps.masked_fill(closed, forbidden), forbidden, forbidden
    return 2 * normal(tasks, rows, tokens, tags), lengths, steps, start, end


class Enumeration(NamedTuple):
    """All paths of one sentence."""

    task: int
    row: int
    paths: Tensor  # [P, n]
    scores: Tensor  # [P]


def enumerate_paths(chains: Chains) -> Iterator[Enumeration]:
    emissions, lengths, transitions, start, end = chains
    for m in range(emissions.shape[0]):
        own = m if len(transitions) > 1 else 0
        for b, n in enumerate(lengths[m].tolist()):
            tags = torch.arange(emissions.shape[-1])
            paths = torch.cartesian_prod(*[tags] * n).view(-1, n) if n else torch.zeros(1, 0).long()
            scores = emissions[m, b, torch.arange(n), paths].sum(-1)
            scores = scores + transitions[own, paths[:, :-1], paths[:, 1:]].sum(-1)
            if n:
                scores = scores + start[own, paths[:, 0]] + end[own, paths[:, -1]]
            yield Enumeration(m, b, paths, scores)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
