"""Meta-gradients against closed forms on quadratics."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from meta.quadratic import N, Quadratic, problem, start
from torch import Tensor

from hardner.errors import HardnerError
from hardner.meta.inner import InnerLoop, Term, domain_term, tag_term
from hardner.meta.outer import Objective, outer_step
from hardner.model.layers import Mode, Params

TASKS = 3
RATE = 0.05
FOLLOW = Term("tag", {"encoder": 1.0, "critic": 1.0})
BOTH = frozenset({"encoder", "critic"})


def whole(params: Params) -> Tensor:
    return torch.cat((params["encoder.x"], params["critic.y"]), dim=-1)


def gradient(objective: Objective, support: Any, query: Any) -> Tensor:
    found = outer_step(Quadratic(), objective, start(), [support], query, Mode())  # type: ignore[arg-type]
    return torch.cat((found.grads["encoder.x"], found.grads["critic.y"]), dim=-1)[0]


def descended(a: Tensor, b: Tensor, z: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        z = z - RATE * (torch.einsum("mij,mj->mi", a, z) + b)
    return z


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("how", ["first", "exact"])
def test_unrolled_steps_equal_the_closed_form(how: str, steps: int) -> None:
    support, query = problem(TASKS, 1), problem(TASKS, 2)
    inner = InnerLoop(steps, rate=RATE, terms=(FOLLOW,), parts=BOTH)
    found = gradient(Objective((FOLLOW,), inner, meta_gradient=how), support, query)  # type: ignore[arg-type]
    (a, b), (aq, bq) = support.curves["tag"], query.curves["tag"]
    adapted = descended(a, b, whole(start()).expand(TASKS, -1), steps)
    slope = torch.einsum("mij,mj->mi", aq, adapted) + bq
    if how == "exact":  # d theta' / d theta = (I - rate A)^steps
        jacobian = torch.linalg.matrix_power(torch.eye(2 * N, dtype=a.dtype) - RATE * a, steps)
        slope = torch.einsum("mij,mi->mj", jacobian, slope)
    torch.testing.assert_close(found, slope.mean(0), rtol=1e-8, atol=1e-8)


def test_implicit_equals_its_closed_form_and_exact_at_convergence() -> None:
    support, query = problem(TASKS, 1), problem(TASKS, 2)
    rho = 2.0
    inner = InnerLoop(400, rate=RATE, terms=(FOLLOW,), parts=BOTH, proximal=rho)
    objective = Objective((FOLLOW,), inner, meta_gradient="implicit", iterations=2 * N)
    found = gradient(objective, support, query)
    (a, b), (aq, bq) = support.curves["tag"], query.curves["tag"]
    eye = torch.eye(2 * N, dtype=a.dtype)
    z0 = whole(start()).expand(TASKS, -1)
    solution = torch.linalg.solve(a + rho * eye, rho * z0 - b)
    slope = torch.einsum("mij,mj->mi", aq, solution) + bq
    expected = torch.linalg.solve(eye + a / rho, slope)
    torch.testing.assert_close(found, expected.mean(0), rtol=1e-8, atol=1e-8)
    exact = gradient(replace(objective, meta_gradient="exact"), support, query)
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=1e-8)


def test_implicit_feels_parts_that_are_not_adapted() -> None:
    support, query = problem(TASKS, 1), problem(TASKS, 2)
    inner = InnerLoop(600, rate=RATE, terms=(tag_term(encoder=1.0, critic=1.0),), proximal=1.0)
    inner = replace(inner, parts=frozenset({"encoder"}))
    objective = Objective((FOLLOW,), inner, meta_gradient="implicit", iterations=2 * N)
    implicit = gradient(objective, support, query)
    exact = gradient(replace(objective, meta_gradient="exact"), support, query)
    torch.testing.assert_close(implicit, exact, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("weighting", ["uniform", "hardness"])
def test_adversarial_signs_exactly_equal_finite_differences(weighting: str) -> None:
    support, query = problem(TASKS, 1), problem(TASKS, 2)
    for batch in (support, query):  # as in a network, the tags do not depend on the critic
        a, b = batch.curves["tag"]
        a[:, N:], a[:, :, N:], b[:, N:] = 0, 0, 0
    terms = (Term("tag", {"encoder": 1.0}), domain_term(-0.7))
    inner = InnerLoop(3, rate=RATE, terms=terms, parts=BOTH)
    objective = Objective(terms, inner, weighting, "exact")  # type: ignore[arg-type]
    tagger: Any = Quadratic()
    result = outer_step(tagger, objective, start(), [support], query, Mode())

    def outcome(z: Tensor) -> dict[str, Tensor]:
        x, y = z[:, :N].expand(TASKS, -1), z[:, N:].expand(TASKS, -1)
        for _ in range(3):
            z2 = torch.cat((x, y), -1)
            slope = {
                n: torch.einsum("mij,mj->mi", a, z2) + b for n, (a, b) in support.curves.items()
            }
            x, y = (
                x - RATE * (slope["tag"] - 0.7 * slope["domain"])[:, :N],
                y - RATE * slope["domain"][:, N:],
            )
        return tagger.losses({"encoder.x": x, "critic.y": y}, query, ["tag", "domain"], Mode(), ())

    step = 1e-5
    for name, part, place in (("encoder.x", "encoder", 0), ("critic.y", "critic", N)):
        for i in range(N):
            bump = torch.zeros(1, 2 * N, dtype=torch.float64)
            bump[0, place + i] = step
            up, down = outcome(whole(start()) + bump), outcome(whole(start()) - bump)
            slope = {n: (up[n] - down[n]) / (2 * step) for n in up}
            signed = slope["tag"] - 0.7 * slope["domain"] if part == "encoder" else slope["domain"]
            expected = (result.weights[part] * signed).sum()
            torch.testing.assert_close(result.grads[name][0, i], expected, rtol=1e-6, atol=1e-6)


def test_no_inner_steps_is_plain_supervised_training() -> None:
    query = problem(TASKS, 2)
    leaves = {n: p.clone().requires_grad_() for n, p in start().items()}
    tagger: Any = Quadratic()
    loss = tagger.losses(leaves, query, ["tag"], Mode(), ())["tag"].mean()
    expected = torch.autograd.grad(loss, list(leaves.values()))
    for how in ("first", "exact"):
        found = gradient(Objective((FOLLOW,), meta_gradient=how), None, query)  # type: ignore[arg-type]
        torch.testing.assert_close(found, torch.cat(expected, dim=-1)[0])


def test_what_has_no_meaning_is_refused_with_the_reason() -> None:
    adversarial = InnerLoop(terms=(tag_term(), domain_term(-1.0)), parts=BOTH, proximal=1.0)
    with pytest.raises(HardnerError, match="symmetric positive Hessian"):
        Objective((tag_term(),), adversarial, meta_gradient="implicit")
    with pytest.raises(HardnerError, match="proximal"):
        Objective((tag_term(),), InnerLoop(terms=(tag_term(),)), meta_gradient="implicit")
    elsewhere = (Term("tag", {"encoder": 1.0}, on="support", at="start"),)
    with pytest.raises(HardnerError, match="query set"):
        Objective(elsewhere, InnerLoop(terms=(tag_term(),), proximal=1.0), meta_gradient="implicit")


def test_shares_weigh_the_losses_of_each_domain() -> None:
    query = problem(TASKS, 2)
    query.domains = torch.tensor([0, 1, 0])
    even, uneven = Objective((FOLLOW,)), Objective((FOLLOW,), shares=(2.0, 0.5))
    tagger: Any = Quadratic()
    expected = torch.zeros(2 * N, dtype=torch.float64)
    for task, share in enumerate((2.0, 0.5, 2.0)):
        (a, b) = query.curves["tag"]
        one = problem(1, 0)
        one.curves = {"tag": (a[task : task + 1], b[task : task + 1])}
        expected += share * gradient(even, None, one) / TASKS
    torch.testing.assert_close(gradient(uneven, None, query), expected)
    values = outer_step(tagger, uneven, start(), [], query, Mode()).values[0]
    plain = outer_step(tagger, even, start(), [], query, Mode()).values[0]
    torch.testing.assert_close(values, plain * torch.tensor([2.0, 0.5, 2.0]))


def test_implicit_with_several_supports_is_of_their_mean() -> None:
    supports, query = [problem(TASKS, 1), problem(TASKS, 5)], problem(TASKS, 2)
    inner = InnerLoop(2, rate=RATE, terms=(FOLLOW,), parts=BOTH, proximal=2.0)
    objective = Objective((FOLLOW,), inner, meta_gradient="implicit", iterations=4 * N)
    tagger: Any = Quadratic()
    found = outer_step(tagger, objective, start(), supports, query, Mode()).grads
    a = (supports[0].curves["tag"][0] + supports[1].curves["tag"][0]) / 2
    # The query slope at the point that the two steps reached.
    z = whole(start()).expand(TASKS, -1)
    z0 = z
    for support in supports:
        curve, slope = support.curves["tag"]
        z = z - RATE * (torch.einsum("mij,mj->mi", curve, z) + slope + 2.0 * (z - z0))
    aq, bq = query.curves["tag"]
    eye = torch.eye(2 * N, dtype=torch.float64)
    expected = torch.linalg.solve(eye + a / 2.0, torch.einsum("mij,mj->mi", aq, z) + bq).mean(0)
    joined = torch.cat((found["encoder.x"], found["critic.y"]), dim=-1)[0]
    torch.testing.assert_close(joined, expected, rtol=1e-8, atol=1e-8)
