"""CoNLL: a token and its tag a line, a blank line after each sentence.

Columns are parted by tabs or by spaces; the token stands in the first and the tag in the last. A
line that starts with ``#`` is a comment unless it has as many columns as the others and ends in a
tag. Sentences are documents of their own until the first ``-DOCSTART-`` line; from there on each
such line opens a document.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from hardner.errors import HardnerError
from hardner.files import LINE_LIMIT, PathLike, atomic_write, lines, stem
from hardner.formats.format import Format, Place, Report, reporting, short
from hardner.schemes import OUTSIDE, parse_tag, spans_to_tags, tags_to_spans
from hardner.text import Problem, sentences
from hardner.types import Document, Entity, Sentence, Span

REPAIRED = "invalid tag sequence repaired as conlleval does"
TABLE_HINT = '; of a table of texts, make JSON lines: {"text": ...}'
_DOCSTART = "-DOCSTART-"
_LABEL_STUDIO = " -X- _ "
"""Between a token and its tag, whose label may hold spaces."""
_GAP = re.compile(r"[ \t]+")
_UNFIT = re.compile(r"[\t\r\n]")
_KEPT = 1 << 16
"""Lines and runs of tags that are cut and converted once."""
_LONGEST_KEPT = 200


def read_sentences(
    path: PathLike,
    *,
    scheme: str | None = None,
    strict: bool = False,
    report: Report | None = None,
    prefix: str = "",
) -> Iterator[Sentence]:
    """The sentences of a CoNLL file, faster than by way of documents.

    Args:
        scheme: The tags' scheme; by default IOB2, and IOBES from the first ``E-`` or ``S-`` on.
        strict: Raise an error at an invalid tag sequence; otherwise it is repaired and counted.
        report: Keeps the counts; without one, they become Python warnings at the end.
        prefix: Stands before each sentence's id, which is its number in the file from 1.
    """
    with reporting(strict, report) as used:
        yield from filter(None, _sentences(path, scheme, used, prefix))


def _read(path: PathLike, report: Report, scheme: str | None = None) -> Iterator[Document]:
    number, grouped = 0, False
    held: list[Sentence] = []
    for sentence in chain(_sentences(path, scheme, report), [None]):
        if sentence is not None:
            held.append(sentence)
        if held and (sentence is None or not grouped):
            number += 1
            yield join_sentences(f"{stem(path)}-{number}", held)
            held = []
        grouped = grouped or sentence is None


def join_sentences(name: str, sentences: Sequence[Sentence]) -> Document:
    """Sentences as running text: a space between tokens, a line break between sentences."""
    text = "\n".join(" ".join(sentence.tokens) for sentence in sentences)
    placed, entities, at = [], [], 0
    for sentence in sentences:
        offsets = []
        for token in sentence.tokens:
            offsets.append((at, at + len(token)))
            at += len(token) + 1
        placed.append(Sentence(sentence.tokens, sentence.spans, sentence.id, tuple(offsets)))
        for first, last, label in sentence.spans:
            start, end = offsets[first][0], offsets[last - 1][1]
            entities.append(Entity(start, end, label, text[start:end]))
    return Document(name, text, tuple(entities), tuple(placed))


def _sentences(
    path: PathLike, scheme: str | None, report: Report, prefix: str = ""
) -> Iterator[Sentence | None]:
    """The sentences of a file, None where a document starts."""
    columns, spans = _Columns(path, report), _Spans(path, scheme, report)
    number = size = 0
    tokens: list[str] = []
    tags: list[str] = []
    numbers: list[int] = []
    for line, row in chain(lines(path), [(0, "")]):
        pair = columns.get(row)
        if pair is None:
            opens = row.startswith(_DOCSTART)
            if opens or not row.strip(" \t"):
                if tokens:
                    number += 1
                    yield Sentence(tuple(tokens), spans.of(tags, numbers), f"{prefix}{number}")
                    tokens, tags, numbers, size = [], [], [], 0
                if opens:
                    yield None
                continue
            pair = columns.cut(row, line)
            if pair is None:
                continue
        tokens.append(pair[0])
        tags.append(pair[1])
        numbers.append(line)
        size += len(row)
        if size > LINE_LIMIT:
            problem = "no blank line for so long; put one after each sentence"
            raise Place(path, numbers[0]).error(problem)
    if not number:
        raise Place(path).error("holds no sentences")


class _Columns(dict[str, tuple[str, str]]):
    """The token and the tag of lines, equal ones cut once; the first line sets the columns."""

    def __init__(self, path: PathLike, report: Report) -> None:
        super().__init__()
        self._path, self._report = path, report
        self._width = 0
        self._by_tabs = False

    def cut(self, row: str, line: int) -> tuple[str, str] | None:
        """The token and the tag of a new line; None where it is a comment."""
        place = Place(self._path, line)
        by_tabs = self._by_tabs if self._width else "\t" in row
        cells = _cut(row, by_tabs)
        if problem := self._problem(cells):
            if row.startswith("#"):
                self._report.note("comment not kept", place)
                return None
            raise place.error(problem if self._width else problem + TABLE_HINT)
        if not self._width and len(cells) > 2:
            self._report.note("columns between the token and the tag not kept", place)
        self._width, self._by_tabs = len(cells), by_tabs
        pair = sys.intern(cells[0]), sys.intern(cells[-1])
        if len(self) >= _KEPT:
            self.clear()
        if len(row) <= _LONGEST_KEPT:
            self[row] = pair
        return pair

    def _problem(self, cells: list[str]) -> str:
        if self._width and len(cells) != self._width:
            plural = "s" * (len(cells) > 1)
            return f"{len(cells)} column{plural} where {self._width} were seen before"
        if len(cells) == 1:
            return "one column where a token and its tag are needed"
        if not cells[0].strip(" "):
            return "a tag without a token"
        if not cells[-1]:
            return "a token without a tag"
        return "" if _is_tag(cells[-1]) else f"{short(cells[-1])} is not a tag"


def _cut(row: str, by_tabs: bool) -> list[str]:
    """The columns of a line, separated by tabs or by any white space."""
    token, middle, tag = row.partition(_LABEL_STUDIO)
    if middle and not by_tabs:
        return [token, *middle.split(), tag.rstrip(" ")]
    cells = row.split("\t") if by_tabs else _GAP.split(row.strip(" \t"))
    cells[-1] = cells[-1].rstrip(" ")
    return cells


def _is_tag(text: str) -> bool:
    """Whether the text is a tag of any scheme."""
    try:
        parse_tag(text)
    except HardnerError:
        return False
    return True


def _are_tagged_lines(start: str) -> bool:
    """Whether all lines have as many columns and end in a tag."""
    rows = [row.rstrip("\r") for row in start.split("\n")[:200] if row.strip()]
    rows = rows[: max(2, len(rows) - 1)]  # the last of many may be cut
    table = [_cut(row, "\t" in row) for row in rows if not row.startswith((_DOCSTART, "#"))]
    widths = {len(columns) for columns in table}
    certain = len(table) > 1 or "\t" in start  # one line that ends in "vitamin B" is prose
    tagged = all(_is_tag(columns[-1]) for columns in table)
    return certain and tagged and len(widths) == 1 and min(widths) > 1


_spans_of_run = lru_cache(_KEPT)(tags_to_spans)


class _Spans:
    """Tags to spans, one run of tags between two O at a time, as runs come again and again."""

    def __init__(self, path: PathLike, scheme: str | None, report: Report) -> None:
        self._path, self._report = path, report
        self._scheme, self._may_change = scheme or "IOB2", scheme is None

    def of(self, tags: list[str], numbers: list[int]) -> tuple[Span, ...]:
        """The spans of a sentence, whose tokens stand on lines of these numbers."""
        if tags.count(OUTSIDE) == len(tags):
            return ()
        if self._may_change and any(tag[0] in "ES" for tag in tags):
            self._scheme, self._may_change = "IOBES", False
        spans: list[Span] = []
        start = 0
        for end in (*(i for i, tag in enumerate(tags) if tag == OUTSIDE), len(tags)):
            if start < end:
                found, repaired = _spans_of_run(tuple(tags[start:end]), self._scheme)
                spans += [Span(start + first, start + last, label) for first, last, label in found]
                if repaired:
                    place = Place(self._path, numbers[start + repaired[0]])
                    self._report.add(REPAIRED, place, len(repaired))
            start = end + 1
        return tuple(spans)


def _write(
    documents: Iterable[Document], path: PathLike, report: Report, scheme: str = "IOB2"
) -> None:
    grouped = False
    place, written = None, 0
    with atomic_write(path) as file:
        for document in documents:
            place = Place(path, document=document.id)
            found = _tokenized(document, report, place)
            grouped |= len(found) > 1
            if grouped:
                file.write(f"{_DOCSTART}\tO\n\n")
            for sentence in found:
                file.write(_lines(sentence, scheme, report, place))
            written += len(found)
        if place is not None and not written:
            raise place.error("has no token, and no other document has one: nothing to write")


def _tokenized(document: Document, report: Report, place: Place) -> Sequence[Sentence]:
    """The document's sentences, with spans made from its mentions where it has any."""
    own = document.sentences
    if document.entities and all(sentence.offsets is not None for sentence in own):
        document = replace(document, sentences=tuple(replace(s, spans=()) for s in own))

    def left_out(problem: Problem) -> None:
        report.add(f"mention left out that {problem.reason}", place)

    found = [sentence for sentence in sentences(document, left_out) if sentence.tokens]
    if not found:
        report.note("document without tokens left out", place)
    return found


def _lines(sentence: Sentence, scheme: str, report: Report, place: Place) -> str:
    for token in sentence.tokens:
        if not token.strip(" ") or token.startswith(_DOCSTART) or _UNFIT.search(token):
            raise place.error(f"the token {short(token)} cannot stand in a CoNLL file")
    spans = [_plain(span, report, place) for span in sentence.spans]
    if scheme == "IO":
        spans = _merged(spans, report, place)
    try:
        tags = spans_to_tags(spans, len(sentence.tokens), scheme)
    except HardnerError as error:
        raise place.error(str(error)) from None
    rows = zip(sentence.tokens, tags, strict=True)
    return "".join(f"{token}\t{tag}\n" for token, tag in rows) + "\n"


def _plain(span: Span, report: Report, place: Place) -> Span:
    label = "_".join(span.label.split()) if _UNFIT.search(span.label) else span.label
    if label.rstrip(" ") != span.label:
        report.add(f"label {short(span.label)} rewritten without white space", place)
        return span._replace(label=label.rstrip(" "))
    return span


def _merged(spans: Sequence[Span], report: Report, place: Place) -> list[Span]:
    """Mentions of one label that touch become one, as the scheme IO cannot tell them apart."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and merged[-1].end == span.start and merged[-1].label == span.label:
            report.add("mention merged with the one before it, as IO does", place)
            merged[-1] = merged[-1]._replace(end=span.end)
        else:
            merged.append(span)
    return merged


CONLL = Format(
    "conll",
    (".tsv", ".conll", ".iob", ".iob2", ".bio", ".txt"),
    "CoNLL: a token and its tag a line",
    _read,
    _write,
    sniff=_are_tagged_lines,
    holds=frozenset({"sentences"}),
    tagged=True,
)
