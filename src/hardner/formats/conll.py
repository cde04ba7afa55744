"""CoNLL: a token and its tag a line, a blank line after each sentence.

Columns are parted by tabs or by spaces; the token stands in the first and the tag in the last. A
line that starts with ``#`` is a comment unless it has as many columns as the others and ends in a
tag. Sentences are documents of their own until the first ``-DOCSTART-`` line; from there on each
such line opens a document.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from hardner.errors import FileError, HardnerError
from hardner.files import LINE_LIMIT, PathLike, atomic_write, blocks, shown_path, stem
from hardner.formats.conll_columns import DOCSTART, ColumnReader, TaggedTokens, are_tagged_lines
from hardner.formats.format import Format, Place, Report, reporting
from hardner.formats.mention import short
from hardner.schemes import OUTSIDE, spans_to_tags, tags_to_spans
from hardner.text import Problem, sentences
from hardner.types import Document, Entity, Sentence, Span

REPAIRED = "invalid tag sequence repaired as conlleval does"
_SPACES_ONLY = re.compile(r"(?<=\n)[ \t]+(?=\n)")
_UNFIT = re.compile(r"[\t\r\n]")
_RUNS_KEPT = 1 << 16


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
        for sentence in _sentences(path, scheme, used, prefix):
            if sentence is not None:
                yield sentence


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
    table, spans = ColumnReader(path, report), _Spans(path, report, scheme)
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
            block = _SPACES_ONLY.sub("", block)
        joined = f"{rest}\n{block}" if rest else block
        first = first if rest else line
        whole, gap, rest = joined.rpartition("\n\n")
        if gap:
            yield first, whole
            first += whole.count("\n") + 2
        if len(rest) > LINE_LIMIT:
            message = "no blank line for so long; put one after each sentence"
            raise FileError(shown_path(path), message, first)
    yield first, rest


class _Spans:
    """Tags to spans; equal runs of tags between two O are converted once."""

    def __init__(self, path: PathLike, report: Report, scheme: str | None) -> None:
        self._path, self._report = path, report
        self._scheme, self._may_change = scheme or "IOB2", scheme is None
        self._seen: dict[tuple[str, ...], tuple[tuple[Span, ...], list[int]]] = {}

    def of(self, rows: TaggedTokens) -> tuple[Span, ...]:
        spans: list[Span] = []
        inside = [index for index, tag in enumerate(rows.tags) if tag != OUTSIDE]
        first = last = inside[0]
        for index in (*inside[1:], -1):
            if index != last + 1:
                self._add(spans, rows, first, last + 1)
                first = index
            last = index
        return tuple(spans)

    def _add(self, spans: list[Span], rows: TaggedTokens, first: int, end: int) -> None:
        run = rows.tags[first:end]
        found, repaired = self._seen.get(run) or self._work_out(run)
        if repaired:
            place = Place(self._path, rows.lines[first + repaired[0]])
            self._report.add(REPAIRED, place, len(repaired))
        spans += [Span(first + start, first + stop, label) for start, stop, label in found]

    def _work_out(self, run: tuple[str, ...]) -> tuple[tuple[Span, ...], list[int]]:
        if self._may_change and any(tag[0] in "ES" for tag in run):
            self._scheme, self._may_change = "IOBES", False
            self._seen.clear()
        if len(self._seen) > _RUNS_KEPT:
            self._seen.clear()
        self._seen[run] = tags_to_spans(run, self._scheme)
        return self._seen[run]


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
                file.write(f"{DOCSTART}\tO\n\n")
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
        if not token.strip(" ") or token.startswith(DOCSTART) or _UNFIT.search(token):
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
    sniff=are_tagged_lines,
    holds=frozenset({"sentences"}),
    tagged=True,
)
