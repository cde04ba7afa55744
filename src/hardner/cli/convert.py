"""``hardner convert``: annotated text from one format to another."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from typer import Argument, Option

from hardner.cli.common import (
    check_not_read,
    check_scheme,
    document_counter,
    plain_table,
    say,
    warn,
)
from hardner.cli.options import (
    ENCODING_OPTION,
    SOURCE_FORMAT_OPTION,
    TARGET_FORMAT_OPTION,
    TARGET_SCHEME_OPTION,
)
from hardner.formats import FORMATS, HOLDABLE, Report, read, write
from hardner.types import Document


def _show_formats(wanted: bool) -> None:
    if not wanted:
        return
    table = plain_table("format", "file endings", "also keeps", "what it is")
    for row in FORMATS.values():
        kept = ", ".join(thing for thing in HOLDABLE if thing in row.holds) or "-"
        kept = "read only" if row.write is None else "written only" if row.read is None else kept
        table.add_row(row.name, " ".join(row.endings), kept, escape(row.about))
    Console().print(table)
    raise typer.Exit


def convert_command(
    source: Annotated[str, Argument(metavar="IN", help="A file or folder; - is stdin.")],
    target: Annotated[str, Argument(metavar="OUT", help="A file or folder; - is stdout.")],
    source_format: SOURCE_FORMAT_OPTION = None,
    encoding: ENCODING_OPTION = None,
    target_format: TARGET_FORMAT_OPTION = None,
    source_scheme: Annotated[
        str | None,
        Option(
            "--from-scheme",
            metavar="SCHEME",
            callback=check_scheme,
            help="Tag scheme of CoNLL input; default: auto-detected.",
        ),
    ] = None,
    target_scheme: TARGET_SCHEME_OPTION = None,
    strict: Annotated[
        bool, Option("--strict", help="Stop at the first annotation that would be lost or changed.")
    ] = False,
    formats: Annotated[
        bool, Option("--formats", callback=_show_formats, is_eager=True, help="List the formats.")
    ] = False,
) -> None:
    """Convert annotated text from one format to another.

    Files may be compressed (.gz, .xz). A warning counts what the new format cannot hold. OUT is
    written whole, or not at all.

    Examples:

    - `hardner convert examples/devices-train.jsonl devices.tsv`
    - `hardner convert corpus.pubtator brat-folder/`
    - `hardner convert train.tsv.xz - --to prodigy | head`
    - `hardner convert iob2.tsv iobes.tsv --scheme IOBES --strict`
    """
    check_not_read(target, source)
    report = Report(strict)
    documents = mentions = 0
    with document_counter() as tick:

        def counted() -> Iterator[Document]:
            nonlocal documents, mentions
            held = read(
                source, source_format, scheme=source_scheme, report=report, encoding=encoding
            )
            for document in held:
                documents += 1
                mentions += len(document.entities)
                tick(documents)
                yield document

        write(counted(), target, target_format, scheme=target_scheme, report=report)
    warn(report.lines())
    say(f"{source} -> {target}: {documents:,} documents, {mentions:,} mentions")
