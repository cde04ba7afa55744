"""The columns of a CoNLL file: lines cut into tokens and tags, equal lines only once."""

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from hardner.errors import HardnerError
from hardner.files import PathLike
from hardner.formats.format import Place, Report
from hardner.formats.mention import short
from hardner.schemes import parse_tag

DOCSTART = "-DOCSTART-"
_GAP = re.compile(r"[ \t]+")
_LABEL_STUDIO = " -X- _ "
"""Between a token and its tag, whose label may hold spaces."""
_LINES_KEPT = 1 << 16


TABLE_HINT = '; of a table of texts, make JSON lines: {"text": ...}'


class TaggedTokens(NamedTuple):
    """The tokens and tags of a sentence and the lines they stand on."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    lines: Sequence[int]


class _Odd(Exception):
    """A line that is not a token and a tag in the columns seen before; says what is wrong."""


class _Cells(dict[str, tuple[str, str]]):
    """The token and the tag of each line; equal lines are cut and checked once."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self._by_tabs = "\t" in first
        self.width = max(2, len(cut_columns(first, self._by_tabs)))

    def __missing__(self, row: str) -> tuple[str, str]:
        cells = cut_columns(row, self._by_tabs)
        token, tag = cells[0], cells[-1]
        if len(cells) != self.width:
            first = "one column where a token and its tag are needed"
            plural = "s" * (len(cells) > 1)
            seen = f"{len(cells)} column{plural} where {self.width} were seen before"
            raise _Odd(seen if self else first)
        if not token.strip(" "):
            raise _Odd("a tag without a token")
        if not is_tag(tag):
            raise _Odd(f"{short(tag)} is not a tag" if tag else "a token without a tag")
        if row.startswith(DOCSTART):
            raise _Odd("a new document starts")
        if len(self) > _LINES_KEPT:
            self.clear()
        self[row] = pair = sys.intern(token), sys.intern(tag)
        return pair


class ColumnReader:
    """Cuts runs of lines into sentences; the first line with a token sets the columns."""

    def __init__(self, path: PathLike, report: Report) -> None:
        self._path, self._report = path, report
        self._cells: _Cells | None = None

    def read(self, chunk: str, line: int) -> list[TaggedTokens | None]:
        """The sentences in a run of lines; None where a document starts."""
        rows = chunk.split("\n")
        try:
            cells = list(map(self._cells.__getitem__, rows)) if self._cells else []
        except _Odd:
            cells = []
        if not cells:
            return self._read_slowly(rows, line)
        tokens, tags = zip(*cells, strict=True)
        return [TaggedTokens(tokens, tags, range(line, line + len(rows)))]

    def _read_slowly(self, rows: list[str], line: int) -> list[TaggedTokens | None]:
        """As :meth:`read`, for runs with comments, document starts and more than one blank line."""
        found: list[TaggedTokens | None] = []
        kept: list[tuple[str, str, int]] = []

        def close() -> None:
            if kept:
                found.append(TaggedTokens(*zip(*kept, strict=True)))
                kept.clear()

        for number, row in enumerate(rows, line):
            if row.startswith(DOCSTART):
                close()
                found.append(None)
            elif not row.strip(" \t"):
                close()
            elif cells := self._pair(row, Place(self._path, number)):
                kept.append((*cells, number))
        close()
        return found

    def _pair(self, row: str, place: Place) -> tuple[str, str] | None:
        """The token and the tag; None where the line is a comment."""
        table = self._cells or _Cells(row)
        try:
            pair = table[row]
        except _Odd as odd:
            if row.startswith("#"):
                self._report.note("comment not kept", place)
                return None
            raise place.error(f"{odd}{TABLE_HINT if self._cells is None else ''}") from None
        if self._cells is None:
            self._cells = table
            if table.width > 2:
                self._report.note("columns between the token and the tag not kept", place)
        return pair


def cut_columns(row: str, by_tabs: bool) -> list[str]:
    """The columns of a line, separated by tabs or by any white space."""
    token, middle, tag = row.partition(_LABEL_STUDIO)
    if middle:
        return [token, *middle.split(), tag.rstrip(" ")]
    cells = row.split("\t") if by_tabs else _GAP.split(row.strip(" \t"))
    cells[-1] = cells[-1].rstrip(" ")
    return cells


def is_tag(text: str) -> bool:
    """Whether the text is a tag of any scheme."""
    try:
        parse_tag(text)
    except HardnerError:
        return False
    return True


def are_tagged_lines(start: str) -> bool:
    """Whether all lines have as many columns and end in a tag."""
    rows = [row.rstrip("\r") for row in start.split("\n")[:200] if row.strip()]
    rows = rows[: max(2, len(rows) - 1)]  # the last of many may be cut
    table = [cut_columns(row, "\t" in row) for row in rows if not row.startswith((DOCSTART, "#"))]
    widths = {len(columns) for columns in table}
    certain = len(table) > 1 or "\t" in start  # one line that ends in "vitamin B" is prose
    tagged = all(is_tag(columns[-1]) for columns in table)
    return certain and tagged and len(widths) == 1 and min(widths) > 1
