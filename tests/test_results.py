"""The pages of figures say what the committed lines say."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from hardner.evaluate.results import gather

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/results.md",
    "docs/tagging.md",
    "docs/calibration.md",
    "docs/scale.md",
    "results/ablation.md",
)


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    """What `python benchmarks/pages` runs, up to where it would write."""
    before = set(sys.modules)
    sys.path.insert(0, str(ROOT / "benchmarks" / "pages"))
    try:
        return runpy.run_path(str(ROOT / "benchmarks" / "pages" / "__main__.py"))
    finally:
        sys.path.pop(0)
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", "").startswith(str(ROOT / "benchmarks")):
                del sys.modules[name]


def test_all_pages_are_made(maker: dict[str, Any]) -> None:
    assert tuple(maker["PAGES"]) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_that_of_the_lines(maker: dict[str, Any], page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert maker["START"] in text
    assert maker["filled"](text, maker["PAGES"][page]()) == text


def test_every_sample_of_the_few_shot_table_is_written_down() -> None:
    results = gather([ROOT / "results" / "few_shot.jsonl"])
    held = json.loads((ROOT / "results" / "samples.json").read_text("utf-8"))
    for result in results:
        drawn = held[f"{result.corpus}/{result.shots}/{result.sample}"]
        assert len(set(drawn)) == result.shots
        assert all(name.startswith(f"{result.corpus}/train/") for name in drawn)
