"""The exact meta-gradient of a BiLSTM-CRF with a critic against finite differences."""

import numpy as np
import pytest
import torch

from hardner.batch import Batch
from hardner.meta.inner import adapt_tasks, expand_per_task
from hardner.meta.methods import MethodSettings, heads_for, method
from hardner.meta.outer import outer_step
from hardner.model.characters import Characters
from hardner.model.encoders import WordEncoder
from hardner.model.layers import Mode, Params, part_of
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.types import Sentence, Span

WORDS = ("aspirin", "cures", "flu", "mice", "have", "BRCA1", "x", "-")


def network(name: str, **settings: float) -> tuple[Tagger, list[Batch], Batch, Params]:
    rng = np.random.default_rng(1)
    sentences = []
    for _ in range(12):
        tokens = tuple(WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(2, 5)))
        sentences.append(Sentence(tokens, (Span(0, 1, "X"),)))
    way = method(name, MethodSettings(meta_gradient="exact", steps=2, rate=0.3, **settings))
    encoder = WordEncoder(WORDS, 3, characters=Characters(2, 4, (2, 3), recurrent=2), hidden=3)
    sets = (TagSet("A", ("X",)), TagSet("B", ("X", "Y")))
    tagger = Tagger(encoder, sets, heads=heads_for(way, encoder.size, 2))
    params = {n: p.double() for n, p in tagger.init(2).items()}
    for name_, value in params.items():
        if part_of(name_) == "decoder":  # away from zero, where nothing would be felt
            params[name_] = value + 0.1 * torch.randn_like(value)
    store = tagger.store(sentences, [0] * 6 + [1] * 6)
    rows = [torch.tensor([[0, 1], [6, 7]]), torch.tensor([[2, 3], [8, 9]])]
    widths = store.widths(np.arange(12))
    supports = [store.batch(rows[0], widths)]
    return tagger, supports, store.batch(rows[1], widths), params


@pytest.mark.parametrize("name", ["hgda", "metaner", "metaner-maml", "maml"])
def test_exact_equals_finite_differences(name: str) -> None:
    torch.manual_seed(0)
    tagger, supports, query, params = network(name)
    objective = method(name, MethodSettings(meta_gradient="exact", steps=2, rate=0.3)).objective
    result = outer_step(tagger, objective, params, supports, query, Mode())

    def values(point: Params) -> list[torch.Tensor]:
        """Each outer term of each task, by the first-order code path alone."""
        start = expand_per_task(point, objective.inner.parts, query.tasks)
        new, old = adapt_tasks(tagger, start, supports, objective.inner, Mode())
        points = {"start": point, "old": old, "new": new}
        found = []
        for term in objective.outer:
            batch = supports[0] if term.on == "support" else query
            losses = tagger.losses(points[term.at], batch, [term.loss], Mode())
            found.append(losses[term.loss].detach())
        return found

    step, checked = 1e-5, 0
    for key, grad in result.grads.items():
        part = part_of(key)
        flat = params[key].flatten()
        for place in torch.randperm(flat.numel())[:4].tolist():
            sides = []
            for sign in (1, -1):
                moved = flat.clone()
                moved[place] += sign * step
                sides.append(values(params | {key: moved.view_as(params[key])}))
            slopes = [(up - down) / (2 * step) for up, down in zip(*sides, strict=True)]
            expected = sum(
                term.signs.get(part, 0.0) * (result.weights[part] * slope).sum()
                for term, slope in zip(objective.outer, slopes, strict=True)
            )
            torch.testing.assert_close(grad.flatten()[place], expected, rtol=1e-6, atol=1e-6)
            checked += abs(float(expected)) > 1e-4
    assert checked > 10
