"""Optimisers against torch's."""

import pytest
import torch

from hardner.meta.optim import Optimizer, clip


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Optimizer(), lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            Optimizer(momentum=0.9, weight_decay=0.01),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
        (
            Optimizer("adamw", weight_decay=0.01),
            lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01),
        ),
    ],
)
def test_steps_equal_torch(ours, theirs):
    torch.manual_seed(0)
    params = {"a": torch.randn(1, 3, 2), "b": torch.randn(1, 4)}
    leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
    peer, state = theirs(list(leaves.values())), ours.init(params)
    for _ in range(5):
        grads = {n: torch.randn_like(p) for n, p in params.items()}
        for name, leaf in leaves.items():
            leaf.grad = grads[name].clone()
        peer.step()
        params, state = ours.step(params, grads, state, dict.fromkeys(params, torch.tensor(0.1)))
        for name in params:
            torch.testing.assert_close(params[name], leaves[name].detach())


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_parameters_may_have_rates_of_their_own(kind):
    ours = Optimizer(momentum=0.9, weight_decay=0.01)
    params = {"a": torch.randn(1, 3), "b": torch.randn(1, 2), "c": torch.randn(1, 2)}
    rates = {"a": 0.1, "b": 0.3, "c": 0.1}
    leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
    groups = [{"params": [leaf], "lr": rates[n]} for n, leaf in leaves.items()]
    peer, state = torch.optim.SGD(groups, momentum=0.9, weight_decay=0.01), ours.init(params)
    for _ in range(3):
        for leaf in leaves.values():
            leaf.grad = torch.randn_like(leaf)
        peer.step()
        grads = {n: leaf.grad for n, leaf in leaves.items()}
        given = {n: kind(rate) for n, rate in rates.items()}
        params, state = ours.step(params, grads, state, given)
        for name in params:
            torch.testing.assert_close(params[name], leaves[name].detach())


def test_clip_equals_torch_and_is_by_task_where_asked():
    grads = {"a": torch.randn(3, 2, 2), "b": torch.randn(3, 5)}
    leaves = [torch.zeros_like(g).requires_grad_() for g in grads.values()]
    for leaf, grad in zip(leaves, grads.values(), strict=True):
        leaf.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(leaves, 0.5)
    for clipped, leaf in zip(clip(grads, 0.5).values(), leaves, strict=True):
        torch.testing.assert_close(clipped, leaf.grad, rtol=1e-5, atol=1e-6)
    alone = clip({n: g[1:2] for n, g in grads.items()}, 0.5)
    together = clip(grads, 0.5, tasks=True)
    for name in grads:
        torch.testing.assert_close(together[name][1:2], alone[name])
    assert clip(grads, 0.0) == grads


@pytest.mark.parametrize("tasks", [False, True])
@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1)])
@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_clipped_steps_have_gradients_of_gradients(tasks, rate, rule):
    optimizer = Optimizer(rule, momentum=0.9, weight_decay=0.1)
    rng = torch.Generator().manual_seed(0)
    values = [torch.rand(*shape, generator=rng).double() for shape in ((2, 3, 2), (2, 4))]

    def moved(a, b):
        params = {"a": a, "b": b}
        state = {n: v + 1 for n, v in optimizer.init(params).items()}
        grads = clip({"a": a * a, "b": b.sin()}, 0.5, tasks)
        new, _ = optimizer.step(params, grads, state, dict.fromkeys(params, rate))
        return tuple(new.values())

    leaves = [value.requires_grad_() for value in values]
    assert torch.autograd.gradcheck(moved, leaves)
    assert torch.autograd.gradgradcheck(moved, leaves)
