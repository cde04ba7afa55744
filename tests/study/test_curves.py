"""Tasks as they are learnt: scores against a second count, vectors against finite differences."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import plot
import pytest
import relations
import tiny
import torch
from curves import Study, loss_combinations
from fisher import cosine_similarity, fisher_diagonal, unit_means
from records import CURVES, TASKS, VECTORS, CurvePoint, TaskVector, read_records
from scored_training import ScoredTraining, restricted
from sklearn.metrics import f1_score

from hardner.config import merged, toml
from hardner.corpora import load_corpus
from hardner.errors import HardnerError
from hardner.evaluate.results import append_lines, cut_partial_line
from hardner.evaluate.score import Scorer, score
from hardner.meta.experiment import Experiment, experiment
from hardner.meta.methods import method
from hardner.model.layers import SCORING
from hardner.tag.predictor import Predictor

TINY: dict[str, Any] = {
    "method": "multigranularity",
    "device": "cpu",
    "data": {"root": str(tiny.ROOT), "layout": "folders", "corpora": ["Disease"]},
    "encoder": {"dimension": 8, "hidden": 6, "letters": 4, "filters": 4, "recurrent": 4},
    "decoder": {"kind": "softmax", "per": "corpus"},
    "train": {"iterations": 6, "tasks": 1, "shots": 8, "rate": 0.05, "scaled": False},
}


def small(**values: Any) -> Experiment:
    return experiment(TINY, values)


@pytest.fixture(scope="module")
def training() -> ScoredTraining:
    return ScoredTraining(small(), [load_corpus("Disease", tiny.ROOT)])


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora, with pairs."""
    out = tmp_path_factory.mktemp("results")
    for corpus in ("Disease", "Gene"):
        own = small(data={"corpora": [corpus]})
        list(Study(own, (corpus,), tiny.ROOT, out, points=3, pairs=True, sentences=5).run())
    return out


def test_moments_are_spread_over_the_training_and_end_with_it(training: ScoredTraining) -> None:
    before = training.score(next(training.train(("tag",), 6)).params, ("tag",))
    assert [m.iteration for m in training.train(("tag", "bcls"), 3)] == [2, 4, 6]
    assert [m.iteration for m in training.train(("tag",), 4)] == [2, 3, 5, 6]
    assert training.score(next(training.train(("tag",), 6)).params, ("tag",)) == before
    assert training.passes(6) == pytest.approx(
        6 / np.ceil(len(training.store.tags.widths[:-1]) / 8)
    )


def test_only_what_is_trained_moves(training: ScoredTraining) -> None:
    def moved(*losses: str) -> set[str]:
        start = training.tagger.init(0)
        last = list(training.train(losses, 1))[-1].params
        return {n.split(".")[0] for n, p in last.items() if not torch.equal(p, start[n])}

    assert moved("bcls") == {"encoder", "bcls"}
    assert moved("tag", "mcls") == {"encoder", "decoder", "mcls"}
    with pytest.raises(HardnerError, match="has only the losses tag"):
        restricted(method("multitask"), ("bcls",))


def test_heads_score_as_a_second_library_counts(training: ScoredTraining) -> None:
    params = list(training.train(("tag", "mtcls", "bcls", "mcls"), 1))[-1].params
    corpus = training.corpora[0]
    found = training.score(params, ("tag", "mtcls", "bcls", "mcls"))["Disease"]
    tagger = training.tagger
    said: dict[str, list[int]] = {loss: [] for loss in ("mtcls", "bcls", "mcls")}
    right: dict[str, list[int]] = {loss: [] for loss in said}
    for sentence in corpus.test:  # one by one, and labels from the spans
        store = tagger.store([sentence])
        batch = store.batch(torch.tensor([[0]]), store.widths(np.array([0])))
        encoded = tagger.encoder(params, batch, SCORING)
        for loss in said:
            own = {n.split(".", 1)[1]: p for n, p in params.items() if n.startswith(f"{loss}.")}
            answer = tagger.heads[loss].logits(own, encoded, batch).argmax(-1)
            said[loss] += answer.flatten().tolist()
        many = len(sentence.spans)
        right["bcls"].append(min(many, 1))
        right["mcls"].append(min(many, 3))
        extent = [0] * len(sentence)
        for span in sentence.spans:
            for word in range(span.start, span.end):
                extent[word] = 1 if span.end == span.start + 1 else 2
        right["mtcls"] += extent
    for loss in said:
        classes = sorted({*right[loss], *said[loss]} - {0})
        other = f1_score(right[loss], said[loss], labels=classes, average="micro", zero_division=0)
        assert found[loss].f1 == pytest.approx(other)
        assert found[loss].tp + found[loss].fn == np.count_nonzero(right[loss])
    spans = Scorer(corpus.test).predictions(Predictor(tagger, params), tagger.domains[0])
    assert found["tag"] == score([s.spans for s in corpus.test], spans)


@pytest.mark.parametrize(
    ("kind", "decoder", "loss"),
    [
        ("bilstm", "crf", "tag"),
        ("bilstm", "softmax", "tag"),
        ("transformer", "softmax", "tag"),
        ("transformer", "softmax", "mtcls"),
        ("bilstm", "crf", "mcls"),
        ("transformer", "crf", "bcls"),
    ],
)
def test_the_fisher_information_by_finite_differences(kind: str, decoder: str, loss: str) -> None:
    tagger = tiny.tagger(kind, decoder, heads=("mtcls", "bcls", "mcls"))
    params = tiny.params(tagger)
    sentences, domains = tiny.everything()
    rows = np.arange(0, len(sentences), 7)[:10]  # more than are taken at once
    store = tagger.store(sentences, domains)
    diagonal = fisher_diagonal(tagger, params, store, rows, loss)
    assert diagonal and all(n.startswith("encoder.") for n in diagonal)
    assert not any(n.endswith((".pieces", ".words")) for n in diagonal)

    def unlikely(changed: dict[str, torch.Tensor], row: int) -> float:
        one = tagger.store([sentences[row]], [domains[row]])
        batch = one.batch(torch.tensor([[0]]), one.widths(np.array([0])))
        value = tagger.losses(changed, batch, [loss])[loss].item()
        words = loss == "mtcls" or (loss == "tag" and decoder == "softmax")
        return value * (len(sentences[row]) if words else 1)

    rng, step = np.random.default_rng(0), 1e-5
    for name in sorted(diagonal)[::3]:
        place = tuple(int(rng.integers(size)) for size in params[name].shape)
        squares = []
        for row in rows:
            ends = []
            for way in (step, -step):
                changed = params | {name: params[name].clone()}
                changed[name][place] += way
                ends.append(unlikely(changed, row))
            squares.append(((ends[0] - ends[1]) / (2 * step)) ** 2)
        assert diagonal[name][place].item() == pytest.approx(np.mean(squares), rel=1e-4, abs=1e-9)


def test_a_task_vector_has_a_number_a_unit() -> None:
    diagonal = {
        "encoder.b.weight": torch.tensor([[[1.0, 3.0], [5.0, 7.0]]]),
        "encoder.b.bias": torch.tensor([[9.0, 9.0]]),
        "encoder.a.weight": torch.tensor([[[[2.0, 4.0]], [[6.0, 6.0]]]]),
    }
    assert unit_means(diagonal).tolist() == [3.0, 6.0, 2.0, 6.0]
    cosines = cosine_similarity(torch.tensor([[1.0, 0.0], [3.0, 4.0]]))
    torch.testing.assert_close(cosines, torch.tensor([[1.0, 0.6], [0.6, 1.0]]))


def test_what_is_trained() -> None:
    assert loss_combinations(list(TASKS), pairs=False) == [tuple(TASKS)]
    every = loss_combinations(list(TASKS), pairs=True)
    assert sorted(map(len, every)) == [1] * 4 + [2] * 6 + [4]
    assert len(set(every)) == 11
    with pytest.raises(HardnerError, match="no pairs"):
        loss_combinations(["tag"], pairs=True)
    with pytest.raises(HardnerError, match="domain is no task"):
        Study(small(method="dann"), ("Disease",), tiny.ROOT, Path()).trainings()
    with pytest.raises(HardnerError, match="one corpus at a time"):
        Study(small(), ("Disease", "Gene"), tiny.ROOT, Path(), pairs=True).trainings()


def test_a_study_writes_every_training_once(studied: Path) -> None:
    points, vectors = (
        read_records(studied / CURVES, CurvePoint),
        read_records(studied / VECTORS, TaskVector),
    )
    assert len(points) == 2 * 3 * (4 + 4 * 1 + 6 * 2)
    assert {(p.corpus, p.task) for p in vectors} == {
        (c, t) for c in ("Disease", "Gene") for t in TASKS.values()
    }
    assert len({len(p.vector) for p in vectors}) == 1
    before = (studied / CURVES).read_bytes()
    again = Study(small(), ("Disease",), tiny.ROOT, studied, points=3, pairs=True, sentences=5)
    assert all(job.f1 is None for job in again.run())
    assert (studied / CURVES).read_bytes() == before


def test_a_study_goes_on_where_it_was_cut(studied: Path, tmp_path: Path) -> None:
    text = (studied / CURVES).read_text().splitlines(keepends=True)
    (tmp_path / CURVES).write_text("".join(text[:20]) + text[20][:40])
    (tmp_path / VECTORS).write_text((studied / VECTORS).read_text().splitlines(keepends=True)[0])
    study = Study(small(), ("Disease",), tiny.ROOT, tmp_path, points=3, pairs=True, sentences=5)
    jobs = list(study.run())
    assert [job.tasks for job in jobs if job.f1 is None] == [tuple(TASKS.values()), ("NER",)]
    whole = {p.key: (p.tp, p.fp, p.fn) for p in read_records(studied / CURVES, CurvePoint)}
    mended = {p.key: (p.tp, p.fp, p.fn) for p in read_records(tmp_path / CURVES, CurvePoint)}
    assert mended == {k: v for k, v in whole.items() if "Disease" in k}
    assert len(read_records(tmp_path / VECTORS, TaskVector)) == 4


def test_help_is_with_less_alone() -> None:
    def ended(tasks: tuple[str, ...], task: str, tp: int, seed: int = 0) -> CurvePoint:
        of = ("m", "e", "p", ("C",), tasks, False, 9, 9, 1.0, "C", task, tp, 10 - tp, 10 - tp)
        return CurvePoint(*of, seed, "x", {}, "", 0.0)

    points = [
        ended(("NER",), "NER", 5),
        ended(("NER",), "NER", 7, seed=1),
        ended(("NER", "bCLS"), "NER", 8),
        ended(("NER", "bCLS"), "bCLS", 9),
    ]
    assert relations.f1_alone(points) == {"C": {"NER": pytest.approx(0.6)}}
    assert relations.pair_gains(points) == {"C": {"NER": {"bCLS": pytest.approx(0.2)}}}


def test_figures(studied: Path, tmp_path: Path) -> None:
    for kind, file in (("curves", CURVES), ("pairs", CURVES), ("tasks", VECTORS)):
        made = plot.save(kind, [studied / file], tmp_path / kind)
        assert [path.suffix for path in made] == [".svg", ".png"]
        again = plot.save(kind, [studied / file], tmp_path / f"{kind}-again.svg")
        assert again[0].read_bytes() == made[0].read_bytes()
    text = (tmp_path / "pairs.svg").read_text()
    gain = relations.pair_gains(read_records(studied / CURVES, CurvePoint))["Gene"]["NER"]["mtCLS"]
    assert f"{100 * gain:+.1f}".replace("-", "\u2212") in text or f"{100 * gain:+.1f}" in text
    vectors = read_records(studied / VECTORS, TaskVector)
    assert len(plot.project(vectors)) == 8
    with pytest.raises(HardnerError, match="four tasks or more"):
        append_lines(tmp_path / VECTORS, map(asdict, vectors[:3]))
        plot.save("tasks", [tmp_path / VECTORS], tmp_path / "none.svg")
    with pytest.raises(HardnerError, match="no pair of tasks"):
        append_lines(
            tmp_path / CURVES,
            map(asdict, [p for p in read_records(studied / CURVES, CurvePoint) if p.whole]),
        )
        plot.save("pairs", [tmp_path / CURVES], tmp_path / "none.svg")


def test_damaged_lines_are_refused_and_unfinished_ones_cut(tmp_path: Path) -> None:
    path = tmp_path / CURVES
    path.write_text('{"a": 1}\n{"b": 2')
    cut_partial_line(path)
    assert path.read_text() == '{"a": 1}\n'
    with pytest.raises(HardnerError, match=rf"{CURVES}:1: not a CurvePoint: method is missing"):
        read_records(path, CurvePoint)
    path.write_text("no\n")
    with pytest.raises(HardnerError, match=rf"{CURVES}:1: not a line of JSON"):
        read_records(path, CurvePoint)


SCRIPTS = Path(__file__).parents[2] / "experiments" / "study"


def run(script: str, *words: str | Path) -> tuple[int, str]:
    command = [sys.executable, str(SCRIPTS / script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stdout
    return done.returncode, done.stderr


def test_the_commands(tmp_path: Path) -> None:
    files = []
    for name in ("multitask", "multitask-in-turn"):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(toml(merged(TINY, {"method": name})))
    out = tmp_path / "results"
    words = ("--corpora", "Disease,Gene", "--out", out, "--points", "2", "--iterations", "3")
    code, said = run("curves.py", *files, *words)
    assert code == 0
    assert "multitask-in-turn, Disease + Gene, NER: Disease NER 0." in said
    points = read_records(out / CURVES, CurvePoint)
    assert [(p.method, p.iteration, p.corpus) for p in points[:4]] == [
        ("multitask", 2, "Disease"),
        ("multitask", 2, "Gene"),
        ("multitask", 3, "Disease"),
        ("multitask", 3, "Gene"),
    ]
    figure = tmp_path / "x.svg"
    assert run("plot.py", "curves", out / CURVES, "--out", figure) == (0, f"{figure}\n")
    assert "multitask-in-turn" in figure.read_text()
    one = tmp_path / "one.toml"
    one.write_text(toml(TINY))
    words = (one, "--out", out, "--points", "1", "--iterations=1", "--pairs")
    assert run("curves.py", *words)[0] == 0
    found = json.loads((out / "task_relations.json").read_text())
    assert found["help"]["Disease"].keys() == set(TASKS.values())
    said = "curves.py: there are no pairs of tasks in a method with a single one\n"
    assert run("curves.py", files[0], "--pairs") == (1, said)
