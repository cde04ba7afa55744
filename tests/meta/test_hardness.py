"""Hardness from a run: the papers' tables of tasks, and the weight of each domain over time."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
from formats.command import Command

from hardner.errors import HardnerError
from hardner.evaluate.plots import plot_hardness, write_figure
from hardner.meta.experiment import experiment
from hardner.meta.hardness import Hardness, HardnessCurve, bracketed, hardest_tasks
from hardner.meta.log import read_log
from hardner.meta.run import run_experiment
from hardner.types import Sentence, Span


def trained(folder: Path, **values: Any) -> Path:
    table = {
        "target": "Drug",
        "device": "cpu",
        "data": {"root": str(tiny.ROOT), "layout": "folders"},
        "encoder": {"dimension": 8, "hidden": 6, "letters": 4, "filters": 4, "recurrent": 4},
        "inner": {"weight": 0.5},
        "train": {"iterations": 5, "tasks": 6, "shots": 3},
        "devel": {"every": 0},
    }
    run_experiment(experiment(table, values), folder)
    return folder


@pytest.fixture(scope="module")
def hgda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "hgda")


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "300")
    return Command(capfd, monkeypatch)


def test_the_weights_are_those_of_equation_2(hgda: Path) -> None:
    found = Hardness.of(hgda)
    assert found.used
    for entry, weights in zip(read_log(hgda / "log.jsonl"), found.weights, strict=True):
        pairs = zip(entry.losses["tag"], entry.losses["domain"], strict=True)
        losses = [tag + 0.5 * domain for tag, domain in pairs]
        assert weights == pytest.approx([loss / sum(losses) for loss in losses], rel=1e-5)


def test_tasks_are_drawn_again_and_ranked(hgda: Path) -> None:
    found = Hardness.of(hgda)
    ranks = hardest_tasks(hgda, found, [4, 0])
    assert list(ranks) == [4, 0]
    for iteration, tasks in ranks.items():
        weights = [task.weight for task in tasks]
        assert weights == sorted(found.weights[iteration], reverse=True)
        logged = zip(found.domains[iteration], found.weights[iteration], strict=True)
        assert sorted((task.domain, task.weight) for task in tasks) == sorted(logged)
        for task in tasks:
            assert len(set(task.sentences)) == 3
            assert set(task.sentences) <= set(found_in(task.domain))


def found_in(domain: str) -> list[Sentence]:
    """With the ids that a run gives them."""
    from hardner.meta.source_data import load_source_data

    data = {"root": str(tiny.ROOT), "layout": "folders"}
    return list(load_source_data(experiment({"data": data})).train.sentences[domain])


def test_what_was_drawn_is_what_was_learnt_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentences shown are those whose tags the run's own batches held."""
    from hardner.batch import Batch, Store

    seen: list[Batch] = []
    batch = Store.batch

    def watched(self: Store, *arguments: Any) -> Batch:
        seen.append(batch(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(Store, "batch", watched)
    folder = trained(tmp_path / "run")
    queries = seen[1::2]  # one support and one query an iteration
    for iteration, tasks in hardest_tasks(folder, Hardness.of(folder), range(5)).items():
        shown = sorted(tuple(len(s) for s in task.sentences) for task in tasks)
        assert shown == sorted(map(tuple, queries[iteration].lengths.tolist()))


def test_runs_that_weighed_all_alike_are_ranked_by_their_loss(tmp_path: Path) -> None:
    found = Hardness.of(trained(tmp_path / "run", method="multitask"))
    assert not found.used
    for entry, weights in zip(read_log(tmp_path / "run" / "log.jsonl"), found.weights, strict=True):
        total = sum(entry.losses["tag"])
        assert weights == pytest.approx([loss / total for loss in entry.losses["tag"]])
        assert entry.weights["encoder"] == pytest.approx([1 / 6] * 6)


def test_curves_are_means_over_stretches() -> None:
    weights = tuple((0.25, 0.75) if i < 50 else (0.5, 0.5) for i in range(100))
    domains = tuple(("Gene", "Drug") if i % 2 else ("Gene", "Gene") for i in range(100))
    drug, gene = Hardness(experiment({}), True, weights, domains).curves()
    assert (drug.domain, gene.domain) == ("Drug", "Gene")
    assert gene.iterations[:2] == (0.5, 3.0)  # of iterations 0 and 1, then 2 to 4
    assert gene.weights[0] == pytest.approx((0.25 + 0.75 + 0.25) / 3)
    assert drug.weights[0] == 0.75
    assert gene.weights[-1] == drug.weights[-1] == 0.5


def test_mentions_stand_in_brackets() -> None:
    words = ("PAF", "(", "platelet", "factor", ")", "and", "FMLP", ".")
    spans = (Span(0, 1, "Gene"), Span(2, 4, "Gene"), Span(6, 7, "Gene"))
    assert bracketed(Sentence(words, spans)) == "[PAF] ( [platelet factor] ) and [FMLP] ."


def test_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    curves = [
        HardnessCurve("Gene", (0.0, 9.0), (0.2, 0.3)),
        HardnessCurve("Drug", (0.0, 9.0), (0.1, 0.1)),
    ]

    def plot(name: str) -> list[Path]:
        return write_figure(lambda: plot_hardness(curves, 8), tmp_path / name)

    assert [path.name for path in plot("a")] == ["a.svg", "a.png"]
    plot("b.svg")
    text = (tmp_path / "a.svg").read_text()
    assert all(word in text for word in ("Gene", "Drug", "iteration", "mean weight of a task"))
    assert text == (tmp_path / "b.svg").read_text()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(HardnerError, match=r"a figure is an \.svg or a \.png file"):
        plot("d.gif")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HardnerError, match=r"run: pip install 'hardner\[plot\]'"):
        plot("e.svg")


def test_the_command(hgda: Path, tmp_path: Path, call: Command) -> None:
    figure = tmp_path / "x.svg"
    code, out, err = call("hardness", hgda, "--iterations", "0,4", "-n", "2", "--plot", figure)
    assert (code, err) == (0, f"{figure}: the weight of each domain over 5 iterations\n")
    assert figure.exists()
    hardest, *others = hardest_tasks(hgda, Hardness.of(hgda), [4])[4]
    assert f"4          {hardest.weight:.3f}   {hardest.domain}" in out
    assert bracketed(hardest.sentences[0]) in out
    assert out.count("…") == 2
    code, out, _ = call("hardness", hgda, "--json")
    told = json.loads(out)
    assert [task["iteration"] for task in told["tasks"]] == [0] * 6 + [2] * 6 + [4] * 6
    assert sum(task["weight"] for task in told["tasks"]) == pytest.approx(3, rel=1e-5)
    assert told["tasks"][12] == {
        "iteration": 4,
        "domain": hardest.domain,
        "weight": hardest.weight,
        "sentences": [bracketed(s) for s in hardest.sentences],
    }
    assert set(told["domains"]) == {"Disease", "Gene", "Species"}
    assert others


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--iterations", "5"], 1, "iteration 5 is not in the log, which has 0 to 4"),
        (["--iterations", "1,x"], 2, "is not a list such as"),
        (["-n", "0"], 2, "-n"),
    ],
)
def test_wrong_calls(arguments: list[str], code: int, said: str, hgda: Path, call: Command) -> None:
    found = call("hardness", hgda, *arguments)
    assert found[:2] == (code, "")
    assert said in found[2]
    assert found[2].count("\n") == 1


def test_wrong_folders(hgda: Path, tmp_path: Path, call: Command) -> None:
    code, _, err = call("hardness", tmp_path)
    assert (code, err) == (1, f"hardner: {tmp_path}: no run: there is no experiment.json in it\n")
    shutil.copytree(hgda, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text("")
    with pytest.raises(HardnerError, match="no iteration is logged yet"):
        Hardness.of(tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text('{"iteration": 0}\n{}\n')
    with pytest.raises(HardnerError, match=r"log.jsonl:1: not a line of a run's log"):
        Hardness.of(tmp_path / "run")


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"iteration": ' + "9" * 5_000 + "}",
        '["iteration"]',
        *({"losses": []}, {"losses": {}}, {"losses": {"tag": [1.0]}}, {"losses": {"tag": 5}}),
        *({"weights": {"encoder": ["1"] * 6}}, {"domains": 6}, {"domains": [1] * 6}),
        *({"iteration": 1.0}, {"more": 1}),
    ],
)
def test_a_damaged_log_is_one_line(line: str | dict[str, Any], hgda: Path, tmp_path: Path) -> None:
    shutil.copytree(hgda, tmp_path / "run")
    log = tmp_path / "run" / "log.jsonl"
    first, *rest = log.read_text().splitlines()
    changed = line if isinstance(line, str) else json.dumps(json.loads(first) | line)
    log.write_text("\n".join([changed, *rest]))
    with pytest.raises(HardnerError) as error:
        Hardness.of(tmp_path / "run")
    assert str(error.value) == f"{log}:1: not a line of a run's log"


def test_a_log_of_another_run_is_refused(hgda: Path, tmp_path: Path) -> None:
    shutil.copytree(hgda, tmp_path / "run")
    log = tmp_path / "run" / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(HardnerError, match="is not the whole log of this experiment"):
        Hardness.of(tmp_path / "run")


def test_other_sentences_are_refused(tmp_path: Path) -> None:
    shutil.copytree(tiny.ROOT, tmp_path / "root")
    data = {"root": str(tmp_path / "root"), "layout": "folders"}
    folder = trained(tmp_path / "run", data=data)
    path = tmp_path / "root" / "Gene" / "train.tsv"
    path.write_text("Nothing\tO\n\n" + path.read_text())
    with pytest.raises(HardnerError, match="its corpora have changed"):
        hardest_tasks(folder, Hardness.of(folder), [0])
