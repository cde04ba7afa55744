"""The CRF against the enumeration of all paths, a second library and finite differences."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torchcrf import CRF

from hardner.model import crf, crf_decode, crf_scaled, crf_tree
from hardner.model.crf_decode import kbest, viterbi
from hardner.model.crf_marginals import Runs, marginals, run_marginals

NEVER = -torch.inf
Chains = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=["scaled", "tree"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Only one kernel is there."""
    if request.param == "tree":
        monkeypatch.setattr(crf_scaled, "sweep", lambda *_: None)
        monkeypatch.setattr(crf_decode, "_one_by_one", crf_decode._by_halves)
    else:
        monkeypatch.delattr(crf_tree, "sweep")
    return request.param


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


SHAPES = [
    {"tasks": 1, "rows": 3, "tokens": 6, "tags": 3},
    {"tasks": 3, "rows": 4, "tokens": 5, "tags": 4},
    {"tasks": 3, "rows": 2, "tokens": 3, "tags": 9, "own": False},
    {"tasks": 1, "rows": 2, "tokens": 6, "tags": 9, "own": False},
    {"tasks": 3, "rows": 3, "tokens": 1, "tags": 3},
]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(map(str, s.values())))
each_rule = pytest.mark.parametrize("forbidden", [0.0, -1e4, NEVER])


@each_shape
@each_rule
def test_sums_over_paths_equal_enumeration(kernel: str, shape: dict, forbidden: float) -> None:
    chains = make_chains(**shape, forbidden=forbidden)
    partition, posterior = crf.log_partition(*chains), marginals(*chains)
    for task, row, paths, scores in enumerate_paths(chains):
        close(partition[task, row], scores.logsumexp(0))
        expected = torch.zeros_like(posterior[task, row])
        chances = scores.softmax(0)
        for token in range(paths.shape[1]):
            expected[token].index_add_(0, paths[:, token], chances)
        close(posterior[task, row], expected)


@each_shape
@each_rule
def test_best_paths_equal_enumeration(kernel: str, shape: dict, forbidden: float) -> None:
    chains = make_chains(**shape, forbidden=forbidden)
    tags, score = viterbi(*chains)
    ranked, ranks = kbest(*chains, k=7)
    close(ranks[:, :, 0], score)
    for task, row, paths, scores in enumerate_paths(chains):
        n = paths.shape[1]
        best = scores.topk(min(7, len(scores)))
        close(score[task, row], best.values[0])
        assert tags[task, row].tolist() == [
            *paths[best.indices[0]].tolist(),
            *[-1] * (len(tags[0, 0]) - n),
        ]
        close(ranks[task, row, : len(best.values)], best.values)
        there = best.values > NEVER
        found = ranked[task, row, : len(best.values)][there]
        assert found[:, :n].equal(paths[best.indices[there]])
        assert (ranked[task, row, there.sum() :] == -1).all()
        assert (ranks[task, row, there.sum() :] == NEVER).all()


@each_rule
def test_path_score_equals_enumeration(forbidden: float) -> None:
    chains = make_chains(forbidden=forbidden)
    for task, row, paths, scores in enumerate_paths(chains):
        at = len(paths) // 3
        tags = torch.zeros(chains[0].shape[:3], dtype=torch.long)
        tags[task, row, : paths.shape[1]] = paths[at]
        if scores[at] > NEVER:
            close(crf.path_score(*chains, tags)[task, row], scores[at])


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


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


@pytest.mark.parametrize("scheme", ["bio", "io"])
def test_span_marginals_equal_enumeration(kernel: str, scheme: str) -> None:
    tags = 5 if scheme == "bio" else 3
    inner = torch.zeros(tags, dtype=torch.bool)
    inner[[2, 4] if scheme == "bio" else [1, 2]] = True
    kind = torch.tensor([-1, 0, 0, 1, 1] if scheme == "bio" else [-1, 0, 1])
    goes_on = (kind[:, None] == kind) & inner  # from a tag of a kind into the same entity
    opens = None if scheme == "bio" else ~goes_on
    chains = make_chains(tags=tags, tokens=5, forbidden=NEVER)
    if scheme == "bio":  # I-x behind B-x and I-x only
        allowed = ~inner | goes_on
        steps = chains[2].masked_fill(~allowed, NEVER).where(allowed, NEVER)
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


def test_run_marginals_equal_enumeration(kernel: str) -> None:
    chains = make_chains(tags=3, tokens=5, forbidden=-1e4)
    runs = torch.tensor([[0, -1, -1], [2, 1, -1], [1, 1, 2]])
    for task, row, paths, scores in enumerate_paths(chains):
        for start in range(5):
            where = torch.tensor([task, row, start]).expand(3, 3).unbind(-1)
            found = run_marginals(*chains, Runs(*where, tags=runs))
            for run, chance in zip(runs, found, strict=True):
                run = run[run >= 0]
                fits = start + len(run) <= paths.shape[1]
                same = (paths[:, start : start + len(run)] == run).all(-1) if fits else []
                close(chance, scores.softmax(0)[same].sum() if fits else torch.zeros_like(chance))


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_gradients_and_paths_equal_torchcrf(kernel: str, dtype: torch.dtype) -> None:
    chains = make_chains(tasks=1, rows=16, tokens=21, tags=9, dtype=dtype)
    chains[1].clamp_(min=1)
    peer, mask = peer_of(chains)
    tags = torch.randint(9, (1, 16, 21))
    leaves = [x.requires_grad_() for x in (chains[0], *chains[2:])]
    ours = crf.loss(*chains, tags)
    theirs = -peer(chains[0][0], tags[0], mask, reduction="none")
    torch.testing.assert_close(ours[0], theirs)
    weights = torch.rand(16, dtype=dtype)
    mine = grad(ours[0] @ weights, leaves)
    parameters = (peer.transitions, peer.start_transitions, peer.end_transitions)
    for a, b in zip(mine, grad(theirs @ weights, (leaves[0], *parameters)), strict=True):
        torch.testing.assert_close(a.view_as(b), b)
    paths, _ = viterbi(*chains)
    assert [p[p >= 0].tolist() for p in paths[0]] == peer.decode(chains[0][0], mask)


@pytest.mark.parametrize("own", [True, False])
@each_rule
def test_first_and_second_derivatives(kernel: str, own: bool, forbidden: float) -> None:
    chains = make_chains(tasks=2, rows=2, tokens=6, tags=3, own=own)
    rule = torch.zeros(3, 3, dtype=torch.float64)
    rule[0, 2] = rule[2, 1] = forbidden
    tags = torch.zeros(2, 2, 6, dtype=torch.long)

    def total(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return crf.loss(emissions, chains[1], transitions + rule, start, end, tags)

    leaves = [x.requires_grad_() for x in (chains[0], *chains[2:])]
    assert gradcheck(total, leaves)
    assert gradgradcheck(total, leaves)


@pytest.mark.parametrize("size", [30.0, 1e3, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_rule
def test_extreme_scores(size: float, dtype: torch.dtype, forbidden: float) -> None:
    chains = make_chains(rows=6, forbidden=forbidden, dtype=dtype)
    chains = (chains[0].sign() * size, *chains[1:])
    best, _ = viterbi(*chains)
    worst, _ = viterbi(-chains[0], *chains[1:])
    leaves = [x.requires_grad_() for x in (chains[0], *chains[2:])]
    for tags in (best, worst):
        value = crf.loss(*chains, tags)
        assert value.isfinite().all()
        assert (value >= 0).all()
        first = grad(value.sum(), leaves, create_graph=True)
        second = grad(sum(g.square().sum() for g in first), leaves)
        assert all(g.isfinite().all() for g in (*first, *second))
    with torch.no_grad():
        exact = [x.double() if x.is_floating_point() else x for x in chains]
        value = crf.loss(*exact, worst)
        for task, row, paths, scores in enumerate_paths(exact):
            taken = (paths == worst[task, row, : paths.shape[1]]).all(-1)
            expected = scores.logsumexp(0) - scores[taken][0]
            torch.testing.assert_close(value[task, row], expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e4])
@each_rule
def test_single_precision_as_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, size: float, forbidden: float
) -> None:
    emissions, *rest = make_chains(rows=8, tokens=60, tags=9, forbidden=forbidden)
    tags, _ = viterbi(emissions * size, *rest)

    def value_and_slopes(dtype: torch.dtype) -> tuple[Tensor, ...]:
        scores = (x.to(dtype) if x.is_floating_point() else x for x in (emissions * size, *rest))
        chains = [x.requires_grad_(x.is_floating_point()) for x in scores]
        value = crf.loss(*chains, tags)
        return value, *grad(value.sum(), [chains[0], *chains[2:]])

    expected = value_and_slopes(torch.float64)
    monkeypatch.setattr(crf_scaled, "sweep", lambda *_: None)
    for module in (crf, crf_tree):
        monkeypatch.setattr(module, "exact", lambda x: x)
    found = value_and_slopes(torch.float32)
    assert (found[0] >= 0).all()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=0.02 if size > 1 else 1e-4)


def test_forbidding_everything_is_finite() -> None:
    emissions, lengths, transitions, start, end = make_chains()
    leaf = torch.full_like(transitions, NEVER, requires_grad=True)
    value = crf.loss(emissions, lengths, leaf, start, end, torch.zeros(3, 4, 5, dtype=torch.long))
    assert value.isfinite().all()
    assert grad(value.sum(), leaf)[0].isfinite().all()
    tags, scores = viterbi(emissions, lengths, leaf, start, end)
    assert scores.isinf().equal(lengths > 1)
    assert (tags >= 0).equal(torch.arange(5) < lengths.unsqueeze(-1))


def test_padding_and_empty_sentences_have_no_effect(kernel: str) -> None:
    chains = make_chains()
    padding = torch.arange(5) >= chains[1].unsqueeze(-1)
    tags = torch.randint(4, (3, 4, 5))
    junk = chains[0].masked_fill(padding.unsqueeze(-1), torch.nan).requires_grad_()
    ours = crf.loss(junk, *chains[1:], tags.masked_fill(padding, 77))
    assert ours.equal(crf.loss(*chains, tags))
    assert ours[chains[1] == 0].eq(0).all()
    slope = grad(ours.sum(), junk, create_graph=True)[0]
    assert slope[padding].eq(0).all()
    assert grad(slope.square().sum(), junk)[0].isfinite().all()
    assert viterbi(junk, *chains[1:])[1].equal(viterbi(*chains)[1])


@pytest.mark.parametrize("spread", [1.0, 10.0, 50.0, 500.0])
@each_rule
def test_kernels_agree_or_the_fast_one_declines(spread: float, forbidden: float) -> None:
    emissions, lengths, *rest = make_chains(tasks=2, rows=8, tokens=37, tags=9, forbidden=forbidden)
    mask = crf.mask_of(emissions, lengths)
    made = crf.chain(spread * emissions, mask, *rest)
    fast, safe = (k.sweep(made.emissions, made.steps) for k in (crf_scaled, crf_tree))
    assert fast is not None or spread >= 50
    if fast is not None:
        close(fast.log_partition(), safe.log_partition())
        for a, b in zip(fast.expected(made.offset), safe.expected(made.offset), strict=True):
            close(a, b)
        close(fast.pairs(), safe.pairs())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_full(dtype: torch.dtype) -> None:
    chains = make_chains(rows=8, tokens=30, dtype=dtype)
    full = [x.double() if x.is_floating_point() else x for x in chains]
    tags = torch.randint(4, (3, 8, 30))
    rounding = {"rtol": torch.finfo(dtype).eps, "atol": 1e-5}
    torch.testing.assert_close(crf.loss(*chains, tags), crf.loss(*full, tags).to(dtype), **rounding)
    torch.testing.assert_close(marginals(*chains), marginals(*full).to(dtype), **rounding)


class Ops(TorchDispatchMode):
    """Counts operations; one that needs data fails on this device, one on another is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else [out]:
            assert not isinstance(made, Tensor) or made.device.type == "meta", func
        self.count += 1
        return out


def test_other_devices_never_wait_for_data() -> None:
    """On a device without data, as in the capture of a graph, and with few operations."""
    chains = tuple(
        x.to("meta").requires_grad_(x.is_floating_point())
        for x in make_chains(rows=256, tokens=60, tags=9, dtype=torch.float32)
    )
    leaves = [chains[0], *chains[2:]]
    tags = torch.zeros(3, 256, 60, dtype=torch.long, device="meta")
    with Ops() as ops:
        slopes = grad(crf.loss(*chains, tags).sum(), leaves)
    assert [s.shape for s in slopes] == [x.shape for x in leaves]
    assert ops.count < 500  # views included
    with Ops():
        slopes = grad(crf.loss(*chains, tags).sum(), leaves, create_graph=True)
        grad(sum(s.square().sum() for s in slopes), leaves)
    with Ops():
        assert viterbi(*chains)[0].shape == (3, 256, 60)
        assert kbest(*chains, k=3)[0].shape == (3, 256, 3, 60)
        index = torch.zeros(7, dtype=torch.long, device="meta")
        table = torch.ones(9, 9, dtype=torch.bool, device="meta")
        runs = Runs(index, index, index, tags[0, :7, :4])
        assert run_marginals(*chains, runs, opens=table, closes=table).shape == (7,)
