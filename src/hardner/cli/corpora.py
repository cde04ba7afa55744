"""``hardner corpora``: what known corpora hold; ``hardner example``: files to try hardner on."""

import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Argument, Option

import hardner
from hardner.catalogue import SPLITS, CatalogueEntry
from hardner.cli.common import print_json, progress_bar, say, warn
from hardner.cli.options import CATALOGUE_OPTION, JSON_OPTION
from hardner.corpora import Corpora, Statistics, corpus_statistics
from hardner.errors import FileError
from hardner.folders import atomic_folder
from hardner.formats import Report


def corpora_command(
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Only these corpora.")] = None,
    root: Annotated[Path, Option(metavar="DIR", help="Folder of the corpora.")] = Path(),
    catalogue: CATALOGUE_OPTION = "",
    as_json: JSON_OPTION = False,
) -> None:
    """Count sentences, tokens and mentions of corpora, beside the figures published with HGDA.

    Examples:

    - `hardner corpora --root ../shared/corpora`
    - `hardner corpora --root ../shared/corpora NCBI-disease S800 --json`
    - `hardner corpora --root data --catalogue mine.toml`
    """
    corpora = Corpora.under(root, catalogue)
    counted = list(_counted(corpora, _wanted(names or [], corpora)))
    if as_json:
        print_json([_record(row, counts) for row, counts in counted])
    else:
        Console().print(_table(counted))


def _wanted(names: Sequence[str], corpora: Corpora) -> list[CatalogueEntry]:
    found = corpora.present()
    if not names and not found:
        some = ", ".join(list(corpora.entries)[:3])
        raise FileError(
            corpora.root, f"holds no known corpus (such as {some}); name another --root"
        )
    rows = [corpora.entry(name) for name in names] or found
    for row in rows:
        if row not in found:
            raise FileError(row.path("train", corpora.root), f"no such file, so no {row.name}")
    return rows


_Counts = dict[str, Statistics]
_FILES = Path(hardner.__file__).parent / "assets" / "examples"
_COUNTS = ("sentences", "tokens", "mentions", "unique_tokens")


def _counted(
    corpora: Corpora, rows: Sequence[CatalogueEntry]
) -> Iterator[tuple[CatalogueEntry, _Counts]]:
    """Each corpus with its counts by split and, as ``all``, together."""
    report = Report()
    with progress_bar() as progress:
        for row in progress.track(rows, description=""):
            changed = row.changed(corpora.root)
            warn(f"{path}: not the file the catalogue knows" for path in changed)
            corpus = corpora.load(row.name, report)
            splits = {split: getattr(corpus, split) for split in SPLITS}
            counts = {split: corpus_statistics(found) for split, found in splits.items() if found}
            yield row, {**counts, "all": corpus_statistics(chain(*splits.values()))}
    warn(report.lines())


def _record(row: CatalogueEntry, counts: _Counts) -> dict[str, Any]:
    return {
        "name": row.name,
        "domain": row.domain,
        "licence": row.licence,
        "source": row.source,
        "splits": {
            split: {
                **{name: getattr(found, name) for name in _COUNTS},
                "types": len(found.labels),
                "percent": round(found.percent, 1),
                "labels": dict(found.labels),
            }
            for split, found in counts.items()
        },
        "held_out": list(row.hold_out),
        "published": row.published and asdict(row.published),
    }


def _table(counted: Sequence[tuple[CatalogueEntry, _Counts]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("corpus", no_wrap=True)
    counts_of = ("sentences", "tokens", "mentions", "unique\ntokens", "types", "% with\nentity")
    for heading in (*counts_of, "HGDA:\nunique", "%"):
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
    whole = (*(getattr(found, name) for name in _COUNTS), len(found.labels))
    return *(f"{number:,}" for number in whole), f"{found.percent:.1f}"


def example_command(
    folder: Annotated[
        Path, Argument(metavar="[FOLDER]", help="A new folder for the files.")
    ] = Path("examples"),
) -> None:
    """Write the example files that the help and the documentation use.

    They are 20 labelled sentences about medical devices, 64 more to test on, an abstract to tag,
    twenty case reports with three types as BRAT writes them, and the tiny corpora of the Python
    examples.

    Examples:

    - `hardner example`
    - `hardner example /tmp/examples`
    """
    if folder.exists():
        raise FileError(folder, "exists already; name another folder")
    with atomic_folder(folder.absolute()) as made:
        shutil.copytree(_FILES, made, dirs_exist_ok=True)
    train = shlex.quote(str(folder / "devices-train.jsonl"))
    say(f"{folder}; next: hardner adapt {train} --label Device --out device-model")
