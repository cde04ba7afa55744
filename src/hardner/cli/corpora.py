"""``hardner corpora``: what the known corpora under a folder hold."""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hardner import corpora as known
from hardner.cli.terminal import stderr
from hardner.corpora import SPLITS, CatalogueEntry, Statistics
from hardner.errors import FileError
from hardner.formats import Report

_PATIENCE = 2.0
"""Seconds before a progress bar is shown."""


def corpora_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these corpora.")
    ] = None,
    root: Annotated[Path, typer.Option(help="The folder that holds their folders.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Count what the known corpora under a folder hold, beside HGDA's published figures.

    Examples:

    - `hardner corpora --root ../shared/corpora`
    - `hardner corpora --root ../shared/corpora NCBI-disease S800 --json`
    """
    rows = _wanted(names or [], root)
    counted = list(_counted(rows, root))
    if as_json:
        found = [_record(row, counts) for row, counts in counted]
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        Console().print(_table(counted))


def _wanted(names: Sequence[str], root: Path) -> list[CatalogueEntry]:
    found = known.corpora_under(root)
    if not names and not found:
        some = ", ".join(list(known.catalogue())[:3])
        raise FileError(root, f"holds no known corpus (such as {some}); name another --root")
    rows = [known.catalogue_entry(name) for name in names] or found
    for row in rows:
        if row not in found:
            raise FileError(row.path("train", root), f"no such file, so no {row.name}")
    return rows


_Counts = dict[str, Statistics]


def _counted(
    rows: Sequence[CatalogueEntry], root: Path
) -> Iterator[tuple[CatalogueEntry, _Counts]]:
    """Each corpus with its counts by split and, as ``all``, together."""
    report = Report()
    started = time.monotonic()
    bar = Progress(console=stderr, transient=True)
    task = bar.add_task("", total=len(rows))
    try:
        for row in rows:
            if (
                stderr.is_terminal
                and not bar.live.is_started
                and time.monotonic() - started > _PATIENCE
            ):
                bar.start()
            bar.update(task, description=row.name)
            for path in row.changed(root):
                stderr.print(f"warning: {path}: not the file the catalogue knows", markup=False)
            corpus = known.load_corpus(row.name, root, report)
            splits = {split: getattr(corpus, split) for split in SPLITS}
            counts = {
                split: known.corpus_statistics(found) for split, found in splits.items() if found
            }
            yield row, {**counts, "all": known.corpus_statistics(chain(*splits.values()))}
            bar.advance(task)
    finally:
        if bar.live.is_started:
            bar.stop()
    for line in report.lines():
        stderr.print(f"warning: {line}", markup=False)


def _record(row: CatalogueEntry, counts: _Counts) -> dict[str, Any]:
    published = row.published
    return {
        "name": row.name,
        "domain": row.domain,
        "licence": row.licence,
        "source": row.source,
        "splits": {
            split: {
                "sentences": found.sentences,
                "tokens": found.tokens,
                "mentions": found.mentions,
                "unique_tokens": found.unique_tokens,
                "types": len(found.labels),
                "percent": round(found.percent, 1),
                "labels": dict(found.labels),
            }
            for split, found in counts.items()
        },
        "held_out": list(row.hold_out),
        "published": published
        and {"unique_tokens": published.unique_tokens, "percent": published.percent},
    }


def _table(counted: Sequence[tuple[CatalogueEntry, _Counts]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("corpus", no_wrap=True)
    for heading in (
        "sentences",
        "tokens",
        "mentions",
        "unique\ntokens",
        "types",
        "% with\nentity",
        "HGDA:\nunique",
        "%",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for row, counts in counted:
        published = row.published
        beside = (f"{published.unique_tokens:,}", str(published.percent)) if published else ()
        table.add_row(row.name, *_cells(counts["all"]), *beside, style="bold")
        for split in SPLITS:
            if split in counts:
                held = "*" if split in row.hold_out else ""
                table.add_row(f"  {split}{held}", *_cells(counts[split]))
    if any(row.hold_out for row, _ in counted):
        table.caption = "* taken from train by a seeded draw: the corpus has none of its own"
    return table


def _cells(found: Statistics) -> tuple[str, ...]:
    whole = (found.sentences, found.tokens, found.mentions, found.unique_tokens, len(found.labels))
    return *(f"{number:,}" for number in whole), f"{found.percent:.1f}"
