"""Optimisers against torch's."""

import pytest
import torch

from hardner.learn.optim import Optimizer, clip


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
