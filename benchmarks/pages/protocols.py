"""The tables of the protocols beside few-shot for docs/results.md, from what was run of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from hardner.evaluate.render import FEWER, RENDERERS, pipe_table, table_grids
from hardner.evaluate.results import load_results
from hardner.evaluate.table import ResultTable, TableRow, build_tables

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
    """A section for each protocol, be it that it was not run."""
    for protocol, title in SECTIONS.items():
        yield f"\n## {title}\n"
        if not (path := RESULTS / f"{protocol}.jsonl").exists():
            yield f"Not run; `experiments/runs.sh {protocol}` does."
        else:
            (table,) = build_tables(load_results([path]))
            if "JNLPBA" in table.run and "JNLPBA-5" in table.corpora:
                yield "These rows are of JNLPBA with one type. The paper has its five types"
                yield "(JNLPBA-5), whose column is empty until the rows are run again.\n"
            yield from _ratios(table) if protocol == "ratios" else _whole(table)
            yield from _claims(table, CLAIMS.get(protocol, {}))
            if protocol == "heterogeneous":
                yield from _ablations(table)


def _whole(table: ResultTable) -> Iterator[str]:
    """All rows but those that are run on a single corpus."""
    alone = ABLATIONS.keys() - {"MetaNER", "MetaNER, lambda 1.0", "DANN"}
    yield RENDERERS["md"](
        [replace(table, rows=tuple(r for r in table.rows if r.method not in alone))]
    )


def _ratios(table: ResultTable) -> Iterator[str]:
    """A row for each corpus and method, a column for each share; then where In-Domain is passed."""
    yield "| corpus | method | " + " | ".join(f"{size:.0%}" for size in table.sizes) + " |"
    yield "|---" * (len(table.sizes) + 2) + "|"
    for corpus in (corpus for corpus in table.corpora if corpus in table.run):
        for row in table.rows:
            cells = [table.cells[size, row, corpus] for size in table.sizes]
            shown = [
                "not run" if c.mean is None else f"{c.mean:.3f}"[1:] + FEWER * table.falls_short(c)
                for c in cells
            ]
            yield f"| {corpus} | {table.label(row)} | {' | '.join(shown)} |"
    yield f"\n{FEWER} of fewer samples than the {table.planned} that the protocol draws."
    if left := ", ".join(corpus for corpus in table.corpora if corpus not in table.run):
        yield f"\nNot run: {left}."
    *_, passing = table_grids(table)
    yield "\n" + pipe_table(passing)


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


def _claims(table: ResultTable, claims: dict[tuple[str, str], str]) -> Iterator[str]:
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


def _differences(table: ResultTable, one: TableRow, other: TableRow) -> list[float]:
    """On each corpus that both have been run on."""
    cells = [
        [table.cells[1.0, row, corpus].mean for row in (one, other)] for corpus in table.corpora
    ]
    return [a - b for a, b in cells if a is not None and b is not None]
