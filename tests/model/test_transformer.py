"""The compact transformer against one written out with loops, complex numbers and torch.nn."""

import pytest
import torch
from torch import Tensor, nn

from hardner.errors import HardnerError
from hardner.model.layers import Mode, Params, cpu_has_bfloat16, scoped
from hardner.model.transformer import Transformer, attend

NET = Transformer(vocabulary=11, size=12, layers=2, heads=3, inner=20)
PLAIN, TWICE = Mode(), Mode(twice=True)


def made(net: Transformer = NET, tasks: int = 1) -> Params:
    """Parameters all of which matter: norms and biases are not left at 1 and 0."""
    found = []
    for task in range(tasks):
        rng = torch.Generator().manual_seed(task)
        fresh = net.init(rng)
        found.append({n: p + 0.3 * torch.randn(p.shape, generator=rng) for n, p in fresh.items()})
    return {n: torch.cat([p[n] for p in found]).double() for n in found[0]}


def pieces(tasks: int = 1) -> Tensor:
    """Rows of 6, 3, 1 and no pieces."""
    rows = [[3, 5, 1, 10, 2, 2], [7, 4, 9, 0, 0, 0], [8, 0, 0, 0, 0, 0], [0] * 6]
    return torch.tensor([rows[i % 4 :] + rows[: i % 4] for i in range(tasks)])


def rotary(vectors: Tensor) -> Tensor:
    """By the definition: feature j and j + d/2 are one complex number, turned by p * 10000^(-2j/d).

    vectors [P, d].
    """
    width, size = vectors.shape
    turned = torch.empty_like(vectors)
    for p in range(width):
        for j in range(size // 2):
            angle = torch.tensor(p * 10_000 ** (-2 * j / size), dtype=torch.float64)
            number = torch.complex(vectors[p, j], vectors[p, j + size // 2])
            number = number * torch.polar(torch.ones_like(angle), angle)
            turned[p, j], turned[p, j + size // 2] = number.real, number.imag
    return turned


def attention(params: Params, x: Tensor, heads: int) -> Tensor:
    """Each head, each piece by itself: x [P, D]."""
    size = x.shape[1] // heads
    q, k, v = (x @ params["attention.weight"][0].T + params["attention.bias"][0]).split(
        x.shape[1], 1
    )
    mixed = torch.empty_like(x)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        queries, keys = rotary(q[:, part]), rotary(k[:, part])
        for p in range(len(x)):
            scores = torch.stack([queries[p] @ key / size**0.5 for key in keys])
            mixed[p, part] = scores.softmax(0) @ v[:, part]
    return mixed @ params["out.weight"][0].T + params["out.bias"][0]


def norm(params: Params, name: str, x: Tensor) -> Tensor:
    made = nn.LayerNorm(x.shape[-1]).double()
    made.load_state_dict({k: params[f"{name}.{k}"][0] for k in ("weight", "bias")})
    return made(x)


@torch.no_grad()
def reference(params: Params, ids: list[int]) -> Tensor:
    """One row without padding: [P, D]."""
    x = params["pieces"][0][torch.tensor(ids)]
    for i in range(NET.layers):
        own = scoped(params, f"layer{i}")
        x = x + attention(own, norm(own, "norm1", x), NET.heads)
        up = norm(own, "norm2", x) @ own["up.weight"][0].T + own["up.bias"][0]
        x = x + nn.GELU()(up) @ own["down.weight"][0].T + own["down.bias"][0]
    return norm(params, "norm", x)


@pytest.mark.parametrize("mode", [PLAIN, TWICE], ids=["fused", "twice"])
def test_equals_the_reference(mode: Mode) -> None:
    params = made()
    ours = NET(params, pieces(), mode)[0]
    for row, ids in enumerate(pieces()[0].tolist()):
        ids = [piece for piece in ids if piece]
        if ids:
            expected = reference(params, ids)
            torch.testing.assert_close(ours[row, : len(ids)], expected, rtol=1e-9, atol=1e-9)
    assert ours.isfinite().all()


def test_without_turning_attention_is_torchs() -> None:
    params, x = scoped(made(), "layer0"), torch.randn(1, 5, NET.size, dtype=torch.float64)
    peer = nn.MultiheadAttention(NET.size, NET.heads, batch_first=True).double()
    peer.load_state_dict(
        {
            "in_proj_weight": params["attention.weight"][0],
            "in_proj_bias": params["attention.bias"][0],
            "out_proj.weight": params["out.weight"][0],
            "out_proj.bias": params["out.bias"][0],
        }
    )
    still = (torch.ones(5, 2).double(), torch.zeros(5, 2).double())
    alone = params | {name: 0 * params[name] for name in ("down.weight", "down.bias")}
    ours = NET._layer(alone, x[None], None, still, PLAIN)[0] - x
    h = norm(params, "norm1", x)
    torch.testing.assert_close(ours, peer(h, h, h)[0].detach())


@pytest.mark.parametrize("mode", [PLAIN, TWICE], ids=["fused", "twice"])
def test_padding_does_not_leak(mode: Mode) -> None:
    params, rows = made(), pieces()
    there = rows > 0
    found = NET(params, rows, mode)
    torch.testing.assert_close(found[:, 1:2, :3], NET(params, rows[:, 1:2, :3], mode))
    table = params["pieces"].clone()
    table[:, 0] = 1e3
    loud = NET(params | {"pieces": table}, rows, mode)
    torch.testing.assert_close(loud[there], found[there], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", [PLAIN, TWICE], ids=["fused", "twice"])
def test_stretches_are_what_a_mask_would_part(mode: Mode) -> None:
    rng = torch.Generator().manual_seed(3)
    parts = [torch.randn(2, 2, 9, 4, generator=rng).double().requires_grad_() for _ in range(3)]
    stretches = [[4, 2, 3], [1, 8]]
    window = torch.stack(
        [torch.arange(len(n)).repeat_interleave(torch.tensor(n)) for n in stretches]
    )
    mask = (window.unsqueeze(2) == window.unsqueeze(1)).unsqueeze(1)  # [2, 1, 9, 9]
    weights = torch.randn(2, 2, 9, 4, generator=rng).double()
    found = [attend(*parts, how, mode) for how in (stretches, mask)]
    torch.testing.assert_close(*found)
    slopes = [torch.autograd.grad((one * weights).sum(), parts) for one in found]
    torch.testing.assert_close(*slopes)


def test_full_rows_need_no_mask() -> None:
    params, rows = made(), pieces()[:, :1]
    torch.testing.assert_close(NET(params, rows, PLAIN, full=True), NET(params, rows, PLAIN))


def test_fused_and_twice_agree_in_the_gradient() -> None:
    params = {n: p.requires_grad_() for n, p in made().items()}
    weights = torch.randn(1, 4, 6, NET.size, dtype=torch.float64)
    found = [
        torch.autograd.grad((NET(params, pieces(), mode) * weights).sum(), list(params.values()))
        for mode in (PLAIN, TWICE)
    ]
    for fused, twice in zip(*found, strict=True):
        torch.testing.assert_close(fused, twice, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", [PLAIN, TWICE], ids=["fused", "twice"])
def test_tasks_side_by_side_equal_one_after_another(mode: Mode) -> None:
    params = made(tasks=3)
    together = NET(params, pieces(3), mode)
    for task in range(3):
        own = {n: p[task : task + 1] for n, p in params.items()}
        alone = NET(own, pieces(3)[task : task + 1], mode)
        torch.testing.assert_close(together[task : task + 1], alone, rtol=1e-10, atol=1e-10)


def test_shared_parameters_equal_copies() -> None:
    params = made()
    copies = {n: p.expand(3, *p.shape[1:]) for n, p in params.items()}
    shared = NET(params, pieces(3), PLAIN)
    torch.testing.assert_close(NET(copies, pieces(3), PLAIN), shared, rtol=1e-10, atol=1e-10)


def test_gradient_has_a_gradient() -> None:
    net = Transformer(vocabulary=4, size=4, layers=1, heads=1, inner=3)
    params = made(net)
    rows = torch.tensor([[[1, 3, 2], [2, 0, 0]]])

    def run(*values: Tensor) -> Tensor:
        return net(dict(zip(params, values, strict=True)), rows, TWICE)[:, :, :1]

    leaves = [p.clone().requires_grad_() for p in params.values()]
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves)


def test_heads_must_fit() -> None:
    with pytest.raises(HardnerError, match="5 heads"):
        Transformer(vocabulary=4, size=12, heads=5)


def test_products_in_bfloat16_are_those_of_rounded_numbers() -> None:
    params = {n: p.float() for n, p in made().items()}
    halved = NET.halved(params)
    coarse = {n.rsplit(".", 1)[0] for n, p in halved.items() if p.dtype == torch.bfloat16}
    assert coarse == {f"layer{i}.{m}" for i in (0, 1) for m in ("attention", "out", "up", "down")}
    found, exact = NET(halved, pieces(), PLAIN), NET(params, pieces(), PLAIN)
    assert found.dtype == torch.float32
    rounded = {n: p.to(halved[n].dtype).float() for n, p in params.items()}
    there = pieces() > 0
    off = (found - NET(rounded, pieces(), PLAIN))[there].std()
    assert 0 < off < 0.02 * exact[there].std()


@pytest.mark.skipif(not cpu_has_bfloat16(), reason="this CPU has no products of bfloat16")
@torch.inference_mode()
def test_a_row_in_bfloat16_does_not_depend_on_the_others() -> None:
    """To the bit: what is rounded to so few digits would not be the same to four behind it."""
    net = Transformer(vocabulary=50, size=384, layers=2, heads=6, inner=1536)
    params = net.halved(net.init(torch.Generator().manual_seed(0)))
    rows = torch.randint(1, 50, (1, 33, 18), generator=torch.Generator().manual_seed(1))
    rows[:, ::2, -1] = 0
    together = net(params, rows, PLAIN)
    for size in (1, 2, 8):
        apart = [net(params, some, PLAIN) for some in rows.split(size, dim=1)]
        assert torch.equal(torch.cat(apart, dim=1), together)
