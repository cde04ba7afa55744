"""What the papers say of pairs of methods, tested on the samples that both have been run on."""

from collections.abc import Iterator
from statistics import fmean

from hardner.evaluate.protocols import Size
from hardner.evaluate.significance import Comparison, holm
from hardner.evaluate.table import (
    SIGNIFICANCE_LEVEL,
    ResultTable,
    TableRow,
    by_seed,
    compare_samples,
)

K5 = {name: f"{name}, trained with 5 by paper" for name in ("HGDA", "MetaNER")}
"""Rows by the paper's values whose training tasks have 5 sentences at every size."""
CLAIMS = {
    "bilstm": {
        ("HGDA", "MetaNER"): "HGDA is above MetaNER",
        ("HGDA", "MAML"): "hardness helps: HGDA is above MAML",
        ("HGDA", "MetaNER w/o critic"): "HGDA is above MetaNER without its critic",
        ("HGDA-NEs", "HGDA"): "HGDA-NEs is near HGDA",
        ("MetaNER w/o critic", "MetaNER"): "MetaNER is no worse without its critic",
        ("HGDA + NEs", "HGDA"): "HGDA and its counterpart together are above HGDA",
        ("HGDA", "FineTuning"): "meta-training is above fine-tuning",
        ("HGDA by paper", "MetaNER by paper"): "HGDA is above MetaNER by the papers' values",
        (K5["HGDA"], K5["MetaNER"]): "the same, trained with 5 for all",
        ("HGDA", K5["HGDA"]): "HGDA by this project's values is above it by the paper's",
    },
    "transformer": {
        ("HGDA", "encoder alone"): "HGDA is above plain fine-tuning",
        ("HGDA-NEs", "HGDA"): "HGDA-NEs is near HGDA",
    },
}
"""Of a row (`name`) and another, by encoder."""


def ours(preset: str) -> bool:
    """Whether a row is by a preset of this project: what the papers' own values come to is shown,
    but not every method has been run by them."""
    return preset.startswith("best")


def name(row: TableRow) -> str:
    """The method, and whether it is by the papers' values."""
    own = {"metaner, adapted by paper": "paper"}.get(row.preset, row.preset)
    return row.method if ours(row.preset) else f"{row.method} by {own}"


def of(table: ResultTable, whole: int, encoder: str, called: str) -> Iterator[str]:
    """The mean difference of each pair over the corpora that both have in full, and its p."""
    claims = CLAIMS[encoder]
    yield f"What the papers say of the {called}'s rows, tested: the mean difference in F1 over the"
    yield "corpora that both have been run on, and in brackets how many these are; * where p < 0.05"
    yield "in a paired permutation test over the samples, or with several trainings of each in a"
    yield "bootstrap over samples and seeds, after Holm's correction for them all.\n"
    yield "| | " + " | ".join(f"{k} sentences" for k in table.sizes) + " |"
    yield "|---" * (1 + len(table.sizes)) + "|"
    rows = {name(row): row for row in table.rows if row.encoder == encoder}
    found: dict[tuple[str, Size], tuple[Comparison, int]] = {}
    for (one, other), claim in claims.items():
        for k in table.sizes if {one, other} <= rows.keys() else ():
            if compared := _compared(table, k, (rows[one], rows[other]), whole):
                found[claim, k] = compared
    fair = dict(zip(found, holm([made.p for made, _ in found.values()]), strict=True))
    for claim in claims.values():
        cells = []
        for place in ((claim, k) for k in table.sizes):
            if place in found:
                made, corpora = found[place]
                mark = "*" if fair[place] < SIGNIFICANCE_LEVEL else ""
                cells.append(f"{made.difference:+.3f}{mark} ({corpora})")
            else:
                cells.append("not run")
        yield f"| {claim} | " + " | ".join(cells) + " |"
    yield ""


def _compared(
    table: ResultTable, size: Size, pair: tuple[TableRow, TableRow], whole: int
) -> tuple[Comparison, int] | None:
    """Two rows on the corpora that both have all samples of, and how many these are."""
    each = [[table.cells[size, row, corpus].values for row in pair] for corpus in table.corpora]
    full = [
        cells
        for cells in each
        if all(v and {len(own) for own in by_seed(v).values()} == {whole} for v in cells)
    ]
    if not full:
        return None
    shared = [set.intersection(*(set(cells[i]) for cells in full)) for i in (0, 1)]
    one, other = (
        {key: fmean(cells[i][key] for cells in full) for key in shared[i]} for i in (0, 1)
    )
    found = compare_samples(one, other)
    return (found, len(full)) if found else None
