"""Figures of docs/scale.md, from what benchmarks/scale.py wrote."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import lines

WORKERS = (1, 8, 64)
ARTICLES, SENTENCES = 37_000_000, 10
PRICES = {"cpu, 1 core": 0.05, "GPU": 3.0}
"""Of an hour, in dollars: assumed, not measured."""
TARGETS, SIZES, SAMPLES = 8, 5, 20
NOT_YET = "not measured yet"
STEPS = ("reading MEDLINE", "model", "writing jsonl")
CORE, GPU = PRICES
_HEADS = tuple(f"{n} worker{'s' * (n > 1)}" for n in WORKERS)

Line = Mapping[str, object]
Figures = Mapping[tuple[str, str], float]
"""By case and device; a name of a case stands for its end."""


def page() -> Iterator[str]:
    own = list(lines.latest("scale").values())
    figures = {(str(line["case"]), str(line["device"])): float(str(line["ours"])) for line in own}
    yield from (*measured(own), *pubmed(figures), *table(figures))


def measured(own: Sequence[Line]) -> Iterator[str]:
    yield "### Measured\n"
    if not own:
        yield f"{NOT_YET.capitalize()}.\n"
        return
    yield "| case | device | measured | against | times better | commit |"
    yield "|---|---|---|---|---|---|"
    for line in own:
        against, ratio = "", ""
        if line["peer"] is not None:
            against = f"{line['peer']:,.4g} ({line['peer_name']})"
            ratio = f"{line['ratio']:.2f}"
        value = f"{line['ours']:,.4g} {line['unit']}"
        cells = (line["case"], line["device"], value, against, ratio, str(line["commit"])[:12])
        yield "| " + " | ".join(map(str, cells)) + " |"
    yield ""


def pubmed(figures: Figures) -> Iterator[str]:
    yield "### All of PubMed\n"
    yield (
        f"{ARTICLES:,} articles, each assumed to have {SENTENCES} sentences. A worker "
        "reads, tags and writes in turn, so an article takes it the sum of the three, and W "
        "workers a W-th of the whole. Articles are read twice, once to be counted. Of a GPU "
        "worker, reading and writing are its core's.\n"
    )
    columns = ("a worker is", "reading", "model", "writing", "an article", "first bottleneck")
    yield "| " + " | ".join((*columns, *_HEADS, "cost")) + " |"
    yield "|---" * (7 + len(WORKERS)) + "|"
    for device, price in PRICES.items():
        yield _pubmed_row(figures, device, price)
    yield (
        f"\nCosts assume {PRICES[CORE]:.2f} dollars an hour of a core and {PRICES[GPU]:.2f} of a "
        "GPU, whoever sells it. That 64 workers do not wait for each other or for the disk is "
        f"assumed, too: {NOT_YET} are more than two.\n"
    )


def _pubmed_row(figures: Figures, device: str, price: float) -> str:
    name = "a core" if device == CORE else "a core and a GPU"
    keys = [(STEPS[0], CORE), (STEPS[1], device), (STEPS[2], CORE)]
    rates = [figures.get(key) for key in keys]
    times = (2, SENTENCES, 1)
    each = [None if rate is None else n / rate for rate, n in zip(rates, times, strict=True)]
    shown = [NOT_YET if value is None else f"{value * 1000:.3g} ms" for value in each]
    known = [value for value in each if value is not None]
    if len(known) < len(each):
        return f"| {name} | " + " | ".join((*shown, *[NOT_YET] * (3 + len(WORKERS)))) + " |"
    total = sum(known)
    slowest = STEPS[known.index(max(known))].partition(" ")[0]
    hours = [ARTICLES * total / 3600 / n for n in WORKERS]
    cost = f"{hours[0] * price:,.0f} dollars"
    cells = (*shown, f"{total * 1000:.3g} ms", slowest, *map(_time, hours), cost)
    return f"| {name} | " + " | ".join(cells) + " |"


def table(figures: Figures) -> Iterator[str]:
    cells = TARGETS * SIZES
    yield "### The few-shot table\n"
    yield (
        f"A method's row is {TARGETS} corpora x {SIZES} sizes = {cells} cells, each of {SAMPLES} "
        f"samples. A worker takes a cell at a time: W workers take ceil({cells} / W) cells' time, "
        f"so that one method keeps {cells} workers busy at most; several methods keep more.\n"
    )
    found = {
        device: value
        for (case, device), value in figures.items()
        if case == "a sample of the few-shot table"
    }
    yield "| " + " | ".join(("measured", "a sample", *_HEADS, "first bottleneck")) + " |"
    yield "|---" * (3 + len(WORKERS)) + "|"
    if not found:
        yield "| " + " | ".join([NOT_YET] * (2 + len(WORKERS))) + " | fitting the model |"
    for device, seconds in found.items():
        hours = [ceil(cells / n) * SAMPLES * seconds / 3600 for n in WORKERS]
        times = " | ".join(map(_time, hours))
        yield f"| {device} | {seconds:.3g} s | {times} | fitting the model |"


def _time(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"
