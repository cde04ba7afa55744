"""What the papers say of the methods of their other protocols, for docs/results.md."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from hardner.evaluate.results import load_results
from hardner.evaluate.table import ResultTable, TableRow, build_tables

RESULTS = Path(__file__).parents[2] / "results"
SECTIONS = {
    "multitask_4": "MT-BioNER",
    "shares": "Multi-granularity",
    "full": "MetaBioNER, Table 5",
    "homogeneous": "MetaNER, Table 2, on genes",
    "heterogeneous": "MetaNER, Table 3",
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
        ("MetaNER, lambda 1.0", "FineTuning"): "MetaNER is above FineTuning",
        ("MetaNER, lambda 1.0", "In-Domain"): "MetaNER is above In-Domain",
    },
}
"""What the papers say of a method and another, by protocol."""
ABLATED = "BioNLP13PC"
"""The corpus that parts of MetaNER were taken away on, or replaced."""
ABLATIONS = {
    "MetaNER, lambda 1.0": "all of it",
    "MetaNER w/o critic": "no adversarial strategy",
    "DANN": "no meta-learning",
    "MetaNER, theta new only": "all outer losses at theta new",
    "MetaNER by MAML": "the encoder by MAML as well",
    "MetaNER w/o letters": "no letters",
    **{f"MetaNER, lambda 0.{tenth}": f"lambda 0.{tenth}" for tenth in (2, 4, 6)},
    "MetaNER": "lambda 0.8, the paper's",
}
"""What is different in each row that is run there."""


def page() -> Iterator[str]:
    """What the papers say of the methods of each protocol, as far as both were run."""
    yield "\n## What the other papers say of their methods\n"
    yield "The mean difference in F1 that was found on all of the data; of one training each, and"
    yield "so without a test. The tables themselves are among [the papers' tables](tables.md).\n"
    yield "| | | difference | above on |"
    yield "|---|---|---|---|"
    for protocol, title in SECTIONS.items():
        if (path := RESULTS / f"{protocol}.jsonl").exists():
            (table,) = build_tables(load_results([path]))
            yield from _claims(table, CLAIMS.get(protocol, {}), title)
    yield "\nMT-BioNER's rows are of JNLPBA with one type, where the paper has five, until they are"
    yield "run again.\n"
    (table,) = build_tables(load_results([RESULTS / "heterogeneous.jsonl"]))
    yield from _ablations(table)


def _ablations(table: ResultTable) -> Iterator[str]:
    """What each part brings, and how much the weight of the critic matters."""
    yield f"MetaNER, Figure 8, on {ABLATED}: the mean of the samples.\n"
    yield "| | F1 | less than all of it |"
    yield "|---|---|---|"
    means = {row.method: table.cells[1.0, row, ABLATED].mean for row in table.rows}
    whole = means["MetaNER, lambda 1.0"]
    for name, difference in ABLATIONS.items():
        mean = means.get(name)
        if mean is None or whole is None:
            yield f"| {difference} | not run | |"
        else:
            less = "" if name == "MetaNER, lambda 1.0" else f"{whole - mean:+.3f}"
            yield f"| {difference} | {mean:.3f} | {less} |"
    yield ""


def _claims(table: ResultTable, claims: dict[tuple[str, str], str], title: str) -> Iterator[str]:
    """The mean difference of each pair on all of the data."""
    rows = {row.method: row for row in table.rows}
    held = {pair: claim for pair, claim in claims.items() if set(pair) <= rows.keys()}
    for (one, other), claim in held.items():
        apart = _differences(table, rows[one], rows[other])
        above = sum(value > 0 for value in apart)
        yield f"| {title} | {claim} | {fmean(apart):+.3f} | {above} of {len(apart)} corpora |"


def _differences(table: ResultTable, one: TableRow, other: TableRow) -> list[float]:
    """On each corpus that both have been run on."""
    cells = [
        [table.cells[1.0, row, corpus].mean for row in (one, other)] for corpus in table.corpora
    ]
    return [a - b for a, b in cells if a is not None and b is not None]
