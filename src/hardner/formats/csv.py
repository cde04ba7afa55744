"""A table for spreadsheets and data frames: a row for each mention. Written only."""

import csv
from collections.abc import Iterable
from typing import Any

from hardner.files import PathLike, atomic_write
from hardner.formats.format import HOLDABLE, Format, Report
from hardner.types import Document, Entity

MENTION_COLUMNS = ("document", "start", "end", "label", "text", "score")


def mention_record(document: str | int, entity: Entity) -> dict[str, Any]:
    """A row of the table."""
    values = (document, entity.start, entity.end, entity.label, entity.text, entity.score)
    return dict(zip(MENTION_COLUMNS, values, strict=True))


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    with atomic_write(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(MENTION_COLUMNS)
        for document in documents:
            for entity in document.entities:
                rows.writerow(mention_record(document.id, entity).values())


CSV = Format(
    "csv",
    (".csv",),
    "a table with a row for each mention, for spreadsheets and data frames",
    write=_write,
    # Whoever asks for a table of mentions does not miss sentences and passages.
    holds=frozenset(HOLDABLE) - {"identifiers", "fragments"},
)
