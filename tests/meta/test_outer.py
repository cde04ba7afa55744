"""HGDA's weights, Eq. 2."""

import torch

from hardner.meta.inner import Term, domain_term, tag_term
from hardner.meta.methods import scaled
from hardner.meta.outer import hardness_weights, task_weights


def test_weights_reproduce_eq_2_on_hand_numbers():
    lab, cls = torch.tensor([3.0, 1.0, 0.0]), torch.tensor([1.0, 1.0, 2.0])
    weights = task_weights("hardness", (tag_term(), domain_term(0.5)), [lab, cls])
    # L = L_lab + 0.5 L_cls = (3.5, 1.5, 1.0), sum 6.
    torch.testing.assert_close(weights["encoder"], torch.tensor([3.5, 1.5, 1.0]) / 6)
    torch.testing.assert_close(weights["decoder"], torch.tensor([0.75, 0.25, 0.0]))
    torch.testing.assert_close(weights["critic"], torch.tensor([0.25, 0.25, 0.5]))


def test_weights_sum_to_one_and_are_even_where_losses_are():
    torch.manual_seed(0)
    for _ in range(50):
        weights = task_weights(
            "hardness", (tag_term(), domain_term(-0.3)), [torch.rand(8), torch.rand(8)]
        )
        for weight in weights.values():
            assert weight.min() >= 0
            torch.testing.assert_close(weight.sum(), torch.tensor(1.0))
    torch.testing.assert_close(hardness_weights(torch.full((4,), 2.5)), torch.full((4,), 0.25))
    torch.testing.assert_close(hardness_weights(torch.zeros(4)), torch.full((4,), 0.25))
    even = task_weights("uniform", (Term("tag", {"decoder": 1.0}),), [torch.rand(5)])
    torch.testing.assert_close(even["decoder"], torch.full((5,), 0.2))


def test_a_temperature_takes_a_root_of_the_losses():
    losses = torch.tensor([9.0, 1.0, 0.0])
    torch.testing.assert_close(hardness_weights(losses, 2.0), torch.tensor([0.75, 0.25, 0.0]))
    torch.testing.assert_close(hardness_weights(losses, 0.5), torch.tensor([81.0, 1, 0]) / 82)
    assert torch.equal(hardness_weights(losses, 1.0), hardness_weights(losses))
    cold = hardness_weights(1e30 * losses, 0.01)  # no power overflows
    torch.testing.assert_close(cold, torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(hardness_weights(torch.zeros(4), 2.0), torch.full((4,), 0.25))
    warm = task_weights("hardness", (tag_term(),), [losses], 2.0)["decoder"]
    torch.testing.assert_close(warm, torch.tensor([0.75, 0.25, 0.0]))


def test_weights_are_constants():
    losses = torch.rand(3, requires_grad=True)
    assert not hardness_weights(losses).requires_grad


def test_rates_follow_eq_3():
    assert scaled(1e-2, 32) == 1e-2
    assert abs(scaled(1e-2, 8) - 5e-3) < 1e-12
