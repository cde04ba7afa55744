"""``hardner convert``: annotated text from one format to another."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hardner.cli.terminal import stderr
from hardner.formats import FORMATS, HOLDABLE, Report, read, write
from hardner.schemes import ALIASES, SCHEMES
from hardner.types import Document

_PATIENCE = 2.0
"""Seconds before a progress bar is shown."""


def _show_formats(wanted: bool) -> None:
    if not wanted:
        return
    table = Table("format", "file endings", "also keeps", "what it is", box=None, pad_edge=False)
    for row in FORMATS.values():
        kept = ", ".join(thing for thing in HOLDABLE if thing in row.holds) or "-"
        kept = "read only" if row.write is None else "written only" if row.read is None else kept
        table.add_row(row.name, " ".join(row.endings), kept, escape(row.about))
    Console().print(table)
    raise typer.Exit


def _format(name: str | None) -> str | None:
    """Refuse a name that no format has."""
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}.")
    return name


def _scheme(name: str | None) -> str | None:
    """Refuse a name that no tag scheme has."""
    if name is not None and name not in {**SCHEMES, **ALIASES}:
        raise typer.BadParameter(f"{name!r} is none of {', '.join((*SCHEMES, *ALIASES))}.")
    return name


def convert_command(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file or folder; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="A file or folder; - is stdout.")],
    source_format: Annotated[
        str | None,
        typer.Option("--from", callback=_format, help="Format of IN, if not as it looks."),
    ] = None,
    target_format: Annotated[
        str | None,
        typer.Option("--to", callback=_format, help="Format of OUT, if not as its name says."),
    ] = None,
    source_scheme: Annotated[
        str | None,
        typer.Option("--from-scheme", callback=_scheme, help="Tag scheme of a CoNLL file IN."),
    ] = None,
    target_scheme: Annotated[
        str | None,
        typer.Option("--scheme", callback=_scheme, help="Tag scheme of a CoNLL file OUT (IOB2)."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an annotation that would be lost or repaired.")
    ] = False,
    formats: Annotated[
        bool,
        typer.Option("--formats", callback=_show_formats, is_eager=True, help="List the formats."),
    ] = False,
) -> None:
    """Convert annotated text from one format to another.

    Files may be compressed (.gz, .xz). What the new format cannot hold is counted and said. OUT
    appears when all went well, or not at all.

    Examples:

    - `hardner convert examples/devices-train.jsonl devices.tsv`
    - `hardner convert corpus.pubtator brat-folder/`
    - `hardner convert train.tsv.xz - --to prodigy | head`
    - `hardner convert iob2.tsv iobes.tsv --scheme IOBES --strict`
    """
    report = Report(strict)
    documents = mentions = 0
    with _progress() as tick:

        def counted() -> Iterator[Document]:
            nonlocal documents, mentions
            for document in read(source, source_format, scheme=source_scheme, report=report):
                documents += 1
                mentions += len(document.entities)
                tick(documents)
                yield document

        write(counted(), target, target_format, scheme=target_scheme, report=report)
    for line in report.lines():
        stderr.print(f"warning: {line}", markup=False)
    summary = f"{source} -> {target}: {documents:,} documents, {mentions:,} mentions"
    stderr.print(summary, markup=False)


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """A function to tell how many documents are done; it shows a bar once that takes long."""
    started = time.monotonic()
    columns = (BarColumn(), TextColumn("{task.completed:,} documents"), TimeElapsedColumn())
    bar = Progress(*columns, console=stderr, transient=True)
    task = bar.add_task("", total=None)
    with ExitStack() as stack:

        def tick(done: int) -> None:
            if bar.live.is_started:
                bar.update(task, completed=done)
            elif stderr.is_terminal and time.monotonic() - started > _PATIENCE:
                stack.enter_context(bar)

        yield tick
