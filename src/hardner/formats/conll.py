"""CoNLL: a token and its tag a line, a blank line after each sentence.

Columns are parted by tabs or by spaces; the token stands in the first and the tag in the last. A
line that starts with ``#`` is a comment unless it has as many columns as the others and ends in a
tag. Sentences are documents of their own until the first ``-DOCSTART-`` line; from there on each
such line opens a document.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hardner.errors import FileError, HardnerError
from hardner.files import LINE_LIMIT, PathLike, blocks, shown_path, stem
from hardner.formats.mention import short
from hardner.formats.report import Place, Report, reporting
from hardner.schemes import OUTSIDE, parse_tag, tags_to_spans
from hardner.types import Document, Entity, Sentence, Span

DOCSTART = "-DOCSTART-"
_GAP = re.compile(r"[ \t]+")
_REPAIRED = "invalid tag sequence repaired as conlleval does"
_BLANK = re.compile(r"(?<=\n)[ \t]+(?=\n)")
_ROWS_KEPT = _RUNS_KEPT = 1 << 16


def read_sentences(
    path: PathLike,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
    prefix: str = "",
) -> Iterator[Sentence]:
    """The sentences of a file, without the detour over documents.

    Args:
        scheme: The tags' scheme; by default IOB2, and IOBES from the first ``E-`` or ``S-`` on.
        prefix: What each sentence's id, its number in the file from 1, is preceded by.
    """
    with reporting(strict, report) as used:
        for sentence in _sentences(path, scheme, used, prefix):
            if sentence is not None:
                yield sentence


def read(path: PathLike, report: Report, scheme: str | None = None) -> Iterator[Document]:
    name, number = stem(path), 0
    held: list[Sentence] | None = None
    for sentence in _sentences(path, scheme, report):
        if held is None and sentence is not None:
            number += 1
            yield document_of(f"{name}-{number}", [sentence])
        elif sentence is not None and held is not None:
            held.append(sentence)
        else:
            if held:
                number += 1
                yield document_of(f"{name}-{number}", held)
            held = []
    if held:
        yield document_of(f"{name}-{number + 1}", held)


def document_of(name: str, sentences: Sequence[Sentence]) -> Document:
    """Sentences as running text: a space between tokens, a line break between sentences."""
    placed: list[Sentence] = []
    entities: list[Entity] = []
    at = 0
    for sentence in sentences:
        offsets = []
        for token in sentence.tokens:
            offsets.append((at, at + len(token)))
            at += len(token) + 1
        placed.append(Sentence(sentence.tokens, sentence.spans, sentence.id, tuple(offsets)))
        for first, last, label in sentence.spans:
            text = " ".join(sentence.tokens[first:last])
            entities.append(Entity(offsets[first][0], offsets[last - 1][1], label, text))
    text = "\n".join(" ".join(sentence.tokens) for sentence in sentences)
    return Document(name, text, tuple(entities), tuple(placed))


def sniff(head: str) -> bool:
    """Whether the lines have the same columns and end in a tag; the last of many may be cut."""
    rows = [row.rstrip("\r") for row in head.split("\n")[:200] if row.strip()]
    rows = [row for row in rows[: max(2, len(rows) - 1)] if not row.startswith((DOCSTART, "#"))]
    table = [_cut(row, "\t" if "\t" in row else " ") for row in rows]
    widths = {len(columns) for columns in table}
    surely = len(table) > 1 or "\t" in head  # one line that ends in "vitamin B" is prose
    tagged = all(_is_tag(columns[-1]) for columns in table)
    return surely and tagged and len(widths) == 1 and min(widths) > 1


class Rows(NamedTuple):
    """The tokens and tags of a sentence and the lines they stand on."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    lines: Sequence[int]


def _sentences(
    path: PathLike, scheme: str | None, report: Report, prefix: str = ""
) -> Iterator[Sentence | None]:
    """The sentences; None where a document starts."""
    table, spans = _Table(path, report), _Spans(path, report, scheme)
    number = 0
    for line, text in _whole_sentences(path):
        for chunk in text.split("\n\n"):
            for rows in table.read(chunk, line):
                if rows is None:
                    yield None
                    continue
                number += 1
                found = spans.of(rows) if rows.tags.count(OUTSIDE) < len(rows.tags) else ()
                yield Sentence(rows.tokens, found, f"{prefix}{number}")
            line += chunk.count("\n") + 2
    if not number:
        raise FileError(shown_path(path), "holds no sentences")


def _whole_sentences(path: PathLike) -> Iterator[tuple[int, str]]:
    """Blocks of lines that no sentence crosses the edges of, each with its first line's number."""
    first, rest = 1, ""
    for line, block in blocks(path):
        if "\n " in block or "\n\t" in block:
            block = _BLANK.sub("", block)
        joined = f"{rest}\n{block}" if rest else block
        first = first if rest else line
        whole, gap, rest = joined.rpartition("\n\n")
        if gap:
            yield first, whole
            first += whole.count("\n") + 2
        if len(rest) > LINE_LIMIT:
            raise FileError(
                shown_path(path), "no blank line in sight: are sentences not apart?", first
            )
    yield first, rest


class _Odd(Exception):
    """A line that is no token and tag of the columns seen before."""


class _Cells(dict[str, tuple[str, str]]):
    """The token and the tag of each line; the same line is cut and checked once."""

    def __init__(self, separator: str, width: int) -> None:
        super().__init__()
        self._separator, self.width = separator, width

    def __missing__(self, row: str) -> tuple[str, str]:
        cells = _cut(row, self._separator)
        token, tag = cells[0], cells[-1]
        if len(cells) != self.width or not token.strip(" ") or not _is_tag(tag):
            raise _Odd
        if row.startswith(DOCSTART):
            raise _Odd
        if len(self) > _ROWS_KEPT:
            self.clear()
        self[row] = pair = sys.intern(token), sys.intern(tag)
        return pair

    def complaint(self, row: str) -> str:
        """What is odd about the line."""
        cells = _cut(row, self._separator)
        if len(cells) != self.width and not self:
            return "one column where a token and its tag are needed"
        if len(cells) != self.width:
            plural = "s" * (len(cells) > 1)
            return f"{len(cells)} column{plural} where {self.width} were seen before"
        if not cells[0].strip(" "):
            return "a tag without a token"
        return f"{short(cells[-1])} is not a tag" if cells[-1] else "a token without a tag"


class _Table:
    """Cuts runs of lines into sentences; the first line with a token sets the columns."""

    def __init__(self, path: PathLike, report: Report) -> None:
        self._path, self._report = path, report
        self._cells: _Cells | None = None

    def read(self, chunk: str, line: int) -> list[Rows | None]:
        """The sentences in a run of lines; None where a document starts."""
        rows = chunk.split("\n")
        try:
            cells = list(map(self._cells.__getitem__, rows)) if self._cells else []
        except _Odd:
            cells = []
        if not cells:
            return self._read_slowly(rows, line)
        tokens, tags = zip(*cells, strict=True)
        return [Rows(tokens, tags, range(line, line + len(rows)))]

    def _read_slowly(self, rows: list[str], line: int) -> list[Rows | None]:
        """As :meth:`read`, for runs with comments, document starts and more than one blank line."""
        found: list[Rows | None] = []
        kept: list[tuple[str, str, int]] = []

        def close() -> None:
            if kept:
                found.append(Rows(*zip(*kept, strict=True)))
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
        table = self._cells or _first_cells(row)
        try:
            pair = table[row]
        except _Odd:
            if row.startswith("#"):
                self._report.note("comment not kept", place)
                return None
            raise place.error(table.complaint(row)) from None
        if self._cells is None:
            self._cells = table
            if table.width > 2:
                self._report.note("columns between the token and the tag not kept", place)
        return pair


def _first_cells(row: str) -> _Cells:
    separator = "\t" if "\t" in row else " "
    return _Cells(separator, max(2, len(_cut(row, separator))))


class _Spans:
    """Tags to spans; a run of tags between two O is worked out once."""

    def __init__(self, path: PathLike, report: Report, scheme: str | None) -> None:
        self._path, self._report = path, report
        self._scheme, self._may_change = scheme or "IOB2", scheme is None
        self._seen: dict[tuple[str, ...], tuple[tuple[Span, ...], list[int]]] = {}

    def of(self, rows: Rows) -> tuple[Span, ...]:
        spans: list[Span] = []
        inside = [index for index, tag in enumerate(rows.tags) if tag != OUTSIDE]
        first = last = inside[0]
        for index in (*inside[1:], -1):
            if index != last + 1:
                self._add(spans, rows, first, last + 1)
                first = index
            last = index
        return tuple(spans)

    def _add(self, spans: list[Span], rows: Rows, first: int, end: int) -> None:
        run = rows.tags[first:end]
        found, repaired = self._seen.get(run) or self._work_out(run)
        if repaired:
            place = Place(self._path, rows.lines[first + repaired[0]])
            self._report.add(_REPAIRED, place, len(repaired))
        spans += [Span(first + start, first + stop, label) for start, stop, label in found]

    def _work_out(self, run: tuple[str, ...]) -> tuple[tuple[Span, ...], list[int]]:
        if self._may_change and any(tag[0] in "ES" for tag in run):
            self._scheme, self._may_change = "IOBES", False
            self._seen.clear()
        if len(self._seen) > _RUNS_KEPT:
            self._seen.clear()
        self._seen[run] = tags_to_spans(run, self._scheme)
        return self._seen[run]


def _cut(row: str, separator: str) -> list[str]:
    cells = row.split("\t") if separator == "\t" else _GAP.split(row.strip(" \t"))
    cells[-1] = cells[-1].rstrip(" ")
    return cells


def _is_tag(text: str) -> bool:
    try:
        parse_tag(text)
    except HardnerError:
        return False
    return True
