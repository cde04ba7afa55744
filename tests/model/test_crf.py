"""The CRF against the enumeration of all paths and a second library."""

import pytest
import torch
from crf_cases import (
    NEVER,
    Chains,
    close,
    each_kernel,
    each_rule,
    enumerate_paths,
    make_chains,
    only,
)
from torch import Tensor
from torch.autograd import grad
from torchcrf import CRF

from hardner.model import crf
from hardner.model.crf import Runs, choose_decoder, marginals, run_marginals, viterbi

SHAPES = [
    {"tasks": 1, "rows": 3, "tokens": 6, "tags": 3},
    {"tasks": 3, "rows": 4, "tokens": 5, "tags": 4},
    {"tasks": 3, "rows": 2, "tokens": 3, "tags": 9, "own": False},
    {"tasks": 1, "rows": 2, "tokens": 6, "tags": 9, "own": False},
    {"tasks": 3, "rows": 3, "tokens": 1, "tags": 3},
]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s.values())))


@each_kernel
@each_shape
@each_rule
def test_sums_over_paths_equal_enumeration(
    kernel: str, monkeypatch: pytest.MonkeyPatch, shape: dict, forbidden: float
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains(**shape, forbidden=forbidden)
    partition, posterior = crf.log_partition(*chains), marginals(*chains)
    for task, row, paths, scores in enumerate_paths(chains):
        close(partition[task, row], scores.logsumexp(0))
        expected = torch.zeros_like(posterior[task, row])
        chances = scores.softmax(0)
        for token in range(paths.shape[1]):
            expected[token].index_add_(0, paths[:, token], chances)
        close(posterior[task, row], expected)


@each_kernel
@each_shape
@each_rule
def test_best_paths_equal_enumeration(
    kernel: str, monkeypatch: pytest.MonkeyPatch, shape: dict, forbidden: float
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains(**shape, forbidden=forbidden)
    tags, score = viterbi(*chains)
    for task, row, paths, scores in enumerate_paths(chains):
        n = paths.shape[1]
        best = scores.argmax()
        close(score[task, row], scores[best])
        padding = [-1] * (len(tags[0, 0]) - n)
        assert tags[task, row].tolist() == [*paths[best].tolist(), *padding]


def test_many_tags_are_decoded_one_by_one_where_stretches_would_fill_the_memory() -> None:
    few, many = (torch.empty(3, 100, 60, tags, device="meta") for tags in (4, 50))
    assert choose_decoder(few) is crf._by_halves
    assert choose_decoder(many) is crf._one_by_one


@each_rule
def test_the_loss_equals_enumeration(forbidden: float) -> None:
    chains = make_chains(forbidden=forbidden)
    for task, row, paths, scores in enumerate_paths(chains):
        at = len(paths) // 3
        tags = torch.zeros(chains[0].shape[:3], dtype=torch.long)
        tags[task, row, : paths.shape[1]] = paths[at]
        if scores[at] > NEVER:
            found = crf.crf_loss(*chains, tags)[task, row]
            close(found, scores.logsumexp(0) - scores[at])


def spans_of(path: list[int], scheme: str) -> set[tuple[int, int, int]]:
    """The spans of BIO (O, B-x, I-x, B-y, I-y) or IO (O, I-x, I-y) tags, read plainly."""
    spans, begin, kind = set(), None, None
    for token, tag in enumerate([*path, 0]):
        here = None if tag == 0 else (tag - 1) // 2 if scheme == "bio" else tag - 1
        starts = here is not None and (here != kind or (scheme == "bio" and tag % 2 == 1))
        if kind is not None and (here != kind or starts):
            spans.add((begin, token, kind))
            kind = None
        if starts:
            begin, kind = token, here
    return spans


@each_kernel
@pytest.mark.parametrize("scheme", ["bio", "io"])
def test_span_marginals_equal_enumeration(
    kernel: str, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    only(kernel, monkeypatch)
    tags = 5 if scheme == "bio" else 3
    inner = torch.zeros(tags, dtype=torch.bool)
    inner[[2, 4] if scheme == "bio" else [1, 2]] = True
    kind = torch.tensor([-1, 0, 0, 1, 1] if scheme == "bio" else [-1, 0, 1])
    goes_on = (kind[:, None] == kind) & inner  # from a tag of a kind into the same entity
    opens = None if scheme == "bio" else ~goes_on
    chains = make_chains(tags=tags, tokens=5, forbidden=NEVER)
    if scheme == "bio":  # I-x behind B-x and I-x only
        allowed = ~inner | goes_on
        steps = chains[2].masked_fill(~allowed, NEVER)
        chains = (*chains[:2], steps, chains[3].masked_fill(inner, NEVER), chains[4])

    places = [
        (m, b, i, j, k)
        for m in range(3)
        for b in range(4)
        for i in range(5)
        for j in range(i + 1, 6)
        for k in range(2)
    ]
    first = {"bio": (1, 3), "io": (1, 2)}[scheme]
    later = {"bio": (2, 4), "io": (1, 2)}[scheme]
    columns = torch.tensor(places)
    runs = torch.full((len(places), 5), -1)
    for n, (_, _, i, j, k) in enumerate(places):
        runs[n, : j - i] = torch.tensor([first[k], *[later[k]] * (j - i - 1)])
    found = run_marginals(
        *chains, Runs(*columns[:, :3].unbind(-1), tags=runs), opens=opens, closes=~goes_on
    )
    chances = torch.zeros(3, 4, 5, 6, 2, dtype=torch.float64)
    for task, row, paths, scores in enumerate_paths(chains):
        for path, chance in zip(paths.tolist(), scores.softmax(0), strict=True):
            for i, j, k in spans_of(path, scheme):
                chances[task, row, i, j, k] += chance
    close(found, chances[tuple(columns.unbind(-1))])


@each_kernel
@pytest.mark.parametrize("tables", [False, True])
def test_run_marginals_equal_enumeration(
    kernel: str, monkeypatch: pytest.MonkeyPatch, tables: bool
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains(tags=3, tokens=5, forbidden=-1e4)
    opens = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]).bool() if tables else None
    closes = torch.tensor([[0, 1, 1], [0, 0, 1], [1, 0, 1]]).bool() if tables else None
    runs = torch.tensor([[0, -1, -1], [2, 1, -1], [1, 1, 2]])
    for task, row, paths, scores in enumerate_paths(chains):
        for start in range(5):
            where = torch.tensor([task, row, start]).expand(3, 3).unbind(-1)
            found = run_marginals(*chains, Runs(*where, tags=runs), opens=opens, closes=closes)
            for run, chance in zip(runs, found, strict=True):
                run = run[run >= 0]
                end = start + len(run)
                if end > paths.shape[1]:
                    assert chance == 0
                    continue
                same = (paths[:, start:end] == run).all(-1)
                if opens is not None and start:
                    same &= opens[paths[:, start - 1], paths[:, start]]
                if closes is not None and end < paths.shape[1]:
                    same &= closes[paths[:, end - 1], paths[:, end]]
                close(chance, scores.softmax(0)[same].sum())


def peer_of(chains: Chains) -> tuple[CRF, Tensor]:
    emissions, lengths, transitions, start, end = chains
    peer = CRF(emissions.shape[-1], batch_first=True).to(emissions.dtype)
    for theirs, ours in (
        (peer.transitions, transitions),
        (peer.start_transitions, start),
        (peer.end_transitions, end),
    ):
        theirs.data = ours[0].clone()
    return peer, torch.arange(emissions.shape[2]) < lengths[0].unsqueeze(-1)


@each_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_gradients_and_paths_equal_torchcrf(
    kernel: str, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains(tasks=1, rows=16, tokens=21, tags=9, dtype=dtype)
    chains[1].clamp_(min=1)
    peer, mask = peer_of(chains)
    tags = torch.randint(9, (1, 16, 21), generator=torch.Generator().manual_seed(1))
    leaves = [x.requires_grad_() for x in (chains[0], *chains[2:])]
    ours = crf.crf_loss(*chains, tags)
    theirs = -peer(chains[0][0], tags[0], mask, reduction="none")
    torch.testing.assert_close(ours[0], theirs)
    weights = torch.rand(16, dtype=dtype)
    mine = grad(ours[0] @ weights, leaves)
    parameters = (peer.transitions, peer.start_transitions, peer.end_transitions)
    for a, b in zip(mine, grad(theirs @ weights, (leaves[0], *parameters)), strict=True):
        torch.testing.assert_close(a.view_as(b), b)
    paths, _ = viterbi(*chains)
    assert [p[p >= 0].tolist() for p in paths[0]] == peer.decode(chains[0][0], mask)
