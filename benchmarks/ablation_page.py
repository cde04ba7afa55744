"""results/ablation.md, from results/ablation.jsonl: run it after benchmarks/recipe.py.

python benchmarks/ablation_page.py
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
SHOTS = (5, 20, 50)
FIELDS = ("steps", "rate", "layers", "decoder", "start", "scales", "background", "caution")
"""What recipes differ in, beside what a row is named after."""
BETWEEN = {"start": "decoder's start", "scales": "rates times"}
OPENING = """# What pays in adaptation

Made by `python benchmarks/ablation_page.py` from `ablation.jsonl`, which `benchmarks/recipe.py`
writes. A model of diseases, drugs, genes and species (13 corpora, every type of a corpus a domain)
is fitted to a few sentences of each of six types that it has not seen (cells, their parts, what
they do) and scored on devel sentences of them: precision, recall and F1, the mean over the types
and {samples} samples of each, the same for all rows. None of the eight benchmark corpora's own
types takes part. *Start* is how long the pre-trained encoder was trained on the sources, and what
share of the way from one to the other the start lies. Rows go from the lowest F1 at 20 sentences
to the highest. A dash: not run.
"""


def main() -> None:
    lines = [json.loads(line) for line in (RESULTS / "ablation.jsonl").read_text().splitlines()]
    RESULTS.joinpath("ablation.md").write_text("\n".join(page(lines)) + "\n", encoding="utf-8")


def page(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A table for each set of samples; a row a recipe, as it was tried."""
    for samples in sorted({line["samples"] for line in lines}):
        yield OPENING.format(samples=samples)
        heads = [f"{k} sentences" for k in SHOTS]
        between = (BETWEEN.get(name, name) for name in FIELDS)
        yield "| tried | start | " + " | ".join((*between, *heads)) + " |"
        yield "|---" * (2 + len(FIELDS) + len(SHOTS)) + "|"
        rows: dict[str, dict[int, list[float]]] = {}
        for line in (line for line in lines if line["samples"] == samples):
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


if __name__ == "__main__":
    main()
