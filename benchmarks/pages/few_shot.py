"""Few-shot tables for README.md and docs/results.md, from what `hardner evaluate` wrote."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import relations

from hardner.catalogue import BENCHMARK
from hardner.evaluate.protocols import (
    best_published,
    published_mean,
    published_value,
    published_values,
)
from hardner.evaluate.render import RENDERERS
from hardner.evaluate.results import Result, load_results
from hardner.evaluate.table import ResultTable, build_tables
from hardner.evaluate.trainings import read_trainings

RESULTS = Path(__file__).parents[2] / "results" / "few_shot.jsonl"
SEEDS = RESULTS.parent / "seeds" / "few_shot.jsonl"
"""The compared rows, five trainings of each, once they were run."""
BEST = "hardner"
SHOTS = (5, 10, 20, 50, 100)
BILSTM = "BiLSTM-CRF with a skip connection, mention replacement, negatives and O-logit bias"
ROWS = {
    (BEST, "transformer"): "hardner",
    ("HGDA", "bilstm"): f"HGDA, {BILSTM}",
    ("MultiTask", "bilstm"): "multi-task training on the sources, then fitted, the same BiLSTM-CRF",
}
"""Of the summary: methods and encoders, and what they are called there."""
WHOLE = 20
"""Samples of a cell that has been run to the end."""
NOT_RUN = "-"
DEMONSTRATED = "MRC with demonstrations"


def summary() -> Iterator[str]:
    """The mean over the corpora by the number of sentences, beside the best published one."""
    results = load_results([RESULTS])
    yield "| labelled sentences | " + " | ".join(map(str, SHOTS)) + " |"
    yield "|---" * (1 + len(SHOTS)) + "|"
    for row in ROWS:
        own = [r for r in results if (r.method, r.encoder) == row and relations.ours(r.preset)]
        for unlabelled in sorted({r.unlabelled for r in own}):
            beside = f", with {unlabelled:,} unlabelled" if unlabelled else ""
            some = [r for r in own if r.unlabelled == unlabelled]
            means = [mean_of([r for r in some if r.shots == k], BENCHMARK) for k in SHOTS]
            if set(means) != {NOT_RUN}:
                yield f"| {ROWS[row]}{beside} | " + " | ".join(means) + " |"
    yield "| best published | " + " | ".join(f"{value:.3f}" for value in best_means()) + " |"


def best_means() -> list[float]:
    """For each number of sentences, the mean of the published row that is best there."""
    best = [best_published("few_shot", "f1", k, BENCHMARK) for k in SHOTS]
    found = [
        published_mean("few_shot", "f1", k, BENCHMARK, [name])
        for k, name in zip(SHOTS, best, strict=True)
        if name
    ]
    return [figure.value for figure in found if figure]


def means(results: Sequence[Result], row: tuple[str, str]) -> list[float]:
    """The mean over the corpora, for each number of sentences, of a row without unlabelled text."""
    own = [r for r in results if (r.method, r.encoder) == row and relations.ours(r.preset)]
    some = [r for r in own if not r.unlabelled]
    return [float(mean_of([r for r in some if r.shots == k], BENCHMARK)) for k in SHOTS]


def mean_of(results: Sequence[Result], corpora: Sequence[str]) -> str:
    """The mean over corpora of the mean over samples; a dash where some have not been run."""
    each = [[r.score.f1 for r in results if r.corpus == corpus] for corpus in corpora]
    return f"{fmean(map(fmean, each)):.3f}" if all(len(e) == WHOLE for e in each) else NOT_RUN


def contests(table: ResultTable) -> Iterator[str]:
    """How each row stands against the published row that is best in the mean, cell by cell."""
    yield "Corpora on which a row is above the published row with the highest mean, of those that"
    yield "have been run:\n"
    yield "| | " + " | ".join(f"{k} sentences" for k in SHOTS) + " |"
    yield "|---" * (1 + len(SHOTS)) + "|"
    bars = {
        (k, corpus): published_value("few_shot", "f1", k, corpus, [best])
        for k in SHOTS
        if (best := best_published("few_shot", "f1", k, BENCHMARK))
        for corpus in BENCHMARK
    }
    for row in (row for row in table.rows if not row.unlabelled):
        cells = []
        for k in SHOTS:
            ahead = [
                fmean(values) > bar.value
                for corpus in BENCHMARK
                if len(values := table.cells[k, row, corpus].values.values()) == WHOLE
                and (bar := bars.get((k, corpus)))
            ]
            cells.append(f"{sum(ahead)} of {len(ahead)}" if ahead else "-")
        yield f"| {table.label(row)} | " + " | ".join(cells) + " |"
    yield ""


def durations(results: Sequence[Result]) -> Iterator[str]:
    """How long the samples of a row took that has been run to the end."""
    took: dict[str, list[float]] = {}
    for r in results:
        if r.encoder == "bilstm" and relations.ours(r.preset):
            took.setdefault(r.method, []).append(r.seconds)
    every = WHOLE * len(SHOTS) * len(BENCHMARK)
    whole = [sum(each) / 60 for each in took.values() if len(each) == every]
    yield f"All {every} samples of a BiLSTM's row by the preset `best` were fitted and scored in"
    yield f"{min(whole):.1f} to {max(whole):.1f} minutes, on a GPU (H200)"
    yield "that other rows used at the same time.\n"


def page() -> Iterator[str]:
    results = load_results([RESULTS])
    yield "## Few-shot: a domain that training has not seen\n"
    (table,) = build_tables(results, trainings=read_trainings([RESULTS]))
    yield RENDERERS["md"]([table])
    yield from durations(results)
    yield from contests(table)
    seeded = [SEEDS] if SEEDS.exists() else [RESULTS]
    (compared,) = build_tables(load_results(seeded), trainings=read_trainings(seeded))
    yield from relations.of(compared, WHOLE, "bilstm", "BiLSTM-CRF")
    yield from relations.of(table, WHOLE, "transformer", "transformer")
    yield "At 50 sentences, beside the highest published figures found (Su et al. 2024; other"
    yield "samples, a far larger model):\n"
    there = {
        corpus: figure
        for corpus in BENCHMARK
        for figure in published_values().get(("few_shot", "f1", "50", corpus), ())
        if figure.method == DEMONSTRATED
    }
    own = [r for r in results if r.method == BEST and r.shots == 50 and not r.unlabelled]
    yield "| | " + " | ".join(there) + " |"
    yield "|---" * (1 + len(there)) + "|"
    yield "| hardner | " + " | ".join(mean_of(own, [corpus]) for corpus in there) + " |"
    yield f"| {DEMONSTRATED} | " + " | ".join(f"{f.value:.3f}" for f in there.values()) + " |"
