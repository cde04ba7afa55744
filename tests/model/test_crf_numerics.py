"""The CRF's derivatives, extremes, precision and kernels."""

from collections.abc import Callable

import pytest
import torch
from crf_cases import NEVER, close, each_kernel, each_rule, enumerate_paths, make_chains, only
from torch import Tensor
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from hardner.model import crf, crf_forward
from hardner.model.crf import Runs, marginals, run_marginals, viterbi
from hardner.model.crf_forward import parallel_sweep, scaled_sweep, stepwise_sweep


@each_kernel
@pytest.mark.parametrize("own", [True, False])
@each_rule
def test_first_and_second_derivatives(
    kernel: str, monkeypatch: pytest.MonkeyPatch, own: bool, forbidden: float
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains(tasks=2, rows=2, tokens=6, tags=3, own=own)
    rule = torch.zeros(3, 3, dtype=torch.float64)
    rule[0, 2] = rule[2, 1] = forbidden
    tags = torch.zeros(2, 2, 6, dtype=torch.long)

    def total(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        return crf.crf_loss(emissions, chains[1], transitions + rule, start, end, tags)

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
        value = crf.crf_loss(*chains, tags)
        assert value.isfinite().all()
        assert (value >= 0).all()
        first = grad(value.sum(), leaves, create_graph=True)
        second = grad(sum(g.square().sum() for g in first), leaves)
        assert all(g.isfinite().all() for g in (*first, *second))
    with torch.no_grad():
        exact = [x.double() if x.is_floating_point() else x for x in chains]
        value = crf.crf_loss(*exact, worst)
        for task, row, paths, scores in enumerate_paths(exact):
            taken = (paths == worst[task, row, : paths.shape[1]]).all(-1)
            expected = scores.logsumexp(0) - scores[taken][0]
            torch.testing.assert_close(value[task, row], expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("kernel", ["parallel", "stepwise"])
@pytest.mark.parametrize("size", [1.0, 1e4])
@each_rule
def test_single_precision_as_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, kernel: str, size: float, forbidden: float
) -> None:
    emissions, *rest = make_chains(rows=8, tokens=60, tags=9, forbidden=forbidden)
    tags, _ = viterbi(emissions * size, *rest)

    def value_and_slopes(dtype: torch.dtype) -> tuple[Tensor, ...]:
        scores = (x.to(dtype) if x.is_floating_point() else x for x in (emissions * size, *rest))
        chains = [x.requires_grad_(x.is_floating_point()) for x in scores]
        value = crf.crf_loss(*chains, tags)
        return value, *grad(value.sum(), [chains[0], *chains[2:]])

    expected = value_and_slopes(torch.float64)
    only(kernel, monkeypatch)
    for module in (crf, crf_forward):
        monkeypatch.setattr(module, "as_precise", lambda x: x)
    found = value_and_slopes(torch.float32)
    assert (found[0] >= 0).all()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=0.02 if size > 1 else 1e-4)


def test_forbidding_everything_is_finite() -> None:
    emissions, lengths, transitions, start, end = make_chains()
    leaf = torch.full_like(transitions, NEVER, requires_grad=True)
    value = crf.crf_loss(
        emissions, lengths, leaf, start, end, torch.zeros(3, 4, 5, dtype=torch.long)
    )
    assert value.isfinite().all()
    assert grad(value.sum(), leaf)[0].isfinite().all()
    nowhere = torch.full_like(emissions, NEVER, requires_grad=True)
    value = crf.log_partition(nowhere, lengths, transitions, start, end)
    assert value.isfinite().all()
    assert grad(value.sum(), nowhere)[0].isfinite().all()
    tags, scores = viterbi(emissions, lengths, leaf, start, end)
    assert scores.isinf().equal(lengths > 1)
    assert (tags >= 0).equal(torch.arange(5) < lengths.unsqueeze(-1))


@each_kernel
def test_padding_and_empty_sentences_have_no_effect(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(kernel, monkeypatch)
    chains = make_chains()
    padding = torch.arange(5) >= chains[1].unsqueeze(-1)
    tags = torch.arange(60).remainder(4).view(3, 4, 5)
    junk = chains[0].masked_fill(padding.unsqueeze(-1), torch.nan).requires_grad_()
    ours = crf.crf_loss(junk, *chains[1:], tags.masked_fill(padding, 77))
    assert ours.equal(crf.crf_loss(*chains, tags))
    assert ours[chains[1] == 0].eq(0).all()
    slope = grad(ours.sum(), junk, create_graph=True)[0]
    assert slope[padding].eq(0).all()
    assert grad(slope.square().sum(), junk)[0].isfinite().all()
    assert viterbi(junk, *chains[1:])[1].equal(viterbi(*chains)[1])


@pytest.mark.parametrize("spread", [1.0, 10.0, 50.0, 500.0])
@each_rule
def test_kernels_agree_or_the_fast_one_declines(spread: float, forbidden: float) -> None:
    emissions, lengths, *rest = make_chains(tasks=2, rows=8, tokens=37, tags=9, forbidden=forbidden)
    made = crf.linear_chain(spread * emissions, lengths, *rest)
    kernels = (scaled_sweep, stepwise_sweep, parallel_sweep)
    found = [kernel(made.emissions, made.steps) for kernel in kernels]
    assert found[0] is not None or spread >= 50
    *others, safe = [kernel for kernel in found if kernel is not None]
    for fast in others:
        close(fast.log_partition(), safe.log_partition())
        for a, b in zip(
            fast.expected_counts(made.offset), safe.expected_counts(made.offset), strict=True
        ):
            close(a, b)
        close(fast.pair_marginals(), safe.pair_marginals())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_fast_kernel_declines_before_digits_are_lost(dtype: torch.dtype) -> None:
    """Each token wants the tag that the one before it forbids, ever more strongly."""
    steps = torch.tensor([[[0.0, NEVER, 0.3], [NEVER, 0.2, 0.1], [0.4, 0.5, 0.0]]], dtype=dtype)
    emissions = torch.tensor([[0.0, -1.0, NEVER], [-1.0, 0.0, NEVER]], dtype=dtype).repeat(3, 1)
    declined = []
    for want in torch.arange(0, 800, 4, dtype=dtype):
        wanted = (emissions * want)[None, None]  # [1, 1, 6, 3]
        wanted[emissions.expand_as(wanted) == 0] = 0
        fast, safe = crf_forward._scaled_sweep(wanted, steps), parallel_sweep(wanted, steps)
        declined.append(fast is None)
        if fast is not None:
            torch.testing.assert_close(
                fast.log_partition(), safe.log_partition(), rtol=1e-6, atol=1e-6, check_dtype=False
            )
            for a, b in zip(
                fast.expected_counts(torch.ones(1, 1)),
                safe.expected_counts(torch.ones(1, 1)),
                strict=True,
            ):
                torch.testing.assert_close(a, b, rtol=0, atol=1e-5, check_dtype=False)
    assert declined[-1]
    assert not declined[3]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_full(dtype: torch.dtype) -> None:
    chains = make_chains(rows=8, tokens=30, dtype=dtype)
    full = [x.double() if x.is_floating_point() else x for x in chains]
    tags = torch.arange(720).remainder(4).view(3, 8, 30)
    rounding = {"rtol": torch.finfo(dtype).eps, "atol": 1e-5}
    torch.testing.assert_close(
        crf.crf_loss(*chains, tags), crf.crf_loss(*full, tags).to(dtype), **rounding
    )
    torch.testing.assert_close(marginals(*chains), marginals(*full).to(dtype), **rounding)


def test_autocast_has_no_effect() -> None:
    chains = make_chains(rows=8, tokens=30, dtype=torch.float32)
    leaves = [x.requires_grad_() for x in (chains[0], *chains[2:])]
    tags = torch.zeros(3, 8, 30, dtype=torch.long)
    plain = grad(crf.crf_loss(*chains, tags).sum(), leaves)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = grad(crf.crf_loss(*chains, tags).sum(), leaves)
    assert all(a.equal(b) for a, b in zip(plain, cast, strict=True))


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
        slopes = grad(crf.crf_loss(*chains, tags).sum(), leaves)
    assert [s.shape for s in slopes] == [x.shape for x in leaves]
    assert ops.count < 500  # views included
    with Ops():
        slopes = grad(crf.crf_loss(*chains, tags).sum(), leaves, create_graph=True)
        grad(sum(s.square().sum() for s in slopes), leaves)
    with Ops():
        assert viterbi(*chains)[0].shape == (3, 256, 60)
        index = torch.zeros(7, dtype=torch.long, device="meta")
        table = torch.ones(9, 9, dtype=torch.bool, device="meta")
        runs = Runs(index, index, index, tags[0, :7, :4])
        assert run_marginals(*chains, runs, opens=table, closes=table).shape == (7,)
