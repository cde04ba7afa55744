"""The ways of the benchmark of running text, each on a small model; and what it writes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
from adapted import RULE, known
from scipy.optimize import minimize

from hardner.adapt.adapter import Adapter
from hardner.adapt.forecast import cross_validate, cross_validate_all
from hardner.adapt.sample import Sample
from hardner.model.tagger import Model
from hardner.types import Sentence, Span

TEXT = [Sentence(("a", "b", "c", "d")), Sentence(("e", "f")), Sentence(("g",))]
A, B, C = Span(0, 1, "X"), Span(1, 3, "X"), Span(1, 2, "Y")


@pytest.fixture
def made(monkeypatch):
    """The two modules of the benchmark, a bench of a small model, and a sample of its genes."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import running
    import ways

    bench = object.__new__(running.Bench)
    start = known()
    bench.adapter = Adapter(Model(start.tagger, start.params), [running.TAGS], RULE)
    bench.preset, bench.device, bench.forecast = "small", "cpu", True

    def named(domain, split):
        return tuple(s for s in map(unseen, tiny.sentences(domain, split)))

    def unseen(sentence):
        from hardner.meta.source_data import relabelled

        return relabelled(sentence, "E")

    train = (*named("Drug", "train"), *named("Disease", "train"))
    own = ways.Type("Drug", train, named("Drug", "test"))
    trial = ways.Trial(bench, own, 6, 0, (4, 3))
    return SimpleNamespace(running=running, ways=ways, bench=bench, trial=trial)


def test_every_way_makes_a_line(made, monkeypatch):
    monkeypatch.setattr(made.ways, "own_heads", made.ways.Trial.sample)
    lines = {}
    for way in made.ways.WAYS:
        if way == "free: other heads":  # needs the bundled model
            continue
        for trial, model, seconds in made.bench.fit([made.trial], way):
            lines[way] = made.bench.line(trial, way, model, seconds)
    assert lines.keys() == made.ways.WAYS.keys() - {"free: other heads"}
    first = lines["as is"]
    assert set(first["signs"]) >= {"curve", "text", "sure", "rate", "sentences", "variance"}
    assert all("signs" not in line for way, line in lines.items() if way != "as is")
    for line in lines.values():
        assert line["bearing"][0] == line["all"][0] and line["all"][1] >= line["bearing"][1]
        assert made.running.key(line)[:3] == ("Drug", 6, 0)
    assert lines["20 answers"]["sure"] != first["sure"]


def test_samples_are_cross_validated_together_as_each_alone(made):
    trial, adapter = made.trial, made.bench.adapter
    other = made.ways.Trial(made.bench, trial.type, 6, 1, None)
    single = Sample(trial.given[:1])
    samples = [trial.sample(), single, other.sample()]
    *found, last = cross_validate_all(adapter, samples, 3)
    assert found[1] is None  # one sentence can judge nothing
    alone = cross_validate(adapter, other.sample(), 3)
    assert [m.held_out for m in last.models] == [m.held_out for m in alone.models]
    for one, two in zip(last.heads[0], alone.heads[0], strict=True):
        assert one.learnt == two.learnt and (one.counts == two.counts).all()


def test_tested_sentences_count_as_much_as_they_do_in_text(made):
    trial, own = made.trial, made.trial.type
    bearing = sum(bool(s.spans) for s in trial.test)
    free = (len(trial.test) - bearing) * trial.free_weight()
    assert bearing / (bearing + free) == pytest.approx(own.prevalence)
    taken = {s.tokens for s in (*trial.given, *trial.test)}
    assert not any(s.tokens in taken for s in trial.others("text", 100))


def test_a_ridge_regression_is_where_its_loss_is_least(made):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), np.r_[np.ones(15), np.zeros(45)]
    x[:15] += 1
    z = (x - x.mean(0)) / x.std(0) / 3**0.5
    each = np.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))

    def loss(w):
        logits = z @ w[:3] + w[3]
        return (each * (np.logaddexp(0, logits) - y * logits)).sum() + w[:3] @ w[:3] / 2

    best = minimize(loss, np.zeros(4), tol=1e-10).x
    found = made.ways.logistic(x, y, x)
    assert found == pytest.approx(z @ best[:3] + best[3], abs=1e-3)


def test_a_gate_and_a_shift_leave_out_but_add_nothing(made):
    for trial, model, _ in made.bench.fit([made.trial], "as is"):
        found = model.spans(trial.test)
        for sift in (made.ways.gate, made.ways.shifted):
            left = sift(trial, model, found)
            assert len(left) == len(found)
            for own, before in zip(left, found, strict=True):
                assert {span for span, _ in own} <= {span for span, _ in before}


class Finds:
    """Finds what it was told to."""

    def __init__(self, *found):
        self.found = found

    def spans(self, text):
        assert text is TEXT
        return [[(span, 0.9) for span in own] for own in self.found]


def test_what_fewer_than_half_of_the_others_find_is_rejected(made):
    reject_in_text = made.ways.reject_in_text
    model = Finds([A, B], [C], [A])
    folds = Finds([A, B], [], []), Finds([A], [], []), Finds([], [C], [])
    first, second, third = reject_in_text(model, folds, TEXT)
    assert [s.rejected for s in (first, second, third)] == [(B,), (C,), (A,)]
    assert all(s.state == "partial" and not s.spans for s in (first, second, third))
    assert first.tokens == TEXT[0].tokens
    assert reject_in_text(Finds([A], [], []), folds, TEXT) == ()  # two of three find it
    assert reject_in_text(Finds([], [], []), folds, TEXT) == ()  # none that the model does not
