"""docs/tables.md, the papers' tables, and the list of them in docs/results.md."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hardner.evaluate.papers import paper_grids, paper_tables
from hardner.evaluate.protocols import published_values
from hardner.evaluate.render import pipe_table
from hardner.evaluate.results import Result, read_results

RESULTS = Path(__file__).parents[2] / "results"
EARLIER = {"HGDA": "MetaBioNER", "HGDA-NEs": "MetaBioNER-NEs", "MetaNER": "MetaNER"}
"""What MetaBioNER calls the methods of HGDA."""


def index() -> Iterator[str]:
    """Each table with its command, the runs behind it, and how long they took."""
    yield "\n## The papers' tables\n"
    yield "Each is shown by its own command, ours beside the published values, and stands in"
    yield "[The papers' tables](tables.md). Minutes are of the fits and scores of the lines that"
    yield "are there, on one GPU (H200) that other rows used at the same time (those of MetaNER's"
    yield "Table 2 in part on a CPU), without the trainings before them; `sh experiments/runs.sh`"
    yield "lists all runs, and what they are thought to take.\n"
    yield "| table | command | runs | minutes so far |"
    yield "|---|---|---|---|"
    for name, table in paper_tables().items():
        path = RESULTS / f"{table.protocol}.jsonl"
        took = 0.0
        if table.kind in ("results", "shares") and path.exists():
            methods = {row.partition(" (bilstm")[0].partition(" (trans")[0] for row in table.rows}
            lines = [r for r in _lines(path) if r.method in methods and not r.unlabelled]
            took = sum(r.seconds for r in lines) / 60
        shown = f"{took:,.0f}" if took >= 0.5 else "-"
        yield f"| {table.title} | `hardner table {name}` | `{table.runs}` | {shown} |"
    yield ""


@cache
def _lines(path: Path) -> tuple[Result, ...]:
    return tuple(read_results(path))


def identical() -> tuple[int, int]:
    """How many F1 figures HGDA and MetaBioNER both print of a method, and how many are the same."""
    same = both = 0
    for (protocol, metric, _, _), figures in published_values().items():
        if (protocol, metric) == ("few_shot", "f1"):
            of = {(f.source.partition(",")[0], f.method): f.value for f in figures}
            for name, earlier in EARLIER.items():
                pair = of.get(("HGDA", name)), of.get(("MetaBioNER", earlier))
                if None not in pair:
                    both += 1
                    same += pair[0] == pair[1]
    return same, both


def times_and_sizes() -> Iterator[str]:
    """MT-BioNER, section 5.2."""
    path = RESULTS / "multitask_4.jsonl"
    took = sum(r.seconds for r in _lines(path) if r.method == "MT-BioNER") / 60
    size = json.loads((RESULTS / "sizes.json").read_text("utf-8"))["experiments/encoder"] / 1e6
    yield "Section 5.2: the paper trains for less than 6 hours on a K80 (8 passes), scores BC5CDR's"
    yield "test set in 80 seconds, and its model has 430 MB. Ours took"
    yield f"{took:.0f} minutes for 4 passes and scoring on an H200 that other rows used too, and"
    yield f"the encoder has {size:.0f} MB.\n"


def page() -> Iterator[str]:
    """All of them, paper by paper."""
    papers: dict[str, list[str]] = {}
    for name, table in paper_tables().items():
        papers.setdefault(table.title.partition(",")[0], []).append(name)
    for paper, names in papers.items():
        yield f"\n## {paper}\n"
        if paper == "MetaBioNER":
            same, both = identical()
            yield f"Of the {both} F1 figures that this paper and HGDA both print of a method (means"
            yield f"included), {same} are the same, although their recipes differ: SGD at a rate"
            yield "that grows with the shots there, AdamW at 1e-5 for all here. Rows of both"
            yield "recipes have a place in the table.\n"
        if paper == "MT-BioNER":
            yield from times_and_sizes()
        for name in names:
            table = paper_tables()[name]
            yield f"### {table.title}\n"
            yield f"`hardner table {name}`; runs: `sh experiments/runs.sh {table.runs}`\n"
            for grid in paper_grids(table, RESULTS):
                yield pipe_table(grid)
