"""The commands: evaluate, table, plot and errors, as a user calls them."""

import json
import shutil
import signal
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import tiny
from evaluate.made import of_f1
from evaluate.test_protocol import trained
from formats.command import Command

from hardner.adapt.recipe import RECIPES, SelfTraining
from hardner.cli.evaluate import _KEPT
from hardner.evaluate import training
from hardner.evaluate.results import ResultFile
from hardner.meta.run import run_experiment
from hardner.model.describe import save_model


@pytest.fixture
def call(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capfd, monkeypatch)


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Two steps of adaptation, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for rules in RECIPES.values():
        for encoder, rule in list(rules.items()):
            taught = SelfTraining(steps=3, batch=2)
            monkeypatch.setitem(
                rules, encoder, replace(rule, steps=2, passes=0, self_training=taught)
            )


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "mine", *trained())
    return tmp_path / "mine"


WHERE = ("--root", tiny.ROOT, "--corpora", "Gene")
EXPERIMENT = f"""
method = "hgda"
device = "cpu"
data = {{ root = "{tiny.ROOT}", layout = "folders" }}
encoder = {{ dimension = 8, hidden = 8, filters = 4, recurrent = 0, letters = 4 }}
train = {{ iterations = 2, tasks = 2, shots = 3 }}
devel = {{ every = 2, episodes = 2 }}
"""


def test_evaluate_then_table_then_errors(call, model):
    code, out, err = call("evaluate", model, *WHERE, "--shots", "3,5", "--samples", 2)
    assert (code, out) == (0, "")
    assert (
        err.splitlines()[-1] == "results/few_shot.jsonl; next: hardner table results/few_shot.jsonl"
    )
    assert err.count("mine, Gene, 3 shots: F1 0.") == 2
    before = Path("results/few_shot.jsonl").read_text()
    assert call("evaluate", model, *WHERE, "--shots", "3,5", "--samples", 2)[0] == 0
    assert Path("results/few_shot.jsonl").read_text() == before
    code, out, err = call("table", "results/few_shot.jsonl", "--format", "md")
    assert (code, err) == (0, "")
    assert out.startswith("**few_shot: F1, 3 shots**\n\n| method | Gene | mean |\n")


def test_text_without_labels_is_a_row_of_its_own(call, model):
    few = (*WHERE, "--shots", "3", "--samples", 1)
    assert call("evaluate", model, *few)[0] == 0
    code, _, err = call("evaluate", model, *few, "--unlabelled", 5)
    assert code == 0, err
    found = [json.loads(line) for line in Path("results/few_shot.jsonl").read_text().splitlines()]
    assert [line["unlabelled"] for line in found] == [0, 5]
    assert found[0]["config"] != found[1]["config"]
    configs = json.loads(Path("results/configs.json").read_text())
    assert ["self_training" in configs[line["config"]]["adaptation"] for line in found] == [
        False,
        True,
    ]
    code, out, err = call("table", "results/few_shot.jsonl", "--baseline", "mine")
    assert code == 0, err
    rows = [line.split("  ")[0] for line in out.splitlines()[2:4]]
    assert rows == ["mine", "mine + 5 unlabelled"]
    code, _, err = call("evaluate", model, *few, "--unlabelled", 5, "--name", "D-Shift")
    assert (code, err.count("\n")) == (1, 1)


def test_predictions_can_be_looked_at(call, model):
    arguments = ("--shots", "3", "--samples", 1, "--predictions", "--out", "here")
    assert call("evaluate", model, *WHERE, *arguments)[0] == 0
    (file,) = Path("here/predictions").iterdir()
    code, out, err = call("errors", file, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    (line,) = map(json.loads, Path("here/few_shot.jsonl").read_text().splitlines())
    assert found["counts"]["missed"] == line["kinds"]["missed"]
    assert found["counts"]["tp"] == line["tp"]
    code, out, _ = call(
        "errors", model, "--corpus", "Gene", "--root", tiny.ROOT, "--shots", 3, "--json"
    )
    assert json.loads(out) == found
    code, out, _ = call("errors", file, "-n", 2)
    assert code == 0
    assert out.startswith("precision 0.")
    assert "kind" in out.splitlines()[1]


def test_a_model_as_it_is(call, model):
    code, out, err = call("errors", model, "--corpus", "Drug", "--root", tiny.ROOT, "--partial")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()[1:5]] == [
        "strict",
        "exact",
        "partial",
        "type",
    ]


def test_errors_of_a_file_of_ones_own_that_a_catalogue_names(call, model, tmp_path):
    (tmp_path / "data" / "Mine").mkdir(parents=True)
    shutil.copy(tiny.ROOT / "Drug" / "test.tsv", tmp_path / "data" / "Mine")
    row = '[Mine]\ndomain = "Drug"\ntrain = { path = "test.tsv" }\ntest = { path = "test.tsv" }\n'
    (tmp_path / "data" / "catalogue.toml").write_text(row)
    mine = call("errors", model, "--corpus", "Mine", "--root", "data")
    known = call("errors", model, "--corpus", "Drug", "--root", tiny.ROOT)
    assert (mine[0], mine[1].splitlines()[0]) == (0, known[1].splitlines()[0])


def test_all_metrics_in_one_go(call, tmp_path):
    ResultFile(tmp_path / "few_shot.jsonl").append([of_f1(3)])
    code, out, _ = call("table", "few_shot.jsonl", "--metric", "all")
    titles = [line for line in out.splitlines() if line.startswith("few_shot: ")]
    assert (code, [title.split()[1] for title in titles]) == (0, ["F1,", "precision,", "recall,"])


def test_an_experiment_is_trained_when_needed(call, tmp_path):
    (tmp_path / "hgda.toml").write_text(EXPERIMENT)
    arguments = ("evaluate", "hgda.toml", "--corpora", "Gene,Drug", "--shots", "3", "--samples", 1)
    code, _, err = call(*arguments)
    assert code == 0
    assert "HGDA, Gene, 3 shots: F1 " in err
    runs = tmp_path / "results" / "runs" / "few_shot-hgda"
    assert {path.name for path in runs.iterdir()} == {"Gene", "Drug"}
    made = json.loads((runs / "Gene" / "experiment.json").read_text())
    assert made["data"]["corpora"] == ["Disease", "Drug", "Species"]
    code, _, err = call(
        "evaluate", runs / "Gene", "--shots", "3", "--samples", 1, "--corpora", "Gene"
    )
    assert code == 0
    assert len((tmp_path / "results" / "few_shot.jsonl").read_text().splitlines()) == 3


ROWS = "".join(
    f"""[{name}]
domain = "{domain}"
train = {{ path = "train.tsv" }}
devel = {{ path = "devel.tsv" }}
test = {{ path = "test.tsv" }}
"""
    for name, domain in (("Devices", "Device"), ("Implants", "Implant"))
)


def own_corpora(root: Path) -> None:
    """Two small corpora outside the package."""
    words = {"train": ("stent", "pump"), "devel": ("valve",), "test": ("stent", "valve")}
    for name, label in (("Devices", "Device"), ("Implants", "Implant")):
        (root / name).mkdir(parents=True)
        for split, found in words.items():
            lines = [f"The\tO\nold\tO\n{word}\tB-{label}\n.\tO\n\n" for word in found]
            (root / name / f"{split}.tsv").write_text("".join(lines * 4))


@pytest.mark.parametrize("beside", [True, False], ids=["beside the data", "by --catalogue"])
def test_a_corpus_of_ones_own_is_a_row_outside_the_package(call, tmp_path, beside):
    own_corpora(tmp_path / "data")
    Path("data/catalogue.toml" if beside else "mine.toml").write_text(ROWS)
    where = () if beside else ("--catalogue", "mine.toml")
    code, out, err = call("corpora", "--root", "data", "--json", *where)
    assert (code, err) == (0, "")
    found = {row["name"]: row["splits"]["train"]["mentions"] for row in json.loads(out)}
    assert found == {"Devices": 8, "Implants": 8}
    data = ("--data.root", "data", "--data.corpora", "Devices,Implants", "--target", "Device")
    small = [f"--encoder.{key}=4" for key in ("dimension", "hidden", "filters", "letters")]
    few = ("--train.iterations=3", "--train.shots=2", "--devel.every=3", "--devel.episodes=2")
    code, _, err = call("train", "multitask/gene", *data, *small, *few, "--device=cpu", *where)
    assert code == 0, err
    assert "runs/multitask-gene/model: 3 of 3 iterations" in err
    few = ("--corpora", "Devices,Implants", "--shots", 2, "--samples", 1)
    code, _, err = call("evaluate", "runs/multitask-gene", *few)
    assert code == 0, err
    (line,) = map(json.loads, Path("results/few_shot.jsonl").read_text().splitlines())
    assert (line["corpus"], line["target_domain"]) == ("Devices", "Device")
    code, _, err = call("errors", "runs/multitask-gene", "--corpus", "Implants", "--json")
    assert (code, err) == (0, "")


def test_named_experiments_say_what_they_miss(call, tmp_path):
    own_corpora(tmp_path / "data")
    Path("mine.toml").write_text(ROWS)
    where = ("--root", "data", "--catalogue", "mine.toml", "--corpora", "Devices")
    code, _, err = call("evaluate", "types-hgda/gene", *where, "--shots", 2, "--samples", 1)
    assert (code, err) == (1, "hardner: data/BC2GM/train.tsv.xz: no such file or folder\n")
    data = ("--data.root", "data", "--data.corpora", "Devices", "--catalogue", "mine.toml")
    code, _, err = call("train", "multigranularity/bc2gm", *data)
    said = (
        "experiments/encoder: no such folder of a pre-trained transformer; --encoder.folder names"
    )
    assert (code, err) == (1, f"hardner: {said} another\n")


def test_ctrl_c_stops_a_training_where_it_can_go_on(call, tmp_path, monkeypatch):
    (tmp_path / "hgda.toml").write_text(EXPERIMENT.replace("iterations = 2", "iterations = 6"))
    arguments = ("evaluate", "hgda.toml", "--corpora", "Gene", "--shots", "3", "--samples", 1)

    def interrupted(experiment, folder, on_progress, stop):
        done = count(1)

        def asked():  # after each iteration
            if next(done) == 2:
                signal.raise_signal(signal.SIGINT)
            return stop()

        return run_experiment(experiment, folder, on_progress, asked)

    with monkeypatch.context() as patch:
        patch.setattr(training, "run_experiment", interrupted)
        assert call(*arguments) == (130, "", f"{_KEPT}\n")
    assert call(*arguments)[0] == 0
    log = tmp_path / "results" / "runs" / "few_shot-hgda" / "Gene" / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["iteration"] for line in lines if "iteration" in line] == list(range(6))


def test_an_experiment_starts_from_word_vectors(call, tmp_path):
    (tmp_path / "hgda.toml").write_text(EXPERIMENT)
    words = tiny.vocabulary()
    rows = [" ".join([word, *["0.5"] * 8]) for word in words]
    (tmp_path / "words.txt").write_text("\n".join([f"{len(words)} 8", *rows]) + "\n")
    few = ("--corpora", "Gene", "--shots", "3", "--samples", 1, "--vectors", "words.txt")
    code, _, err = call("evaluate", "hgda.toml", *few)
    assert code == 0, err
    (config,) = json.loads(Path("results/configs.json").read_text()).values()
    assert config["experiment"]["encoder"]["vectors"] == "words.txt"
    code, _, err = call("evaluate", "hgda.toml", *few[:-1], "nowhere.txt", "--out", "other")
    assert (code, err) == (1, "hardner: nowhere.txt: no such file\n")


def test_a_run_is_tested_on_what_it_left_out(call, tmp_path):
    (tmp_path / "hgda.toml").write_text(EXPERIMENT)
    assert call("train", "hgda.toml", "--target", "Gene", "--out", "run")[0] == 0
    few = ("--shots", "3", "--samples", 1)
    code, _, err = call("evaluate", "run", "--corpora", "Gene,Drug", *few)
    assert code == 0
    assert "Drug" not in err
    code, _, err = call("evaluate", "run", "--corpora", "Drug", *few)
    assert (code, err) == (1, "hardner: run left Gene out, and none of Drug is of it\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("evaluate", "hgda/diseases"),
            "no experiment has that name; the nearest are hgda/disease",
        ),
        (("evaluate", "."), ".: not a hardner model: no config.json in it"),
        (("evaluate", "mine", "--protocol", "x"), "no protocol 'x'; there are few_shot, "),
        (("evaluate", "mine", "--preset", "x", "--corpora", "Gene"), "no adaptation preset 'x'"),
        (("evaluate", "mine", "--device", "tpu"), "unknown device 'tpu'; it is auto, cpu or cuda"),
        (
            ("evaluate", "mine", "mine/config.json"),
            "mine/config.json: evaluate runs the papers' protocols on known corpora; to score a "
            "file of your own: hardner score mine mine/config.json",
        ),
        (("evaluate", "nowhere.toml"), "nowhere.toml: no such file or folder"),
        (("table", "nowhere"), "nowhere: no such file or folder"),
        (("plot", "shots", "nowhere"), "nowhere: no such file or folder"),
        (("errors", "nowhere"), "nowhere: no such file or folder"),
        (("errors", "mine"), "give one model and its --corpus, or files of predictions alone"),
    ],
)
def test_errors_are_one_line(call, model, arguments, said):
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert said in err


@pytest.mark.parametrize("shots", ["0.0", "1.5", "5,x", "-1", ""])
def test_bad_sizes_are_refused(call, model, shots):
    code, _, err = call("evaluate", model, "--shots", shots)
    assert (code, err.count("\n")) == (2, 1)


def test_plot(call, tmp_path):
    results = [
        of_f1(3 + i, method=m, size=k) for i, m in enumerate(("MAML", "HGDA")) for k in (5, 10)
    ]
    ResultFile(tmp_path / "few_shot.jsonl").append(results)
    code, out, err = call("plot", "shots", "few_shot.jsonl", "--out", "shots")
    assert (code, out, err) == (0, "", "shots.svg\nshots.png\n")
    assert (tmp_path / "shots.png").stat().st_size > 1000


def test_empty_results_say_so(call, tmp_path):
    (tmp_path / "few_shot.jsonl").write_text("")
    assert call("table", "few_shot.jsonl") == (1, "", "hardner: no results in few_shot.jsonl\n")
