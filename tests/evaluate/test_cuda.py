"""On a GPU, where steps are captured and samples go together: the same outcome as on a CPU."""

from dataclasses import replace

import pytest
import tiny
import torch
from adapt.test_fit import ROWS, RULE, SEEDS, target
from adapt.test_self_training import MORE, TAUGHT
from evaluate.test_protocol import PLAN, lines, system, trained

from hardner.adapt.adapter import params_of_sample
from hardner.adapt.fit import fit_samples
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.score import Scorer
from hardner.model.tagger import Model
from hardner.tag.predictor import Predictor

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


@pytest.mark.parametrize("kind", ["bilstm", "bigru", "transformer"])
def test_fitting_and_examining(kind):
    tagger, params, store = target(kind)
    here = fit_samples(tagger, params, store, ROWS, RULE, SEEDS)
    moved = {name: value.cuda() for name, value in params.items()}
    on_gpu = tagger.store(tiny.sentences("Gene"), device="cuda")
    there = fit_samples(tagger, moved, on_gpu, ROWS, RULE, SEEDS)
    for name, value in here.items():
        assert torch.allclose(there[name].cpu(), value, atol=1e-6), name
    test = tiny.sentences("Gene", "test")
    for sample in range(2):
        on_cpu = Predictor(tagger, params_of_sample(here, sample))
        on_gpu = Predictor(tagger, params_of_sample(there, sample), device="cuda")
        assert Scorer(test)(on_gpu) == Scorer(test)(on_cpu)


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_text_without_labels(kind, decoder):
    tagger, params, store = target(kind, decoder)
    here = fit_samples(tagger, params, store, ROWS, TAUGHT, SEEDS, unlabelled=MORE)
    moved = {name: value.cuda() for name, value in params.items()}
    on_gpu = tagger.store(tiny.sentences("Gene"), device="cuda")
    there = fit_samples(tagger, moved, on_gpu, ROWS, TAUGHT, SEEDS, unlabelled=MORE)
    for name, value in here.items():
        assert torch.allclose(there[name].cpu(), value, atol=1e-6), name


def test_a_protocol(tmp_path):
    model = trained()
    still = replace(system(model).adaptation, dropout=0.0)
    moved = Model(model.tagger, {name: value.cuda() for name, value in model.params.items()})
    here, there = (
        system(model, adaptation=still),
        system(moved, adaptation=still, device="cuda"),
    )
    list(execute(PLAN, here, EvaluationFolders(tiny.ROOT, tmp_path / "cpu")))
    list(execute(PLAN, there, EvaluationFolders(tiny.ROOT, tmp_path / "cuda")))
    assert lines(tmp_path / "cpu") == lines(tmp_path / "cuda")
