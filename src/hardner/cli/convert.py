"""``hardner convert``: annotated text from one format to another."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hardner.cli.common import (
    SOURCE_FORMAT_OPTION,
    check_format,
    check_scheme,
    document_counter,
    stderr,
)
from hardner.formats import FORMATS, HOLDABLE, Report, read, write
from hardner.types import Document


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


def convert_command(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file or folder; - is stdin.")],
    target: Annotated[str, typer.Argument(metavar="OUT", help="A file or folder; - is stdout.")],
    source_format: SOURCE_FORMAT_OPTION = None,
    target_format: Annotated[
        str | None,
        typer.Option("--to", callback=check_format, help="Format of OUT, if not as its name says."),
    ] = None,
    source_scheme: Annotated[
        str | None,
        typer.Option("--from-scheme", callback=check_scheme, help="Tag scheme of a CoNLL file IN."),
    ] = None,
    target_scheme: Annotated[
        str | None,
        typer.Option(
            "--scheme", callback=check_scheme, help="Tag scheme of a CoNLL file OUT (IOB2)."
        ),
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
    with document_counter() as tick:

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
