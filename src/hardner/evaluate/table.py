"""From results to a table: means beside the published values, and which differences are real."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean, stdev

from hardner.errors import HardnerError
from hardner.evaluate import published
from hardner.evaluate.protocols import PROTOCOLS, Size, passing_share
from hardner.evaluate.published import MEAN, Figure
from hardner.evaluate.results import Result
from hardner.evaluate.score import Metric
from hardner.evaluate.significance import Comparison, compare, holm
from hardner.meta.methods import BASELINES

SIGNIFICANCE_LEVEL = 0.05
BOUND = "In-Domain"
"""The method whose score on all data other methods may pass with less."""


@dataclass(frozen=True, order=True)
class TableRow:
    """A method as it was trained and adapted."""

    method: str
    encoder: str
    preset: str
    natural: bool = False
    """Whether its samples were drawn regardless of entities."""
    unlabelled: int = 0
    """Sentences that it learnt from without their labels, beside each sample."""

    @classmethod
    def of(cls, result: Result) -> "TableRow":
        """Of a result; what is a share is drawn so anyway, and a line may say false for 0."""
        natural, unlabelled = result.natural and result.share is None, int(result.unlabelled)
        return cls(result.method, result.encoder, result.preset, natural, unlabelled)


@dataclass(frozen=True)
class TableCell:
    """A row on a corpus."""

    values: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """By seed and sample; none where it was not run."""
    published: Figure | None = None
    versus: Comparison | None = None
    """Less the baseline, over the samples that both have."""
    p: float | None = None
    """Of that comparison, corrected for all of the table's."""

    @property
    def mean(self) -> float | None:
        """Over the samples."""
        return fmean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Of the samples, if there are several."""
        return stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """From the published value."""
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published.value


@dataclass(frozen=True)
class ResultTable:
    """All rows on all corpora at all sizes, of one protocol."""

    protocol: str
    metric: Metric
    corpora: tuple[str, ...]
    sizes: tuple[Size, ...]
    rows: tuple[TableRow, ...]
    cells: Mapping[tuple[Size, TableRow, str], TableCell]
    """By size, row and corpus, the mean of all corpora included."""
    baseline: TableRow | None = None

    @property
    def run(self) -> frozenset[str]:
        """The corpora that something was run on, and the mean if something was on all."""
        return frozenset(corpus for (_, _, corpus), cell in self.cells.items() if cell.values)

    def cell(self, size: Size, row: TableRow, corpus: str) -> TableCell:
        """What is there."""
        return self.cells[size, row, corpus]

    def label(self, row: TableRow) -> str:
        """The row's method, with whatever else tells it from other rows."""
        more = [
            getattr(row, name)
            for name in ("encoder", "preset")
            if len({getattr(other, name) for other in self.rows}) > 1
        ]
        more += ["natural"] if row.natural else []
        name = f"{row.method} + {row.unlabelled:,} unlabelled" if row.unlabelled else row.method
        return f"{name} ({', '.join(more)})" if more else name

    def tests(self) -> int:
        """How many comparisons there are."""
        return sum(cell.p is not None for cell in self.cells.values())

    def passing(self, row: TableRow, corpus: str) -> float | None:
        """The share of the data at which a row passes In-Domain on all of it; infinite if none is.

        None where that is not known, since not all of it was run.
        """
        bounds = [r for r in self.rows if (r.method, r.encoder) == (BOUND, row.encoder)]
        full = [self.cell(1.0, bound, corpus).mean for bound in bounds if 1.0 in self.sizes]
        if not full or full[0] is None:
            return None
        curve = {float(s): m for s in self.sizes if (m := self.cell(s, row, corpus).mean)}
        share = passing_share(curve, full[0])
        return inf if share is None and 1.0 in curve else share


def build_tables(
    results: Iterable[Result], metric: Metric = "f1", baseline: str = ""
) -> list[ResultTable]:
    """A table for each protocol that there are results of.

    Args:
        results: In any order.
        metric: What to show of each.
        baseline: The row, by its label or method, that others are compared with.
    """
    protocols: dict[str, list[Result]] = {}
    for result in results:
        protocols.setdefault(result.protocol, []).append(result)
    return [_compared(_table(n, found, metric), baseline) for n, found in protocols.items()]


def of_rows(results: Sequence[Result], names: Sequence[str]) -> list[Result]:
    """The results of some rows, each named by its label or method; all if none is named."""
    if not names:
        return list(results)
    found: set[tuple[str, TableRow]] = set()
    tables = build_tables(results)
    for name in names:
        own = {(t.protocol, r) for t in tables for r in t.rows if name in (t.label(r), r.method)}
        if not own:
            known = ", ".join(dict.fromkeys(t.label(r) for t in tables for r in t.rows))
            raise HardnerError(f"no row {name!r}; there are {known}")
        found |= own
    return [r for r in results if (r.protocol, TableRow.of(r)) in found]


def _table(protocol: str, results: Sequence[Result], metric: Metric) -> ResultTable:
    corpora, sizes = _columns(protocol, results)
    rows = tuple(sorted({TableRow.of(r): None for r in results}, key=_rank))
    values = _values(results, metric)
    cells: dict[tuple[Size, TableRow, str], TableCell] = {}
    for size in sizes:
        for row in rows:
            called = (
                ()
                if row.unlabelled
                else published.published_names(protocol, row.method, row.encoder)
            )
            each = [values.get((size, row, corpus), {}) for corpus in corpora]
            for corpus, found in zip(corpora, each, strict=True):
                figure = published.published(protocol, metric, size, corpus, called)
                cells[size, row, corpus] = TableCell(found, figure)
            whole = published.published_mean(protocol, metric, size, corpora, called)
            cells[size, row, MEAN] = TableCell(_mean(each), whole)
    return ResultTable(protocol, metric, corpora, sizes, rows, cells)


def _columns(protocol: str, results: Sequence[Result]) -> tuple[tuple[str, ...], tuple[Size, ...]]:
    """The protocol's corpora and sizes if any of them were run, then whatever else was."""
    plan = PROTOCOLS.get(protocol)
    corpora = sorted({r.corpus for r in results})
    sizes = sorted({r.size for r in results})
    planned = plan.targets if plan and not set(plan.targets).isdisjoint(corpora) else ()
    return (*planned, *(c for c in corpora if c not in planned)), tuple(sizes)


def _rank(row: TableRow) -> tuple[str, str, int, TableRow]:
    """Rows of one encoder and preset together, in the papers' order of methods."""
    order = list(BASELINES)
    place = order.index(row.method) if row.method in order else len(order)
    return row.encoder, row.preset, place, row


Samples = dict[tuple[int, int], float]


def _values(results: Sequence[Result], metric: Metric) -> dict[tuple[Size, TableRow, str], Samples]:
    values: dict[tuple[Size, TableRow, str], Samples] = {}
    configs: dict[tuple[Size, TableRow, str, int, int], str] = {}
    for r in results:
        place = (r.size, TableRow.of(r), r.corpus)
        own = (*place, r.seed, r.sample)
        if configs.setdefault(own, r.config) != r.config:
            raise HardnerError(
                f"{r.method} on {r.corpus}, {r.size}, sample {r.sample} has two results with "
                f"different configurations, {configs[own]} and {r.config} in configs.json: put "
                "them into different folders, or give one another --name"
            )
        values.setdefault(place, {})[r.seed, r.sample] = float(getattr(r.score, metric))
    return values


def _mean(each: Sequence[Samples]) -> Samples:
    """Of each sample that all corpora have; none where a corpus was not run."""
    shared = set(each[0]).intersection(*each[1:]) if each else set()
    return {key: fmean(found[key] for found in each) for key in sorted(shared)}


def _compared(table: ResultTable, baseline: str) -> ResultTable:
    """The table with each cell compared with the baseline's, corrected over all of them."""
    if not baseline:
        return table
    named = [r for r in table.rows if baseline == table.label(r)]
    named = named or [r for r in table.rows if baseline == r.method]
    if len(named) != 1:
        known = ", ".join(map(table.label, table.rows))
        raise HardnerError(f"the baseline must be one of the rows {known}; got {baseline!r}")
    (base,) = named
    found = {}
    for (size, row, corpus), cell in table.cells.items():
        other = table.cell(size, base, corpus).values
        shared = sorted(cell.values.keys() & other.keys())
        if row != base and len(shared) > 1:
            one, two = ([held[key] for key in shared] for held in (cell.values, other))
            found[size, row, corpus] = compare(one, two)
    fair = dict(zip(found, holm([c.p for c in found.values()]), strict=True))
    cells = {
        place: replace(cell, versus=found.get(place), p=fair.get(place))
        for place, cell in table.cells.items()
    }
    return replace(table, cells=cells, baseline=base)
