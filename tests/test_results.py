"""The pages of figures say what the committed lines say."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from hardner.evaluate.results import load_results

ROOT = Path(__file__).parents[1]


def checked(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks" / "pages"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_pages_are_those_of_the_lines() -> None:
    done = checked(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_figure_is_found(tmp_path: Path) -> None:
    for folder in ("benchmarks", "docs", "results"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    text = (ROOT / "README.md").read_text("utf-8")
    found = text.index("| hardner | 0.")
    (tmp_path / "README.md").write_text(
        f"{text[:found]}| hardner | 1.{text[found + 14 :]}", "utf-8"
    )
    done = checked(tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("not what the lines say: README.md;")


def test_every_sample_of_the_few_shot_table_is_written_down() -> None:
    results = load_results([ROOT / "results" / "few_shot.jsonl"])
    held = json.loads((ROOT / "results" / "samples.json").read_text("utf-8"))
    for result in results:
        drawn = held[f"{result.corpus}/{result.shots}/{result.sample}"]
        assert len(set(drawn)) == result.shots
        assert all(name.startswith(f"{result.corpus}/train/") for name in drawn)
