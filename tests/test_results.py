"""The pages of figures say what the committed lines say."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from hardner.evaluate.results import gather

ROOT = Path(__file__).parents[1]


def script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("page", "made"), [("README.md", "summary"), ("docs/results.md", "page")])
def test_the_few_shot_tables_are_those_of_the_lines(page: str, made: str) -> None:
    maker = script("experiments/results_page.py")
    text = (ROOT / page).read_text("utf-8")
    lines = getattr(maker, made)(gather([ROOT / "results" / "few_shot.jsonl"]))
    assert maker.filled(text, lines) == text


def test_the_ablation_is_that_of_the_lines() -> None:
    maker = script("benchmarks/ablation_page.py")
    lines = (ROOT / "results" / "ablation.jsonl").read_text("utf-8").splitlines()
    made = "\n".join(maker.page([json.loads(line) for line in lines])) + "\n"
    assert (ROOT / "results" / "ablation.md").read_text("utf-8") == made


def test_every_sample_of_the_few_shot_table_is_written_down() -> None:
    results = gather([ROOT / "results" / "few_shot.jsonl"])
    held = json.loads((ROOT / "results" / "samples.json").read_text("utf-8"))
    for result in results:
        drawn = held[f"{result.corpus}/{result.shots}/{result.sample}"]
        assert len(set(drawn)) == result.shots
        assert all(name.startswith(f"{result.corpus}/train/") for name in drawn)
