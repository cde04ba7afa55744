"""Lines that benchmarks and evaluations have written."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def of(name: str) -> list[dict[str, Any]]:
    """All lines of a file under the root."""
    return [json.loads(line) for line in (ROOT / name).read_text("utf-8").splitlines()]


def latest(benchmark: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """By case, device and peer; of what was measured twice, the last counts."""
    return {
        (line["case"], line["device"], line["peer_name"]): line
        for line in of("benchmarks/results.jsonl")
        if line["benchmark"] == benchmark
    }
