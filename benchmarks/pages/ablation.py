"""results/ablation.md, from what benchmarks/recipe.py wrote."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lines

from hardner.config import with_new_names
from hardner.evaluate.protocols import MEAN
from hardner.evaluate.render import FEWER
from hardner.evaluate.results import load_results
from hardner.evaluate.table import build_tables

SHOTS = (5, 20, 50, 100)
FIELDS = {
    "steps": "steps",
    "rate": "rate",
    "layers": "layers",
    "decoder": "decoder",
    "start": "decoder's start",
    "scales": "rates times",
    "negatives": "background",
    "o_bias": "caution",
    "restarts": "fits",
}
"""What recipes differ in, beside what a row is named after, and how a column says it."""
BEFORE = "before that of `experiments/encoder`"
ENCODERS = {"transformer": "The transformer", "bilstm": "The BiLSTM"}


def page() -> Iterator[str]:
    """A table for each encoder and one of the left-out domains; a row a recipe, as it was tried."""
    yield from earlier()
    found = lines.of("results/ablation.jsonl")
    every = [line for line in found if "many" not in line]
    yield from many([line for line in found if "many" in line])
    unseen = [line for line in every if "left_out" not in line]
    for encoder, named in ENCODERS.items():
        yield f"\n{named}, 5 samples of each type:\n"
        yield from table([ln for ln in unseen if (ln["encoder"], ln["samples"]) == (encoder, 5)])
    left = [line for line in every if "left_out" in line]
    for own in dict.fromkeys(map(setting, left)):
        encoder, corpora, samples, folder = own
        yield f"\n{ENCODERS[encoder]}, trained without a domain and scored on devel sentences of"
        yield f"{', '.join(corpora)} (`benchmarks/left_out.py`); samples of each: {samples};"
        if encoder == "bilstm":
            yield "from word vectors of our own text.\n"
        else:
            yield f"from the encoder {f'in `{folder}`' if folder else BEFORE}.\n"
        yield from table([line for line in left if setting(line) == own])


def earlier() -> Iterator[str]:
    """The mean F1 over the eight corpora of recipes that were scored before today's."""
    results = load_results([lines.ROOT / "results" / "earlier" / "few_shot.jsonl"])
    (table,) = build_tables(results)
    yield "\nEarlier recipes on the test sets of the eight corpora, 20 samples of each:\n"
    yield "| row | " + " | ".join(f"{size} sentences" for size in table.sizes) + " |"
    yield "|---" * (1 + len(table.sizes)) + "|"
    for row in table.rows:
        cells = [table.cells[size, row, MEAN] for size in table.sizes]
        shown = [f"{c.mean:.3f}" + FEWER * table.falls_short(c) if c.mean else "-" for c in cells]
        yield f"| {table.label(row)} | " + " | ".join(shown) + " |"
    yield f"\n{FEWER} of fewer samples."


def many(some: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Fewer steps where sentences and types are many: a row a recipe, as it was tried."""
    yield "\nWhere sentences and types are many (`benchmarks/many_sentences.py`): mean devel F1 of"
    yield "types that the encoder has not learnt, from the same samples in each column, and CPU"
    yield "seconds of a fit and its folds:\n"
    cases = list(dict.fromkeys(line["many"] for line in some))
    yield "| tried | " + " | ".join(cases) + " |"
    yield "|---" * (1 + len(cases)) + "|"
    cells = {(line["change"], line["many"]): line for line in some}
    for change in dict.fromkeys(line["change"] for line in some):
        own = (cells.get((change, case)) for case in cases)
        shown = (f"**{ln['f1']:.3f}**, {ln['cpu_seconds']:.0f} s" if ln else "-" for ln in own)
        yield f"| {change} | " + " | ".join(shown) + " |"


def setting(line: Mapping[str, Any]) -> tuple[str, tuple[str, ...], int, str]:
    """What lines of one table share: encoder, corpora, samples, and where the encoder came from."""
    folder = line["start"].get("folder", "")
    return line["encoder"], tuple(line["left_out"]), line["samples"], folder


def table(some: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The recipes of some lines, from the lowest F1 at 20 sentences to the highest."""
    heads = [f"{k} sentences" for k in SHOTS]
    yield "| tried | start | " + " | ".join((*FIELDS.values(), *heads)) + " |"
    yield "|---" * (2 + len(FIELDS) + len(SHOTS)) + "|"
    rows: dict[str, dict[int, list[float]]] = {}
    for line in some:
        rows.setdefault(described(line), {})[line["shots"]] = line["mean"]
    for row, found in sorted(rows.items(), key=lambda item: f1_at_20(item[1])):
        yield f"| {row} | " + " | ".join(map(shown, map(found.get, SHOTS))) + " |"


def described(line: Mapping[str, Any]) -> str:
    """What was tried, the start and the recipe, as cells."""
    start, recipe = line["start"], with_new_names(line["recipe"])
    share = f" x {start['share']:g}" if start["share"] < 1 else ""
    how = "".join(f", {key} {value}" for key, value in start.get("how", {}).items())
    parts = [line["change"].removeprefix("start: "), f"{start['iterations']}{share}{how}"]
    for name in FIELDS:
        value = recipe.get(name, 1)  # older recipes were of one fit
        if name == "scales":
            value = ", ".join(f"{part} {float(f'{by:.2g}'):g}" for part, by in value.items())
        parts.append("" if value in (None, 0) and name != "o_bias" else f"{value}")
    return " | ".join(parts)


def f1_at_20(found: Mapping[int, list[float]]) -> float:
    return found[20][-1] if 20 in found else 1.0


def shown(mean: list[float] | None) -> str:
    if mean is None:
        return "-"
    precision, recall, f1 = mean
    return f"{precision:.3f} {recall:.3f} **{f1:.3f}**"
