"""The committed lines of docs/reliability.md: what was tried, and what came of it."""

import json
from collections.abc import Mapping
from pathlib import Path

from hardner.evaluate.results import code_commit

PATH = Path(__file__).parents[2] / "benchmarks" / "reliability.jsonl"


def record(test: str, found: Mapping[str, object]) -> None:
    """Append a line; `python benchmarks/pages` makes the page."""
    line = {"test": test, **found, "commit": code_commit()}
    with PATH.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
