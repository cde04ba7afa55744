"""The tables of the five papers, ours beside the published values (``papers.toml``)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from hardner.catalogue import SPLITS
from hardner.config import make
from hardner.evaluate.protocols import PROTOCOLS, Size, published_mean, published_values
from hardner.evaluate.render import METRIC_NAMES, Grid, shares_grid, table_grids
from hardner.evaluate.results import Result, read_results
from hardner.evaluate.table import ResultTable, TableRow, filled_table
from hardner.evaluate.trainings import read_trainings
from hardner.files import read_json, read_text, read_toml

CORPORA_FILE = "corpora.json"
"""What `hardner corpora --json` printed."""
HARDNESS_FILE = "hardness.json"
"""What experiments/study/hardness.py printed."""
EXAMPLES_FILE = "examples.json"
"""What experiments/study/examples.py wrote."""
_NOT_RUN = "not run"
_AS_TRAINED = re.compile(r"(.+) \(([a-z]+), (.+)\)")
"""A row's method with its encoder and preset."""
_PUBLISHED_TASKS = (
    ("published, 450", "0.46", "Gene", "3 of 4"),
    ("published, 450", "0.18", "Drug", "2 of 4"),
    ("published, 450", "0.01", "Species", "0 of 4"),
)
"""HGDA, Table 1; MetaBioNER, Table 4, where those of iteration 1 are all much alike."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper, and which of our lines are its counterpart."""

    title: str
    runs: str
    """The part of experiments/runs.sh that runs it."""
    kind: Literal["results", "shares", "corpora", "hardness", "examples"] = "results"
    protocol: str = ""
    metrics: tuple[str, ...] = ("f1",)
    sizes: tuple[float, ...] = ()
    """The protocol's by default."""
    rows: tuple[str, ...] = ()
    """Methods, or a method as it was trained and adapted: ``HGDA (bilstm, paper)``."""
    encoders: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    """Published rows that none of ours is beside."""
    corpora: tuple[str, ...] = ()
    """The protocol's by default."""
    columns: tuple[str, ...] = ()
    """Of a table about corpora."""


@cache
def paper_tables() -> Mapping[str, PaperTable]:
    """By name, such as ``hgda/3``."""
    table = read_toml(Path(__file__).with_name("papers.toml"))
    return {name: make(PaperTable, row, name) for name, row in table.items()}


def paper_grids(table: PaperTable, folder: Path) -> Iterator[Grid]:
    """What is to be shown of a table, from the results in a folder; what is missing says so."""
    if table.kind == "corpora":
        yield _corpora(table, folder)
    elif table.kind in ("hardness", "examples"):
        yield (_hardness if table.kind == "hardness" else _examples)(table, folder)
    else:
        for made in paper_results(table, folder):
            if table.kind == "shares":
                yield replace(shares_grid(made), title=table.title)
                yield from list(table_grids(made))[len(made.sizes) :]
            else:
                for grid in table_grids(made, table.published):
                    title = f"{table.title} ({grid.title.partition(': ')[2]})"
                    yield replace(grid, title=title, lines=(*grid.lines, *_elsewhere(made)))


def paper_results(table: PaperTable, folder: Path) -> Iterator[ResultTable]:
    """A table of results for each metric; rows that were not run have empty cells."""
    plan, path = PROTOCOLS[table.protocol], folder / f"{table.protocol}.jsonl"
    sizes: tuple[Size, ...] = plan.sizes
    if table.sizes:
        whole = isinstance(plan.sizes[0], int)
        sizes = tuple(int(size) if whole else size for size in table.sizes)
    corpora = table.corpora or plan.targets
    held = _results(path, path.stat().st_mtime_ns) if path.is_file() else ()
    found = [r for r in held if r.corpus in corpora and r.size in sizes and not r.unlabelled]
    rows, results = _rows(table, found)
    trainings = read_trainings([path])
    for metric in METRIC_NAMES:
        if metric in table.metrics:
            yield filled_table(table.protocol, results, metric, trainings, corpora, sizes, rows)


def _elsewhere(table: ResultTable) -> Iterator[tuple[str, ...]]:
    """Published means on the protocol's own corpora, where others stand in for them."""
    own = PROTOCOLS[table.protocol].targets
    if not set(own).isdisjoint(table.corpora):
        return
    empty = [""] * len(table.corpora)
    for size in table.sizes:
        for name in dict.fromkeys(row.method for row in table.rows):
            found = published_mean(table.protocol, table.metric, size, own, [name])
            if found:
                where = own[0].partition("-")[0]
                yield (f"{name}, published on {where}", *empty, f"{found.value:.3f}".lstrip("0"))


@lru_cache(maxsize=4)
def _results(path: Path, changed: int) -> tuple[Result, ...]:
    """The lines of a file, which several tables are of."""
    return tuple(read_results(path))


def _rows(table: PaperTable, results: list[Result]) -> tuple[tuple[TableRow, ...], list[Result]]:
    """The wanted rows in their order, run or not, and their results."""
    there = {TableRow.of(r) for r in results}
    there = {row for row in there if not table.encoders or row.encoder in table.encoders}
    rows: dict[TableRow, None] = {}
    for name in table.rows or sorted({row.method for row in there}):
        as_trained = _AS_TRAINED.fullmatch(name)
        method, encoder, preset = as_trained.groups() if as_trained else (name, "", "")
        missing = TableRow(method, encoder, preset)
        own = [row for row in there if row.method == name or row == missing]
        known = any(row.method == method for row in rows) and not as_trained
        rows |= dict.fromkeys(sorted(own) or ([] if known else [missing]))
    return tuple(rows), [r for r in results if TableRow.of(r) in rows]


def _corpora(table: PaperTable, folder: Path) -> Grid:
    """What `hardner corpora` counted, above what was published."""
    path = folder / CORPORA_FILE
    held = json.loads(read_text(path)) if path.is_file() else []
    counted = {row["name"]: row for row in held}
    paper = table.title.partition(",")[0]
    lines = []
    plan = PROTOCOLS[table.protocol]
    for corpus in dict.fromkeys(table.corpora or (*plan.targets, *plan.sources)):
        here = _counts(counted[corpus]["splits"]) if corpus in counted else {}
        theirs = [_published_count(paper, column, corpus) for column in table.columns]
        lines.append((corpus, *(_shown(here.get(c, _NOT_RUN)) for c in table.columns)))
        if any(theirs):
            lines.append(("- published", *theirs))
    return Grid(table.title, ("corpus", *table.columns), tuple(lines), ())


def _counts(splits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What papers count, by the names of their columns."""
    whole = splits["all"]
    found = {"unique tokens": whole["unique_tokens"], "% with an entity": whole["percent"]}
    found |= {name: whole[name] for name in ("types", "sentences", "mentions")}
    return found | {name: splits[name]["sentences"] for name in SPLITS if name in splits}


def _published_count(paper: str, column: str, corpus: str) -> str:
    there = published_values().get(("corpora", column, "", corpus), ())
    return next((_shown(v.value) for v in there if v.method == paper), "")


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}"


def _hardness(table: PaperTable, folder: Path) -> Grid:
    """The hardest, a middle and the easiest task of each iteration that was kept."""
    path = folder / HARDNESS_FILE
    found = read_json(path)["tasks"] if path.is_file() else []
    lines: list[tuple[str, ...]] = []
    for iteration in dict.fromkeys(task["iteration"] for task in found):
        ranked = [task for task in found if task["iteration"] == iteration]
        for task in (ranked[0], ranked[len(ranked) // 2], ranked[-1]):
            share = f"{task['bearing']} of {len(task['sentences'])}"
            lines += [(f"{iteration:,}", f"{task['weight']:.2f}", task["domain"], share)]
    ours = lines or [(_NOT_RUN,) * 4]
    head = ("iteration", "weight", "domain", "sentences with an entity")
    return Grid(table.title, head, (*ours, *_PUBLISHED_TASKS), ())


def _examples(table: PaperTable, folder: Path) -> Grid:
    """A sentence of each corpus with what each row finds in it."""
    path = folder / EXAMPLES_FILE
    found = read_json(path).get(table.protocol, []) if path.is_file() else []
    lines = tuple((e["corpus"], e["row"], e["text"], e["correct"]) for e in found)
    notes = ("the id of the sentence, what was found in it, and what should have been",)
    head = ("corpus", "method", "sentence", "correct")
    return Grid(table.title, head, lines or ((_NOT_RUN,) * 4,), notes)
