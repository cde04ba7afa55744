"""A table as it is shown: rows of methods, columns of corpora, published values below ours."""

from collections.abc import Iterator
from dataclasses import dataclass

from hardner.evaluate import published
from hardner.evaluate.protocols import Size
from hardner.evaluate.published import MEAN, Figure
from hardner.evaluate.table import BOUND, SIGNIFICANCE_LEVEL, ResultTable, TableCell, TableRow

NOT_RUN = "not run"
_METRIC_NAMES = {"f1": "F1", "precision": "precision", "recall": "recall"}


@dataclass(frozen=True)
class Grid:
    """A table as it is shown."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def grids(table: ResultTable) -> Iterator[Grid]:
    """A grid for each size, and where methods pass In-Domain."""
    columns = (*table.corpora, MEAN)
    for size in table.sizes:
        lines: list[tuple[str, ...]] = []
        for row in table.rows:
            cells = [table.cell(size, row, corpus) for corpus in columns]
            lines.append((table.label(row), *map(_shown, cells)))
            if any(cell.published for cell in cells):
                lines.append(("- published", *(_figure(cell.published) for cell in cells)))
                lines.append(("- difference", *(_signed(cell.difference) for cell in cells)))
        lines += _best(table, size)
        title = f"{table.protocol}: {_METRIC_NAMES[table.metric]}, {_size(size)}"
        yield Grid(title, ("method", *columns), tuple(lines), tuple(_notes(table, size)))
    if shares := tuple(_passing(table)):
        title = f"{table.protocol}: share of the data at which a method passes {BOUND} on all of it"
        notes = ("linear between two shares; - where it never does",)
        yield Grid(title, ("method", *table.corpora), shares, notes)


def _best(table: ResultTable, size: Size) -> Iterator[tuple[str, ...]]:
    """The published row with the highest mean, whether it is one of ours or not."""
    called = published.best_published(table.protocol, table.metric, size, table.corpora)
    if called:
        own = (table.protocol, table.metric, size)
        each = [published.published(*own, corpus, [called]) for corpus in table.corpora]
        whole = published.published_mean(*own, table.corpora, [called])
        yield (f"best published: {called}", *map(_figure, (*each, whole)))


def _passing(table: ResultTable) -> Iterator[tuple[str, ...]]:
    if len(table.sizes) < 2 or not any(row.method == BOUND for row in table.rows):
        return
    for row in table.rows:
        if row.method == BOUND:
            continue
        found = [table.passing(row, corpus) for corpus in table.corpora]
        yield (table.label(row), *map(_passed, found))
        called = published.published_names(table.protocol, row.method, row.encoder)
        theirs = [
            published.published("ratios", "passing share", "", corpus, called)
            for corpus in table.corpora
        ]
        if any(theirs):
            yield ("- published", *(f"{f.value:.0%}" if f else "" for f in theirs))


def _passed(share: float | None) -> str:
    if share is None:
        return NOT_RUN
    return f"{share:.0%}" if share <= 1 else "-"


def _notes(table: ResultTable, size: Size) -> Iterator[str]:
    counts = {len(c.values) for (s, _, _), c in table.cells.items() if s == size and c.values}
    if counts and max(counts) > 1:
        low, high = min(counts), max(counts)
        yield f"mean ± standard deviation of {low if low == high else f'{low} to {high}'} samples"
    if table.baseline:
        yield (
            f"* differs from {table.label(table.baseline)}: p < {SIGNIFICANCE_LEVEL:g} in a paired "
            f"permutation test, after Holm's correction for {table.tests()} tests"
        )
    sources: dict[str, dict[str, None]] = {}
    for (s, row, _), cell in table.cells.items():
        if s == size and cell.published:
            sources.setdefault(table.label(row), {})[_source(row, cell.published)] = None
    for label, found in sources.items():
        yield f"published {label}: {'; '.join(found)}"


def _source(row: TableRow, figure: Figure) -> str:
    same = figure.method.rstrip("*") == row.method
    return figure.source if same else f"{figure.source}, as {figure.method}"


def _size(size: Size) -> str:
    return f"{size} shots" if isinstance(size, int) else f"{size:.0%} of the data"


def _number(value: float) -> str:
    """Three digits, and no zero before the point."""
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _shown(cell: TableCell) -> str:
    if cell.mean is None:
        return NOT_RUN
    spread = "" if cell.deviation is None else f" ± {_number(cell.deviation)}"
    return _number(cell.mean) + spread + mark(cell)


def mark(cell: TableCell) -> str:
    """A star where a cell differs from the baseline's."""
    return "*" if cell.p is not None and cell.p < SIGNIFICANCE_LEVEL else ""


def _figure(figure: Figure | None) -> str:
    return "" if figure is None else _number(figure.value)


def _signed(value: float | None) -> str:
    if value is None:
        return ""
    return ("+" if value >= 0 else "") + _number(value)
