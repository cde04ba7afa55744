"""The scripts behind the tables: what they would run exists, goes on, and comes together."""

import importlib.util
import json
import lzma
import os
import shlex
import subprocess
import sys
import types
from itertools import pairwise
from pathlib import Path

import pytest
from evaluate.made import of_f1

from hardner.config import merged, parse_key
from hardner.corpora import load_corpus
from hardner.errors import HardnerError
from hardner.evaluate.errors import write_predictions
from hardner.evaluate.papers import paper_tables
from hardner.evaluate.protocols import SampleBook, protocol
from hardner.evaluate.results import ResultFile, read_configs, read_results, record_config
from hardner.evaluate.system import compared_recipe
from hardner.meta.experiment import Experiment, experiment_tables, load_experiment
from hardner.types import Sentence, Span
from hardner.vectors import load_vectors

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PARTS = (
    *("few-shot", "metabioner", "reproduction", "seeds", "hardness-search", "transformer", "full"),
    *("heterogeneous", "ratios", "homogeneous", "homogeneous-ratios", "ablations", "mtbioner"),
    *("granularity", "granularity-whole", "confounds", "relations", "hardness", "examples"),
    *("small", "corpora"),
)


def script(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(part: str, *options: str) -> list[str]:
    command = ["sh", str(EXPERIMENTS / "runs.sh"), part, "--list", *options]
    return subprocess.check_output(command, text=True).splitlines()


def calls(line: str) -> list[list[str]]:
    """The calls of `hardner` in a line."""
    parts = " ".join(shlex.quote(w) for w in shlex.split(line)).split(" '&&' ")
    return [words for part in parts if (words := shlex.split(part))[0] == "hardner"]


def values(words: list[str]) -> dict[str, str]:
    return {name[2:]: value for name, value in pairwise(words) if name.startswith("--")}


@pytest.mark.parametrize("part", PARTS)
def test_what_is_listed_can_be_run(part: str) -> None:
    """Names of experiments, keys, protocols and presets; folders that are one command's alone."""
    folders: list[str] = []
    lines = listed(part)
    assert lines
    for line in lines:
        trained: dict[str, str] = {}
        for words in calls(line):
            given = values(words)
            if words[1] == "train":
                over: dict[str, object] = {}
                for key, value in given.items():
                    if key != "out":
                        over = merged(over, parse_key(Experiment, key, value))
                made = load_experiment(words[2], over)
                trained[given["out"]] = made.encoder.kind
                folders.append(given["out"])
            elif words[1] == "evaluate":
                if words[2] not in trained:
                    assert words[2] in experiment_tables()
                    trained[words[2]] = load_experiment(words[2]).encoder.kind
                plan = protocol(given.get("protocol", "few-shot"))
                assert "corpora" not in given or given["corpora"] in (
                    *plan.targets,
                    *(f"genes-{name}" for name in script("genes").GENES),
                )
                if "preset" in given:
                    compared_recipe(given["preset"], trained[words[2]])
                folders.append(given["out"])
    assert len(set(folders)) == len(folders)


def test_the_parts_are_listed_in_the_head_and_named_by_the_tables() -> None:
    text = (EXPERIMENTS / "runs.sh").read_text()
    assert all(f"\n#   {part} " in text for part in PARTS if part != "transformer")
    assert {table.runs for table in paper_tables().values()} <= set(PARTS)
    assert subprocess.run(["sh", str(EXPERIMENTS / "runs.sh")], check=False).returncode == 2


def test_seeds_and_options_are_passed_on() -> None:
    made = dict(os.environ, SEEDS="3 4", TARGETS="gene", TRAIN="--train.iterations 7")
    command = ["sh", str(EXPERIMENTS / "runs.sh"), "metabioner", "--list", "--samples", "2"]
    lines = subprocess.check_output(command, text=True, env=made).splitlines()
    assert len(lines) == 2 * 4 * 5
    train, evaluate = calls(lines[1])
    assert values(train)["seed"] == "4"
    assert values(train)["train.iterations"] == "7"
    assert values(evaluate)["samples"] == "2"


def test_side_by_side_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    driver = script("side_by_side")
    slow = f"trap 'exit 130' INT; echo >> {tmp_path}/slow; test -e {tmp_path}/go || sleep 60 & wait"
    commands = [f"echo >> {tmp_path}/{i}" for i in range(3)] + [slow, f"echo >> {tmp_path}/0"]
    where = (tmp_path / "done.jsonl", tmp_path / "logs")
    assert driver.run(commands, 2, 0.02, *where) == 3
    assert all((tmp_path / f"{i}").read_text() == "\n" for i in range(3))
    (tmp_path / "go").touch()
    assert driver.run(commands, 2, 1.0, *where) == 0
    assert all((tmp_path / f"{i}").read_text() == "\n" for i in range(3))  # not a second time
    assert (tmp_path / "slow").read_text() == "\n\n"
    held = driver.sittings(where[0])
    assert held[slow].done
    assert held[slow].seconds > 1  # both sittings
    assert driver.run(["exit 5"], 1, 1.0, *where) == 1
    assert driver.run(["exit 5"], 1, 0.0, *where) == 3


def test_examples_show_what_rows_do_not_agree_on(tmp_path: Path) -> None:
    from examples import examples

    gold = (Span(0, 1, "Gene"), Span(2, 4, "Gene"))
    same = Sentence(("TGF", "acts"), (Span(0, 1, "Gene"),), "s0")
    apart = Sentence(("TGF", "and", "beta", "one"), gold, "s1")
    for method, found in (("NER", gold[:1]), ("Multi-granularity max", gold)):
        line = of_f1(5, protocol="shares", size=1.0, corpus="BC2GM", method=method)
        ResultFile(tmp_path / "shares.jsonl").append([line])
        folder = tmp_path / "predictions"
        write_predictions(folder, [line], [same, apart], [[same.spans, found]])
    gold_text = "gold: [TGF] Gene, [beta one] Gene"
    assert examples([tmp_path]) == {
        "shares": [
            {
                "corpus": "BC2GM",
                "row": "NER",
                "text": f"s1: [TGF] Gene; {gold_text}",
                "correct": "no",
            },
            {
                "corpus": "BC2GM",
                "row": "Multi-granularity max",
                "text": f"s1: [TGF] Gene, [beta one] Gene; {gold_text}",
                "correct": "yes",
            },
        ]
    }


def test_what_is_carried_is_what_was_packed(tmp_path: Path) -> None:
    carry, corpus = script("carry"), tmp_path / "corpora" / "NCBI-disease"
    corpus.mkdir(parents=True)
    for split in ("train", "devel", "test"):
        text = "Gout\tB-Disease\nhurts\tO\n\n"
        (corpus / f"{split}.tsv.xz").write_bytes(lzma.compress(text.encode()))
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("gout 1 0.5\nhurts 0.25 2\nelsewhere 3 3\n")
    carry.pack(tmp_path / "packed", tmp_path / "corpora", vectors)
    carry.unpack(tmp_path / "packed", tmp_path / "there")
    assert load_corpus("NCBI-disease", tmp_path / "there" / "corpora").test[0].tokens == (
        *("Gout", "hurts"),
    )
    found = load_vectors(tmp_path / "there" / "vectors.bin", ["Gout", "hurts", "elsewhere"])
    assert found.words == ("Gout", "hurts")
    assert found.matrix.tolist() == [[1.0, 0.5], [0.25, 2.0]]
    carry.MOST = 10
    with pytest.raises(HardnerError, match="bytes, more than 10"):
        carry.pack(tmp_path / "packed", tmp_path / "corpora")


def test_results_of_several_folders_come_together(tmp_path: Path) -> None:
    for i, folder in enumerate(("a", "b")):
        key = record_config(tmp_path / folder, {"experiment": {"n": i}})
        lines = [of_f1(5, sample=s, config=key, method=f"M{i}") for s in range(3)]
        ResultFile(tmp_path / folder / "few_shot.jsonl").append(lines)
        SampleBook(tmp_path / folder / "samples.json").add("NCBI-disease", 5, {i: [f"s{i}"]})
    into, module = tmp_path / "all", script("merge")
    assert module.merge([tmp_path / "a", tmp_path / "b"], into) == 6
    assert module.merge([tmp_path / "b"], into) == 0
    assert len(list(read_results(into / "few_shot.jsonl"))) == 6
    assert len(read_configs(into)) == 2
    held = json.loads((into / "samples.json").read_text())
    assert held == {"NCBI-disease/5/0": ["s0"], "NCBI-disease/5/1": ["s1"]}
    assert str(EXPERIMENTS) not in sys.path
