"""Tables as Markdown, CSV, LaTeX and plain text."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hardner.evaluate.protocols import (
    MEAN,
    PublishedValue,
    Size,
    best_published,
    published_names,
    published_row,
    published_value,
)
from hardner.evaluate.score import Metric
from hardner.evaluate.table import IN_DOMAIN, SIGNIFICANCE_LEVEL, ResultTable, TableCell

_NOT_RUN = "not run"
METRIC_NAMES: dict[Metric, str] = {"f1": "F1", "precision": "precision", "recall": "recall"}
FEWER = "†"
"""Behind a mean over fewer samples than the protocol draws."""


@dataclass(frozen=True)
class Grid:
    """A table as text in cells."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def table_grids(table: ResultTable, others: Sequence[str] | None = None) -> Iterator[Grid]:
    """A grid for each size, and one of the shares with which methods reach In-Domain.

    Below our rows stand the published rows of some names, by default the one that is best.
    """
    columns = (*table.corpora, MEAN)
    for size in table.sizes:
        lines: list[tuple[str, ...]] = []
        for row in table.rows:
            cells = [table.cells[size, row, corpus] for corpus in columns]
            lines.append((table.label(row), *(_mean_and_deviation(table, c) for c in cells)))
            if any(cell.published for cell in cells):
                lines.append(("- published", *map(_published, (c.published for c in cells))))
                lines.append(("- difference", *(_number(cell.difference, "+") for cell in cells)))
        own = (table.protocol, table.metric, size, table.corpora)
        best = best_published(*own)  # be it one of the rows or not
        shown = {best: "best published"} if best and others is None else {}
        for name, what in (shown | dict.fromkeys(others or (), "published")).items():
            values = published_row(*own, [name])
            if any(values):
                lines.append((f"{what}: {name}", *map(_published, values)))
        title = f"{table.protocol}: {METRIC_NAMES[table.metric]}, {size_name(size)}"
        yield Grid(title, ("method", *columns), tuple(lines), tuple(_notes(table, size)))
    if shares := tuple(_in_domain_shares(table)):
        what = f"share of the data at which a method passes {IN_DOMAIN} on all of it"
        notes = ("linear between two shares; - where it never does",)
        yield Grid(f"{table.protocol}: {what}", ("method", *table.corpora), shares, notes)


def shares_grid(table: ResultTable) -> Grid:
    """A line for each corpus and row, a column for each size."""
    lines = [
        (
            corpus,
            table.label(row),
            *(_mean(table, table.cells[s, row, corpus]) for s in table.sizes),
        )
        for corpus in table.corpora
        for row in table.rows
    ]
    few = any(table.falls_short(cell) for cell in table.cells.values())
    notes = (f"{FEWER} of fewer samples than the {table.planned} that the protocol draws",) * few
    head = (
        "corpus",
        "method",
        *(size_name(size).removesuffix(" of the data") for size in table.sizes),
    )
    title = f"{table.protocol}: {METRIC_NAMES[table.metric]}"
    return Grid(title, head, tuple(lines), notes)


def _mean(table: ResultTable, cell: TableCell) -> str:
    return _number(cell.mean) + FEWER * table.falls_short(cell) if cell.values else _NOT_RUN


def _in_domain_shares(table: ResultTable) -> Iterator[tuple[str, ...]]:
    others = [row for row in table.rows if row.method != IN_DOMAIN]
    if len(table.sizes) < 2 or len(others) == len(table.rows):
        return
    for row in others:
        found = [table.in_domain_share(row, corpus) for corpus in table.corpora]
        yield (table.label(row), *map(_share, found))
        names = published_names(table.protocol, row.method, row.encoder)
        place = ("ratios", "passing share", "")
        theirs = [published_value(*place, corpus, names) for corpus in table.corpora]
        if any(theirs):
            yield ("- published", *(f"{v.value:.0%}" if v else "" for v in theirs))


def _share(share: float | None) -> str:
    if share is None:
        return _NOT_RUN
    return f"{share:.0%}" if share <= 1 else "-"


def _notes(table: ResultTable, size: Size) -> Iterator[str]:
    own = [(row, c) for (s, row, _), c in table.cells.items() if s == size and row in table.rows]
    counts = {len(cell.values) for _, cell in own if cell.values}
    if counts and max(counts) > 1:
        low, high = min(counts), max(counts)
        yield f"mean ± standard deviation of {low if low == high else f'{low} to {high}'} samples"
    if any(table.falls_short(cell) for _, cell in own):
        yield f"{FEWER} of fewer samples than the {table.planned} that the protocol draws"
    if mixed := [table.label(row) for row in table.rows if row in table.mixed]:
        which = ", ".join(mixed) if len(mixed) < len(table.rows) else "each row"
        yield f"of more than one configuration (see configs.json): {which}"
    if table.baseline:
        tests = [cell.comparison for cell in table.cells.values() if cell.comparison]
        seeded = any(comparison.seeds > 1 for comparison in tests)
        how = "a bootstrap over samples and seeds" if seeded else "a paired permutation test"
        yield (
            f"* differs from {table.label(table.baseline)}: p < {SIGNIFICANCE_LEVEL:g} in {how}, "
            f"after Holm's correction for {len(tests)} tests"
        )
    sources: dict[str, dict[str, None]] = {}
    for row, cell in own:
        if cell.published:
            same = cell.published.method.rstrip("*") == row.method
            name = "" if same else f", as {cell.published.method}"
            sources.setdefault(table.label(row), {})[cell.published.source + name] = None
    for label, found in sources.items():
        yield f"published {label}: {'; '.join(found)}"


def size_name(size: Size) -> str:
    """A size as titles say it."""
    return f"{size} shots" if isinstance(size, int) else f"{size:.0%} of the data"


def _number(value: float | None, sign: Literal["", "+"] = "") -> str:
    """Three digits without the zero before the point, as the papers print scores."""
    if value is None:
        return ""
    text = f"{value:{sign}.3f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _mean_and_deviation(table: ResultTable, cell: TableCell) -> str:
    """With a star where the cell differs from the baseline's."""
    if cell.mean is None:
        return _NOT_RUN
    spread = "" if cell.deviation is None else f" ± {_number(cell.deviation)}"
    significant = cell.p_holm is not None and cell.p_holm < SIGNIFICANCE_LEVEL
    return _number(cell.mean) + spread + "*" * significant + FEWER * table.falls_short(cell)


def _published(theirs: PublishedValue | None) -> str:
    return _number(theirs.value if theirs else None)


def pipe_table(grid: Grid) -> str:
    """Markdown, under a bold title."""

    def line(cells: Sequence[str]) -> str:  # a bare star would begin emphasis
        return "| " + " | ".join(cell.replace("*", "\\*") for cell in cells) + " |"

    rule = "|" + "---|" * len(grid.head)
    notes = "\n".join("- " + note.replace("*", "\\*") for note in grid.notes)
    rows = "\n".join([line(grid.head), rule, *map(line, grid.lines)])
    return f"**{grid.title}**\n\n{rows}\n" + (f"\n{notes}\n" if notes else "")


def _text_table(grid: Grid) -> str:
    """Aligned columns for a terminal."""
    widths = [max(map(len, column)) for column in zip(grid.head, *grid.lines, strict=True)]
    lines = []
    for first, *rest in (grid.head, *grid.lines):
        right = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *right]).rstrip())
    return "\n".join([grid.title, *lines, *grid.notes]) + "\n"


_LATEX_ESCAPES = str.maketrans(
    {letter: "\\" + letter for letter in "&%#_$"}
    | {"\\": r"\textbackslash{}", "±": r"$\pm$", FEWER: r"$^{\dagger}$", "*": r"$^{*}$", "<": "$<$"}
)


def _latex_table(grid: Grid) -> str:
    """For the package booktabs, with notes below the table."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cell.translate(_LATEX_ESCAPES) for cell in cells) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{grid.title.translate(_LATEX_ESCAPES)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
            r"\toprule",
            line(grid.head),
            r"\midrule",
            *map(line, grid.lines),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {note.translate(_LATEX_ESCAPES)}" for note in grid.notes),
            r"\end{table}",
            "",
        ]
    )


_CSV_COLUMNS = (
    *("protocol", "metric", "size", "method", "encoder", "preset", "natural", "unlabelled"),
    *("corpus", "samples", "mean", "deviation", "published", "source", "difference"),
    *("baseline", "gain", "low", "high", "effect", "p", "p_holm"),
)


def as_csv(tables: Sequence[ResultTable]) -> str:
    """A line for each cell, with everything that is known of it; empty where it was not run."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for table in tables:
        for (size, row, corpus), cell in table.cells.items():
            line = {"protocol": table.protocol, "metric": table.metric, "size": size}
            line |= vars(row) | {"corpus": corpus, "samples": len(cell.values)}
            numbers = {"mean": cell.mean, "deviation": cell.deviation, "p_holm": cell.p_holm}
            if cell.published:
                line["source"] = cell.published.source
                numbers |= {"published": cell.published.value, "difference": cell.difference}
            if (found := cell.comparison) and table.baseline:
                line["baseline"] = table.label(table.baseline)
                numbers |= {"gain": found.difference, "low": found.low, "high": found.high}
                numbers |= {"effect": found.effect, "p": found.p}
            line |= {name: f"{value:.6g}" for name, value in numbers.items() if value is not None}
            writer.writerow(line)
    return file.getvalue()


def _each_grid(show: Callable[[Grid], str]) -> Callable[[Sequence[ResultTable]], str]:
    return lambda tables: "\n".join(show(grid) for table in tables for grid in table_grids(table))


GRID_RENDERERS: dict[str, Callable[[Grid], str]] = {
    "text": _text_table,
    "md": pipe_table,
    "latex": _latex_table,
}
RENDERERS: dict[str, Callable[[Sequence[ResultTable]], str]] = {
    "csv": as_csv,
    **{name: _each_grid(show) for name, show in GRID_RENDERERS.items()},
}
