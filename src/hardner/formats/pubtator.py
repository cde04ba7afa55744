"""PubTator: ``PMID|t|title``, ``PMID|a|abstract``, then a mention a line, tab-separated.

The abstract starts one character after the title. A document without an ``|a|`` line has no
passages: its title line is its whole text.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

from hardner.files import LINE_LIMIT, PathLike, atomic_write, lines
from hardner.formats.format import (
    Format,
    Place,
    Report,
    make_mention,
    on_one_line,
    parse_range,
    short,
)
from hardner.types import Document, Entity, Passage

_TEXT = re.compile(r"([^\t|]+)\|([ta])\|(.*)")
_NUMBER = re.compile(r"-?[0-9]+")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    rows = ((Place(path, number), line) for number, line in lines(path))
    for filled, block in groupby(rows, lambda row: bool(row[1].strip())):
        if filled:
            yield _document(_bounded(block), report)


def _bounded(block: Iterable[tuple[Place, str]]) -> Iterator[tuple[Place, str]]:
    size = 0
    for place, line in block:
        size += len(line)
        if size > LINE_LIMIT:
            raise place.error("no blank line for so long; put one after each document")
        yield place, line


def _document(rows: Iterator[tuple[Place, str]], report: Report) -> Document:
    parts: dict[str, str] = {}
    name = ""
    for place, line in rows:
        if len(parts) == 2 or (found := _TEXT.fullmatch(line)) is None:
            rows = chain([(place, line)], rows)
            break
        if found[2] in parts or (name and found[1] != name):
            raise place.error("a second title or abstract in one document")
        name, parts[found[2]] = found[1], found[3]
    if "t" not in parts:
        raise place.error("no title: a document starts with a line ID|t|TITLE")
    text = "\n".join(parts[kind] for kind in "ta" if parts.get(kind) or kind == "t")
    passages = tuple(_passages(parts["t"], parts.get("a")))
    mentions = (_entity(line.split("\t"), name, text, place, report) for place, line in rows)
    entities = tuple(entity for entity in mentions if entity is not None)
    return Document(name, text, entities, passages=passages)


def _entity(cells: list[str], name: str, text: str, place: Place, report: Report) -> Entity | None:
    if cells[0] != name:
        raise place.error(
            f"the id {short(cells[0])} in document {short(name)}; put a blank line between two"
        )
    if len(cells) > 3 and not all(_NUMBER.fullmatch(cell) for cell in cells[1:3]):
        report.add("relation left out", place)
        return None
    if len(cells) < 5:
        raise place.error(f"{len(cells)} columns where a mention needs 5 or 6")
    start, end, quoted, label, *more = cells[1:]
    if more[1:]:
        report.note("columns after the concept identifier not kept", place)
    identifier = more[0] if more and more[0] != "-" else ""
    ranges = [parse_range(start, end, place)]
    return make_mention(place, text, ranges, label, quoted=quoted, identifier=identifier)


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    with atomic_write(path) as file:
        for document in documents:
            file.write(_block(document, report, Place(path, document=document.id)) + "\n")


def _block(document: Document, report: Report, place: Place) -> str:
    name, text = document.id, on_one_line(document.text)
    if not name or re.search(r"[\s|]", name):
        raise place.error("a PubTator id is not empty and has neither spaces nor |")
    end = _title_end(document)
    parts = [text] if end is None else [text[:end], text[end + 1 :]]
    if "\n".join(parts[:1] + [part for part in parts[1:] if part]) != document.text:
        report.note("line breaks and tabs written as spaces", place)
    if document.passages != tuple(_passages(*parts)):
        report.note("passages beside title and abstract not kept", place)
    rows = [f"{name}|{kind}|{part}" for kind, part in zip("ta", parts, strict=False)]
    for entity in document.entities:
        label, identifier = on_one_line(entity.label), on_one_line(entity.identifier)
        if (label, identifier) != (entity.label, entity.identifier):
            report.add("label or identifier rewritten without tabs and line breaks", place)
        if identifier == "-":
            report.add("concept identifier '-' left out, as PubTator means none by it", place)
        cells = (str(entity.start), str(entity.end), on_one_line(entity.text), label)
        rows.append("\t".join((name, *cells, identifier or "-")))
    return "\n".join(rows) + "\n"


def _passages(title: str, abstract: str | None = None) -> Iterator[Passage]:
    if abstract is not None:
        yield Passage(0, len(title), "title")
    if abstract:
        yield Passage(len(title) + 1, len(title) + 1 + len(abstract), "abstract")


def _title_end(document: Document) -> int | None:
    """Where the title ends, if there is one and the rest starts one character after it."""
    if not document.passages:
        return None
    title, *others = sorted(document.passages)
    follows = others[0].start == title.end + 1 if others else title.end == len(document.text)
    return title.end if (title.start, title.kind) == (0, "title") and follows else None


PUBTATOR = Format(
    "pubtator",
    (".pubtator", ".pubtator.txt", ".txt"),
    "PubTator: titles and abstracts with concepts",
    _read,
    _write,
    sniff=re.compile(r"\s*[^\s|][^\t|\n]*\|t\|").match,
    holds=frozenset({"ids", "passages", "identifiers", "overlaps"}),
)
