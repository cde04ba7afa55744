"""From results to a table: means beside the published values, and which differences are real."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean, stdev

from hardner.errors import HardnerError
from hardner.evaluate.protocols import (
    MEAN,
    PROTOCOLS,
    PublishedValue,
    Size,
    compared_method,
    published_names,
    published_row,
)
from hardner.evaluate.results import Result
from hardner.evaluate.score import Metric
from hardner.evaluate.significance import Comparison, compare_trainings, holm
from hardner.evaluate.trainings import RowTraining, refuse_mixed_files, refuse_mixed_trainings
from hardner.meta.methods import BASELINES

SIGNIFICANCE_LEVEL = 0.05
IN_DOMAIN = "In-Domain"
"""The method trained on the target alone, whose score on all data others may reach with less."""


@dataclass(frozen=True, order=True)
class TableRow:
    """A system as it was trained and adapted."""

    method: str
    encoder: str
    preset: str
    natural: bool = False
    """Whether its samples were drawn regardless of entities."""
    unlabelled: int = 0
    """Sentences learnt from without their labels, beside each sample."""

    @classmethod
    def of(cls, result: Result) -> "TableRow":
        natural = result.natural and result.share is None  # shares are always natural
        return cls(result.method, result.encoder, result.preset, natural, result.unlabelled)


Samples = Mapping[tuple[int, int], float]
"""By seed and sample, the metric."""
CellKey = tuple[Size, TableRow, str]
"""Size, row and corpus; `MEAN` is a corpus too."""


@dataclass(frozen=True)
class TableCell:
    """A row on a corpus."""

    values: Samples = field(default_factory=dict)
    """Empty where it was not run."""
    published: PublishedValue | None = None
    comparison: Comparison | None = None
    """With the baseline, over the samples that both have."""
    p_holm: float | None = None
    """The comparison's p value, corrected for all comparisons of the table."""

    @property
    def mean(self) -> float | None:
        return fmean(self.values.values()) if self.values else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the samples, if there are several."""
        return stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
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
    cells: Mapping[CellKey, TableCell]
    planned: int = 0
    """Samples of a cell that the protocol draws; 0 where that is not known."""
    mixed: frozenset[TableRow] = frozenset()
    """Rows whose corpora or sizes were run by different configurations."""
    baseline: TableRow | None = None

    def falls_short(self, cell: TableCell) -> bool:
        """Whether a cell's mean is over fewer samples than the protocol draws."""
        return 0 < len({sample for _, sample in cell.values}) < self.planned

    @property
    def run(self) -> frozenset[str]:
        """The corpora with results, and `MEAN` if a row has results on all of them."""
        return frozenset(corpus for (_, _, corpus), cell in self.cells.items() if cell.values)

    def label(self, row: TableRow) -> str:
        """The row's method, with what else tells it from other rows."""
        more = [
            getattr(row, name)
            for name in ("encoder", "preset")
            if len({getattr(other, name) for other in self.rows} - {""}) > 1 and getattr(row, name)
        ]
        more += ["natural"] if row.natural else []
        name = f"{row.method} + {row.unlabelled:,} unlabelled" if row.unlabelled else row.method
        return f"{name} ({', '.join(more)})" if more else name

    def in_domain_share(self, row: TableRow, corpus: str) -> float | None:
        """The share of the data with which a row reaches In-Domain's score on all of it.

        Infinite if it never does; None if not all of what that needs was run.
        """
        bounds = [r for r in self.rows if (r.method, r.encoder) == (IN_DOMAIN, row.encoder)]
        full = [self.cells[1.0, bound, corpus].mean for bound in bounds if 1.0 in self.sizes]
        if not full or full[0] is None:
            return None
        curve = {float(s): m for s in self.sizes if (m := self.cells[s, row, corpus].mean)}
        share = share_reaching(curve, full[0])
        return inf if share is None and 1.0 in curve else share


def share_reaching(curve: Mapping[float, float], score: float) -> float | None:
    """The share of the data at which a curve first reaches a score, interpolated linearly.

    None if it never does.
    """
    before: tuple[float, float] | None = None
    for share, value in sorted(curve.items()):
        if value >= score:
            if before is None:
                return share
            return before[0] + (share - before[0]) * (score - before[1]) / (value - before[1])
        before = share, value
    return None


def group_results(results: Iterable[Result]) -> dict[CellKey, list[Result]]:
    """The results of each cell of a protocol's table."""
    groups: dict[CellKey, list[Result]] = {}
    for r in results:
        groups.setdefault((r.size, TableRow.of(r), r.corpus), []).append(r)
    return groups


def build_tables(
    results: Iterable[Result],
    metric: Metric = "f1",
    baseline: str = "",
    trainings: Mapping[str, RowTraining] | None = None,
) -> list[ResultTable]:
    """A table for each protocol; with a baseline (a row's label or method), others are compared.

    Where ``trainings`` says what is behind the configurations, a row of two trainings is an error.
    """
    protocols: dict[str, list[Result]] = {}
    for result in results:
        protocols.setdefault(result.protocol, []).append(result)
    tables = [_table(name, found, metric, trainings) for name, found in protocols.items()]
    return [_compared(table, baseline) for table in tables] if baseline else tables


def select_rows(results: Sequence[Result], names: Sequence[str]) -> list[Result]:
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


def _table(
    protocol: str,
    results: Sequence[Result],
    metric: Metric,
    trainings: Mapping[str, RowTraining] | None,
) -> ResultTable:
    plan = PROTOCOLS.get(protocol)
    found = sorted({r.corpus for r in results})
    # The protocol's corpora if any of them was run, then other corpora that were.
    planned = plan.targets if plan and not set(plan.targets).isdisjoint(found) else ()
    corpora = (*planned, *(c for c in found if c not in planned))
    sizes = tuple(sorted({r.size for r in results}))
    rows = tuple(sorted({TableRow.of(r) for r in results}, key=_row_order))
    return filled_table(protocol, results, metric, trainings, corpora, sizes, rows)


def filled_table(
    protocol: str,
    results: Sequence[Result],
    metric: Metric,
    trainings: Mapping[str, RowTraining] | None,
    corpora: tuple[str, ...],
    sizes: tuple[Size, ...],
    rows: tuple[TableRow, ...],
) -> ResultTable:
    """The table of these corpora, sizes and rows, be they run or not."""
    pairs = [(TableRow.of(r), r) for r in results]
    mixed = refuse_mixed_files(pairs)
    if trainings and all(r.config in trainings for r in results):
        refuse_mixed_trainings(pairs, trainings)
        mixed = frozenset()
    plan = PROTOCOLS.get(protocol)
    groups = group_results(results)
    cells: dict[CellKey, TableCell] = {}
    for size in sizes:
        for row in rows:
            # No paper has a row that learns from unlabelled text as well.
            names = [] if row.unlabelled else published_names(protocol, row.method, row.encoder)
            theirs = published_row(protocol, metric, size, corpora, names)
            own = [groups.get((size, row, corpus), []) for corpus in corpora]
            ours = [{(r.seed, r.sample): getattr(r.score, metric) for r in g} for g in own]
            every = (*ours, _sample_means(ours))
            for corpus, values, value in zip((*corpora, MEAN), every, theirs, strict=True):
                cells[size, row, corpus] = TableCell(values, value)
    samples = plan.samples if plan else 0
    return ResultTable(protocol, metric, corpora, sizes, rows, cells, samples, mixed)


def _row_order(row: TableRow) -> tuple[str, str, int, TableRow]:
    """Rows of one encoder and preset together, in the papers' order of methods."""
    order, method = list(BASELINES), compared_method(row.method)
    place = order.index(method) if method in order else len(order)
    return row.encoder, row.preset, place, row


def _sample_means(each: Sequence[Samples]) -> Samples:
    """The mean over corpora of each sample that all of them have."""
    shared = set(each[0]).intersection(*each[1:]) if each else set()
    return {key: fmean(found[key] for found in each) for key in sorted(shared)}


def compare_samples(ours: Samples, theirs: Samples) -> Comparison | None:
    """Two rows over the samples that every training of both was scored on, if there are several."""
    grids = [by_seed(values) for values in (ours, theirs)]
    if not all(grids):
        return None
    shared = sorted(set.intersection(*(set(own) for grid in grids for own in grid.values())))
    if len(shared) < 2:
        return None
    one, other = ([[own[s] for s in shared] for own in grid.values()] for grid in grids)
    return compare_trainings(one, other)


def by_seed(values: Samples) -> dict[int, dict[int, float]]:
    """The value of each sample, for each seed."""
    found: dict[int, dict[int, float]] = {}
    for (seed, sample), value in sorted(values.items()):
        found.setdefault(seed, {})[sample] = value
    return found


def _compared(table: ResultTable, baseline: str) -> ResultTable:
    """The table with each cell compared with the baseline's, with Holm's correction over all."""
    named = [r for r in table.rows if baseline == table.label(r)]
    named = named or [r for r in table.rows if baseline == r.method]
    if len(named) != 1:
        known = ", ".join(map(table.label, table.rows))
        raise HardnerError(f"the baseline must be one of the rows {known}; got {baseline!r}")
    (base,) = named
    found: dict[CellKey, Comparison] = {}
    for (size, row, corpus), cell in table.cells.items():
        if row == base:
            continue
        theirs = table.cells[size, base, corpus].values
        if compared := compare_samples(cell.values, theirs):
            found[size, row, corpus] = compared
    adjusted = dict(zip(found, holm([c.p for c in found.values()]), strict=True))
    cells = {
        place: replace(cell, comparison=found.get(place), p_holm=adjusted.get(place))
        for place, cell in table.cells.items()
    }
    return replace(table, cells=cells, baseline=base)
