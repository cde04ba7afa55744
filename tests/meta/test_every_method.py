"""Every method with every encoder takes three steps, and moves what it should."""

import pytest
import tiny
import torch

from hardner.episodes import Sources
from hardner.meta.loop import Training, drawing, initial_state, loop
from hardner.meta.methods import METHODS, Method, MethodSettings, heads_for, method
from hardner.meta.optim import Optimizer
from hardner.model.layers import part_of
from hardner.model.tagger import Tagger

SOURCES = Sources.of({domain: tiny.sentences(domain) for domain in tiny.DOMAINS})
PARTS = {
    "hgda": "critic decoder encoder",
    "hgda-nes": "critic decoder encoder",
    "hgda-nes-queries": "critic decoder encoder",
    "hgda-both": "critic decoder encoder",
    "metaner": "critic decoder encoder",
    "metaner-without-critic": "decoder encoder",
    "metaner-new-only": "critic decoder encoder",
    "metaner-maml": "critic decoder encoder",
    "maml": "decoder encoder",
    "multitask": "decoder encoder",
    "multitask-in-turn": "decoder encoder",
    "multigranularity": "bcls decoder encoder mcls mtcls",
    "multigranularity-alternating": "bcls decoder encoder mcls mtcls",
    "dann": "critic decoder encoder",
    "wpz": "encoder",
}
"""What three (the alternating one: four) steps move."""


def train(way: Method, kind: str, iterations: int = 3, parts: str = "") -> None:
    """Train, and check what every method must do."""
    reads = tiny.encoder(kind)
    decoder = "softmax" if way.name == "wpz" or kind == "bert" else "crf"
    tagger = Tagger(reads, tiny.tag_sets(), decoder, heads_for(way, reads.size, len(tiny.DOMAINS)))
    optimizer = Optimizer(momentum=0.9)
    training = Training(iterations=iterations, rate=0.05, optimizer=optimizer, dropout=0.1)
    progress = initial_state(tagger.init(), way, training)
    before = {n: p.clone() for n, p in progress.params.items()}
    draw = drawing(way, SOURCES, tasks=3, shots=2, seed=0)
    store = tagger.store(*tiny.everything())
    steps = list(loop(tagger, way, training, store, draw, progress))
    assert [step.iteration for step in steps] == list(range(iterations))
    for step in steps:
        assert step.losses.isfinite().all()
        assert step.losses.shape[1] == 3
        torch.testing.assert_close(step.weights.sum(1), torch.ones(len(step.weights)))
    moved = {part_of(n) for n, p in progress.params.items() if not torch.equal(p, before[n])}
    assert moved == set((parts or PARTS[way.name]).split())
    assert all(p.isfinite().all() for p in progress.params.values())


def test_the_list_is_whole() -> None:
    assert PARTS.keys() == METHODS.keys()


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_three_steps(name: str, kind: str) -> None:
    train(method(name, MethodSettings(rate=0.05)), kind, 4 if "alternating" in name else 3)


@pytest.mark.parametrize("kind", ["bilstm", "bigru", "transformer"])
@pytest.mark.parametrize("meta_gradient", ["first", "exact", "implicit"])
def test_three_steps_of_each_meta_gradient(meta_gradient: str, kind: str) -> None:
    settings = MethodSettings(steps=2, rate=0.05, meta_gradient=meta_gradient, proximal=0.5)
    train(method("maml", settings), kind)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_three_steps_of_each_pooling_without_one_of_the_tasks(pooling: str) -> None:
    shares = {"tag": 1.0, "mtcls": 0.5, "bcls": 0.0, "mcls": 0.5}
    way = method("multigranularity", MethodSettings(pooling=pooling, shares=shares))
    train(way, "transformer", parts="decoder encoder mcls mtcls")


def test_three_steps_of_tempered_hardness_by_sentence() -> None:
    way = method("hgda", MethodSettings(temperature=3.0, by_sentence=True))
    assert way.objective.outer[0].loss == way.objective.inner.terms[0].loss == "tag of sentences"
    train(way, "bert")


def test_a_frozen_encoder_stays() -> None:
    train(method("multitask", MethodSettings(frozen=True)), "bilstm", parts="decoder")
