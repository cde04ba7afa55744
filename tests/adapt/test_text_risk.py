"""What unlabelled text says by its prevalence: against all paths, and in shifts that are known."""

import runpy
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target
from adapt.test_self_training import LENGTHS, MORE, made_up, paths

from hardner.adapt.fit import fit_samples
from hardner.adapt.recipe import SelfTraining

RISK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "text_risk.py"))
PrevalenceRisk, chance_of_mention, chances, label_shift = (
    RISK[name] for name in ("PrevalenceRisk", "chance_of_mention", "chances", "label_shift")
)


def test_the_chance_of_a_mention_is_that_of_all_paths_but_one():
    emissions = made_up(LENGTHS)
    found = chance_of_mention(emissions)
    for task, row in product(range(2), range(len(LENGTHS))):
        every, weights = paths(emissions, task, row)
        none = sum(w for path, w in zip(every, weights, strict=True) if not any(path))
        assert found[task, row].item() == pytest.approx(1 - float(none), abs=1e-6)


def test_half_precision_does_not_end_in_infinity():
    scores, lengths, limits = made_up((60, 60))
    scores = (8 * scores).bfloat16().requires_grad_()
    sure = type(made_up(LENGTHS))(scores, lengths, limits)
    share = torch.tensor([0.1, 0.2])
    risk = PrevalenceRisk(MORE, share, "expectation").risk(sure, sure, lengths > 0)
    risk.sum().backward()
    assert risk.isfinite().all() and scores.grad.isfinite().all()


def test_the_expected_share_costs_nothing_and_the_risk_is_never_negative():
    text, own = made_up(LENGTHS), made_up((*LENGTHS, 2))
    there = text.lengths > 0
    mean = (chance_of_mention(text) * there).sum(-1) / there.sum(-1)
    bearing = torch.tensor([[True, False, True, False, False]] * 2)
    ours = chance_of_mention(own)[:, [0, 2]].mean(-1)
    share = torch.tensor([0.2, 0.9], dtype=torch.float64)
    drawn = PrevalenceRisk(MORE, mean, "expectation")
    assert drawn.risk(text, own, bearing).abs().max() < 1e-9
    drawn = PrevalenceRisk(MORE, share, "expectation")
    wanted = share * (share / mean).log() + (1 - share) * ((1 - share) / (1 - mean)).log()
    assert torch.allclose(drawn.risk(text, own, bearing), wanted)
    spared = PrevalenceRisk(MORE, share, "non-negative")
    assert torch.allclose(spared.risk(text, own, bearing), (mean - share * ours).clamp(min=0))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_label_shift_finds_the_share_that_chances_were_drawn_with(share):
    """x ~ N(+-1, 1), learnt half and half; what is seen has another share."""
    rng = np.random.default_rng(0)
    bearing = rng.random(20_000) < share
    x = rng.normal(np.where(bearing, 1.0, -1.0), 1.0)
    found, shifted = label_shift(1 / (1 + np.exp(-2 * x)))
    odds = share / (1 - share) * np.exp(2 * x)
    assert found == pytest.approx(share, abs=0.015)
    assert shifted == pytest.approx(odds / (1 + odds), abs=0.03)


@pytest.mark.parametrize("kind", ["expectation", "non-negative"])
def test_a_rare_type_is_found_less_often_in_text(kind):
    tagger, params, store = target("transformer")

    def mean(share):
        def teach(tagger, params, store, rows):
            return PrevalenceRisk(rows, torch.full((len(rows),), share).double(), kind)

        recipe = replace(RULE, restarts=2, self_training=SelfTraining(steps=20, rate=1.0, batch=6))
        fitted = fit_samples(
            tagger, params, store, ROWS, recipe, SEEDS, unlabelled=MORE, teach=teach
        )
        return chances(tagger, fitted, store, MORE).mean().item()

    assert mean(0.01) < mean(0.99)
