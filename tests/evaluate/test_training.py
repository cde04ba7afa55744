"""Plans that train: a made corpus of six domains with the same labels, each left out in turn."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from hardner.errors import HardnerError
from hardner.evaluate.execute import EvaluationFolders, execute
from hardner.evaluate.protocols import PROTOCOLS
from hardner.evaluate.results import read_results
from hardner.evaluate.system import system_of_folder
from hardner.evaluate.table import build_tables
from hardner.evaluate.training import system_of_experiment, write_folders
from hardner.meta.experiment import Experiment, experiment
from hardner.types import Sentence, Span

DOMAINS = ("BC", "BN", "CTS", "NW", "UN", "WL")
NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn")
PLACES = ("Oslo", "Rome", "Lima", "Cairo", "Delhi", "Tokyo")
SAYS = ("lives in", "was seen near", "flew to", "left", "dreams of", "wrote from")


def sentence(domain: int, number: int, split: str) -> Sentence:
    """Everyone is a person and everywhere a place; how it is told depends on the domain."""
    who, where = NAMES[number % 6], PLACES[(number + domain) % 6]
    words = [who, *SAYS[domain].split(), where, "."]
    spans = (Span(0, 1, "Person"), Span(len(words) - 2, len(words) - 1, "Place"))
    return Sentence(tuple(words), spans, f"{DOMAINS[domain]}/{split}/{number + 1}")


@pytest.fixture(scope="module")
def six(tmp_path_factory):
    root = tmp_path_factory.mktemp("six")
    for i, name in enumerate(DOMAINS):
        splits = {split: [sentence(i, n, split) for n in range(12)] for split in ("train", "devel")}
        write_folders(root, {name: (splits["train"], splits["devel"])})
        (root / name / "test.tsv").write_bytes((root / name / "devel.tsv").read_bytes())
    return root


def settings(root: Path, method: str = "multitask", iterations: int = 3) -> Experiment:
    """A small network, trained for a moment."""
    small = {"dimension": 8, "hidden": 8, "filters": 4, "recurrent": 0, "letters": 4}
    return experiment(
        {
            "method": method,
            "device": "cpu",
            "data": {"root": str(root), "layout": "folders"},
            "encoder": small | {"train_words": True},
            "train": {"iterations": iterations, "tasks": 2, "shots": 4, "rate": 0.3},
            "devel": {"every": iterations, "episodes": 2},
        }
    )


PLAN = replace(PROTOCOLS["homogeneous"], targets=DOMAINS, sources=DOMAINS, samples=1)


def run(plan, made, root, out, name):
    system = system_of_experiment(made, plan, out / "runs" / name.replace("/", ""), name)
    quick = replace(system.adaptation, steps=2, passes=0)
    return list(execute(plan, replace(system, adaptation=quick), EvaluationFolders(root, out)))


def test_six_domains_leave_one_out(six, tmp_path):
    names = ["In-Domain", "D-Shift", "AGG", "FineTuning", "MultiTask", "MetaNER-Zero", "MetaNER"]
    plan = replace(PLAN, targets=DOMAINS[:2])
    for name in names:
        method = "metaner" if name.startswith("MetaNER") else "multitask"
        run(plan, settings(six, method, 2), six, tmp_path, name)
    (table,) = build_tables(read_results(tmp_path / "homogeneous.jsonl"))
    assert [row.method for row in table.rows] == names
    assert table.corpora == ("BC", "BN")
    configs = json.loads((tmp_path / "configs.json").read_text())
    trained = {c["train"] for c in configs.values()}
    assert trained == {"target", "sources", "sources and target"}


def test_a_target_is_not_among_its_sources(six, tmp_path):
    run(replace(PLAN, targets=DOMAINS), settings(six), six, tmp_path, "D-Shift")
    for name in DOMAINS:
        made = json.loads((tmp_path / "runs" / "D-Shift" / name / "experiment.json").read_text())
        assert made["target"] == name
        assert set(made["data"]["corpora"]) == set(DOMAINS) - {name}
        assert made["decoder"]["per"] == "all"


def test_training_on_the_target_uses_what_is_drawn(six, tmp_path):
    plan = replace(
        PROTOCOLS["homogeneous_ratios"], targets=("BC",), sources=DOMAINS, sizes=(0.5,), samples=2
    )
    run(plan, settings(six), six, tmp_path, "In-Domain")
    (one, two) = read_results(tmp_path / "homogeneous_ratios.jsonl")
    assert (one.shots, two.shots, one.share) == (6, 6, 0.5)
    texts = [
        (tmp_path / "runs" / "In-Domain" / f"BC-0.5-{sample}-data" / "BC" / "train.tsv").read_text()
        for sample in range(2)
    ]
    assert [text.count("\n\n") for text in texts] == [6, 6]
    assert texts[0] != texts[1]


def test_samples_of_a_whole_corpus_differ_by_their_seed(six, tmp_path):
    plan = replace(PLAN, targets=("BC",), samples=2)
    run(plan, settings(six), six, tmp_path, "In-Domain")
    folders = [tmp_path / "runs" / "In-Domain" / f"BC-1.0-{sample}" for sample in range(2)]
    seeds = [json.loads((folder / "experiment.json").read_text())["seed"] for folder in folders]
    assert seeds == [0, 1]
    weights = [(folder / "model" / "weights.safetensors").read_bytes() for folder in folders]
    assert weights[0] != weights[1]


def test_training_that_works_is_seen_in_the_scores(six, tmp_path):
    """In-Domain learns; the same network after a single iteration does not."""
    plan = replace(PLAN, targets=("BC",))
    run(plan, settings(six, iterations=120), six, tmp_path / "long", "In-Domain")
    run(plan, settings(six, iterations=1), six, tmp_path / "short", "In-Domain")
    (long,), (short,) = (
        read_results(tmp_path / n / "homogeneous.jsonl") for n in ("long", "short")
    )
    assert long.score.f1 > 0.9
    assert short.score.f1 < 0.5
    assert set(long.labels) == {"Person", "Place"}
    assert sum(counts[0] for counts in long.labels.values()) == long.tp


def test_one_model_for_all_targets(six, tmp_path):
    plan = replace(PROTOCOLS["multitask_3"], targets=("BC", "BN", "CTS"))
    done = run(plan, settings(six), six, tmp_path, "")
    assert [d.corpus for d in done] == ["BC", "BN", "CTS"]
    runs = [p.name for p in (tmp_path / "runs").iterdir() if not p.name.endswith("-data")]
    assert runs == ["BC-BN-CTS-1.0-0"]
    assert {r.method for r in read_results(tmp_path / "multitask_3.jsonl")} == {"MultiTask"}
    both = (tmp_path / "runs" / "BC-BN-CTS-1.0-0-data" / "BN" / "train.tsv").read_text()
    assert both.count("\n\n") == 24  # train and devel


def test_sources_that_are_named_are_trained_on_once(six, tmp_path):
    plan = replace(
        PROTOCOLS["heterogeneous"],
        targets=("BC", "BN"),
        sources=("NW", "UN", "Missing"),
        optional=("Missing",),
        samples=1,
    )
    run(plan, settings(six), six, tmp_path, "FineTuning")
    assert [p.name for p in (tmp_path / "runs" / "FineTuning").iterdir()] == ["sources"]


def test_an_untrained_encoder_can_be_adapted(six, tmp_path):
    plan = replace(PLAN, targets=("BC",))
    run(plan, settings(six), six, tmp_path, "encoder alone")
    assert not (tmp_path / "runs").exists()
    assert len(list(read_results(tmp_path / "homogeneous.jsonl"))) == 1


def test_a_stopped_training_interrupts(six, tmp_path):
    plan = replace(PLAN, targets=("BC",))
    made = system_of_experiment(
        settings(six), plan, tmp_path / "runs", "D-Shift", watch=lambda: nullcontext(lambda: True)
    )
    with pytest.raises(KeyboardInterrupt):
        list(execute(plan, made, EvaluationFolders(six, tmp_path)))


def test_names_that_are_no_folders_are_refused(tmp_path):
    with pytest.raises(HardnerError, match="'a/b' cannot be the name of a folder"):
        write_folders(tmp_path, {"a/b": (tiny.sentences("Gene"), ())})


def test_a_row_has_one_configuration_whatever_was_left_out(six, tmp_path):
    """A run by itself, and a model trained for the protocol, are the same row of a table."""
    plan = replace(PLAN, targets=("BC", "BN"))
    made = settings(six)
    run(plan, made, six, tmp_path, "FineTuning")
    whole = system_of_experiment(made, plan, tmp_path / "runs" / "FineTuning", "FineTuning")
    for name in plan.targets:
        alone = system_of_folder(tmp_path / "runs" / "FineTuning" / name, plan, "FineTuning")
        assert alone.config == whole.config
        assert (alone.target, alone.method, alone.preset) == (name, "FineTuning", "paper")
    (config,) = json.loads((tmp_path / "configs.json").read_text()).values()
    assert config["experiment"]["data"]["corpora"] == []
