"""The tables of the protocols beside few-shot for docs/results.md, from what was run of them."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from hardner.evaluate.render import markdown
from hardner.evaluate.results import gather
from hardner.evaluate.table import Row, Table, build

RESULTS = Path(__file__).parents[2] / "results"
SECTIONS = {
    "multitask_3": "MT-BioNER, Table 2: three corpora at once",
    "multitask_4": "MT-BioNER, Tables 2 and 3: four corpora at once",
    "shares": "Multi-granularity, Tables 2 to 4",
    "full": "MetaBioNER, Table 5: all of a target's training data",
    "homogeneous": "MetaNER, Table 2, with corpora of genes in place of ACE2005",
    "heterogeneous": "MetaNER, Table 3: other types from other text",
    "ratios": "MetaNER, Figures 6 and 7: shares of the target's data",
}
CLAIMS = {
    "multitask_4": {
        ("MT-BioNER", "MT-BioNER, algorithm II"): "algorithm I is above II",
        ("MT-BioNER, frozen", "MT-BioNER"): "a frozen encoder is far below a tuned one",
    },
    "shares": {
        ("Multi-granularity max", "Multi-granularity CLS"): "max pooling is above CLS",
        ("Multi-granularity max", "NER"): "the tasks beside NER help it",
        ("Multi-granularity max", "Multi-granularity max w/o joint"): "joint training helps",
    },
    "full": {("MetaNER", "MultiTask"): "MetaNER is near MultiTask"},
    "homogeneous": {
        ("D-Shift", "FineTuning"): "D-Shift is below FineTuning",
        ("MetaNER", "FineTuning"): "MetaNER is above FineTuning",
    },
    "heterogeneous": {
        ("MetaNER", "FineTuning"): "MetaNER is above FineTuning",
        ("MetaNER", "In-Domain"): "MetaNER is above In-Domain",
    },
}
"""What the papers say of a method and another, by protocol."""


def page() -> Iterator[str]:
    """A section for each protocol, be it that it was not run."""
    for protocol, title in SECTIONS.items():
        yield f"\n## {title}\n"
        if not (path := RESULTS / f"{protocol}.jsonl").exists():
            yield f"Not run; `experiments/runs.sh {protocol}` does."
        else:
            (table,) = build(gather([path]))
            yield markdown([table])
            yield from _claims(table, CLAIMS.get(protocol, {}))


def _claims(table: Table, claims: dict[tuple[str, str], str]) -> Iterator[str]:
    """The mean difference of each pair on all of the data; of one run each, so without a test."""
    rows = {row.method: row for row in table.rows}
    held = {pair: claim for pair, claim in claims.items() if set(pair) <= rows.keys()}
    if not held:
        return
    yield "What the paper says, and the mean difference in F1 found on all of the data:\n"
    yield "| | difference | above on |"
    yield "|---|---|---|"
    for (one, other), claim in held.items():
        apart = _differences(table, rows[one], rows[other])
        above = sum(value > 0 for value in apart)
        yield f"| {claim} | {fmean(apart):+.3f} | {above} of {len(apart)} corpora |"
    yield ""


def _differences(table: Table, one: Row, other: Row) -> list[float]:
    """On each corpus that both have been run on."""
    cells = [
        [table.cell(1.0, row, corpus).mean for row in (one, other)] for corpus in table.corpora
    ]
    return [a - b for a, b in cells if a is not None and b is not None]
