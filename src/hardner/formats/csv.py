"""A table for spreadsheets and data frames: a row for each mention. Written only."""

import csv
from collections.abc import Iterable

from hardner.files import PathLike, atomic_write
from hardner.formats.format import HOLDABLE, Format, Report
from hardner.types import Document

_COLUMNS = ("document", "start", "end", "label", "text", "score")


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    with atomic_write(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_COLUMNS)
        for document in documents:
            for e in document.entities:
                rows.writerow((document.id, e.start, e.end, e.label, e.text, e.score))


CSV = Format(
    "csv",
    (".csv",),
    "a table with a row for each mention, for spreadsheets and data frames",
    write=_write,
    # Whoever asks for a table of mentions does not miss sentences and passages.
    holds=frozenset(HOLDABLE) - {"identifiers", "fragments"},
)
