"""results/ablation.md, from what benchmarks/recipe.py wrote."""

from collections.abc import Iterator, Mapping
from typing import Any

import lines

SHOTS = (5, 20, 50)
FIELDS = ("steps", "rate", "layers", "decoder", "start", "scales", "background", "caution")
"""What recipes differ in, beside what a row is named after."""
BETWEEN = {"start": "decoder's start", "scales": "rates times"}


def page() -> Iterator[str]:
    """A table for each set of samples; a row a recipe, as it was tried."""
    every = lines.of("results/ablation.jsonl")
    for samples in sorted({line["samples"] for line in every}):
        yield f"{samples} samples of each type:\n"
        heads = [f"{k} sentences" for k in SHOTS]
        between = (BETWEEN.get(name, name) for name in FIELDS)
        yield "| tried | start | " + " | ".join((*between, *heads)) + " |"
        yield "|---" * (2 + len(FIELDS) + len(SHOTS)) + "|"
        rows: dict[str, dict[int, list[float]]] = {}
        for line in (line for line in every if line["samples"] == samples):
            rows.setdefault(described(line), {})[line["shots"]] = line["mean"]
        for row, found in sorted(rows.items(), key=lambda item: f1_at_20(item[1])):
            yield f"| {row} | " + " | ".join(map(shown, map(found.get, SHOTS))) + " |"


def described(line: Mapping[str, Any]) -> str:
    """What was tried, the start and the recipe, as cells."""
    start, recipe = line["start"], line["recipe"]
    share = f" x {start['share']:g}" if start["share"] < 1 else ""
    parts = [line["change"].removeprefix("start: "), f"{start['iterations']}{share}"]
    for name in FIELDS:
        value = recipe[name]
        if name == "scales":
            value = ", ".join(f"{part} {by:.2g}" for part, by in value.items())
        parts.append("" if value in (None, 0) and name != "caution" else f"{value}")
    return " | ".join(parts)


def f1_at_20(found: Mapping[int, list[float]]) -> float:
    return found[20][-1] if 20 in found else 1.0


def shown(mean: list[float] | None) -> str:
    if mean is None:
        return "-"
    precision, recall, f1 = mean
    return f"{precision:.3f} {recall:.3f} **{f1:.3f}**"
