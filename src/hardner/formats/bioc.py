"""BioC, as XML or JSON, through the library ``bioc``.

A document's text is its passages at their offsets, with line breaks in the gaps; a passage without
a type is text only. Concepts stand in the infon ``identifier``, scores in ``score``.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from hardner.files import LINE_LIMIT, PathLike, atomic_binary, atomic_write
from hardner.formats.format import (
    HOLDABLE,
    Format,
    Place,
    Report,
    check_document,
    make_mention,
    parse_offset,
)
from hardner.formats.json_records import JsonCursor, Record
from hardner.formats.xml import element_text, iterate_xml
from hardner.types import Document, Entity, Passage

_DOCUMENTS = ("documents", "PubTator3")
_READ = {"type", "identifier", "Identifier", "score"}
_LISTS = {"passage", "sentence", "annotation", "relation", "location"}
_TEXTS = {"id", "offset", "length", "text"}


def _read_xml(path: PathLike, report: Report) -> Iterator[Document]:
    for element, place in iterate_xml(path, "document"):
        yield _document(Record({"passages": [], **_fields(element, place)}, place), report)


def _fields(element: Any, place: Place) -> dict[str, Any]:
    """An element of the XML as BioC's JSON has it."""
    fields: dict[str, Any] = {key: value for key, value in element.items() if key in _TEXTS}
    fields["infons"] = {}
    for child in element:
        if child.tag in _LISTS:
            fields.setdefault(f"{child.tag}s", []).append(_fields(child, place))
        elif child.tag == "infon":
            fields["infons"][child.get("key")] = element_text(child, place)
        elif child.tag in _TEXTS:
            fields[child.tag] = element_text(child, place)
    return fields


def _read_json(path: PathLike, report: Report) -> Iterator[Document]:
    cursor = JsonCursor(path)
    cursor.expect("{")
    while cursor.peek() != "}":
        key = cursor.value()
        cursor.expect(":")
        if key not in _DOCUMENTS:
            cursor.value()
        else:
            for place, value in cursor.items():
                yield _document(Record(value, place), report)
        if cursor.peek() != "}":
            cursor.expect(",")
    cursor.expect("}")
    cursor.expect_end()


def _document(source: Record, report: Report) -> Document:
    if "passages" not in source.fields:
        raise source.place.error('not a BioC document: it has no "passages"')
    name = source.string("id")
    place = source.place._replace(document=name)
    source = Record(source.fields, place)
    parts: list[str] = []
    passages, holders, end = [], [source], 0
    for passage in source.records("passages"):
        start, sentences = (
            parse_offset(passage.fields.get("offset"), place),
            passage.records("sentences"),
        )
        for part in [passage] if passage.string("text") or not sentences else sentences:
            at = parse_offset(part.fields.get("offset"), place)
            if not end <= at <= LINE_LIMIT:
                problem = "overlaps the one before or is out of bounds"
                raise place.error(f"the passage at {at} {problem}")
            parts += ["\n" * (at - end), part.string("text")]
            end = at + len(parts[-1])
        infons = _infons(passage)
        if "type" in infons:
            passages.append(Passage(start, max(start, end), infons["type"]))
        if sentences:
            report.note("sentence bounds not kept", place)
        holders += [passage, *sentences]
    text = "".join(parts)
    entities: list[Entity] = []
    for holder in holders:
        if relations := holder.items("relations"):
            report.add("relation left out", place, len(relations))
        found = (_entity(annotation, text, report) for annotation in holder.records("annotations"))
        entities += [entity for entity in found if entity is not None]
    if any(_infons(holder).keys() - _READ for holder in holders):
        report.note("infons of a document or passage not kept", place)
    document = Document(name, text, tuple(entities), passages=tuple(passages))
    check_document(document, place)
    return document


def _infons(holder: Record) -> dict[str, str]:
    infons = holder.fields.get("infons") or {}
    if not isinstance(infons, dict):
        raise holder.place.error('"infons" is not an object')
    return {key: "" if value is None else str(value) for key, value in infons.items()}


def _entity(source: Record, text: str, report: Report) -> Entity | None:
    place, infons = source.place, _infons(source)
    if not (locations := source.records("locations")):
        report.add("annotation without a location left out", place)
        return None
    if "type" not in infons:
        raise place.error(f"annotation {source.string('id')} has no type")
    if infons.keys() - _READ:
        report.note("infons of a mention beside type, identifier and score not kept", place)
    try:
        score = float(infons.get("score") or 1.0)
    except ValueError:
        raise place.error(f"the score {infons['score']!r} is not a number") from None
    ranges = []
    for location in locations:
        start = parse_offset(location.fields.get("offset"), place)
        ranges.append((start, start + parse_offset(location.fields.get("length"), place)))
    return make_mention(
        place,
        text,
        ranges,
        infons["type"],
        quoted=source.string("text") or None,
        score=score,
        identifier=infons.get("identifier") or infons.get("Identifier", ""),
    )


def _write_xml(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    from bioc.biocxml.encoder import BioCXMLDocumentWriter

    with atomic_binary(path) as file:
        writer = BioCXMLDocumentWriter(file, encoding="UTF-8")
        try:
            writer.write_collection_info(_collection())
            for document in documents:
                place = Place(path, document=document.id)
                try:
                    writer.write_document(_encoded(document, report, place))
                except ValueError:
                    raise place.error("holds a control character: XML cannot hold it") from None
        finally:
            writer.close()


def _write_json(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    from bioc import biocjson

    opening, closing = json.dumps(biocjson.toJSON(_collection())).split("[]")
    with atomic_write(path) as file:
        file.write(opening + "[")
        for number, document in enumerate(documents):
            encoded = _encoded(document, report, Place(path, document=document.id))
            content = json.dumps(biocjson.toJSON(encoded), ensure_ascii=False)
            file.write((",\n" if number else "\n") + content)
        file.write("\n]" + closing + "\n")


def _collection() -> Any:
    from bioc import BioCCollection

    collection = BioCCollection()
    collection.date = ""  # so that the same documents always give the same file
    return collection


def _encoded(document: Document, report: Report, place: Place) -> Any:
    from bioc import BioCDocument, BioCPassage

    result = BioCDocument()
    result.id = document.id
    for start, end, kind in _passages(document, report, place):
        passage = BioCPassage.of_text(document.text[start:end], start)
        if kind is not None:
            passage.infons["type"] = kind
        result.add_passage(passage)
    starts = [passage.offset for passage in result.passages]
    for number, entity in enumerate(document.entities, 1):
        holder = result.passages[bisect_right(starts, entity.start) - 1]
        inside = holder.offset <= entity.start and entity.end <= holder.offset + len(holder.text)
        annotation = _annotation(entity, str(number), document.text[entity.start : entity.end])
        (holder if inside else result).add_annotation(annotation)
    return result


def _annotation(entity: Entity, name: str, text: str) -> Any:
    from bioc import BioCAnnotation, BioCLocation

    annotation = BioCAnnotation()
    annotation.id, annotation.text = name, text
    annotation.infons["type"] = entity.label
    if entity.identifier:
        annotation.infons["identifier"] = entity.identifier
    if entity.score != 1.0:
        annotation.infons["score"] = repr(entity.score)
    for start, end in entity.ranges:
        annotation.add_location(BioCLocation(start, end - start))
    return annotation


def _passages(
    document: Document, report: Report, place: Place
) -> Iterator[tuple[int, int, str | None]]:
    """Start, end and kind of the passages; the text between them has the kind None."""
    passages = document.passages
    if any(left.end > right.start for left, right in pairwise(passages)):
        report.note("passages that overlap not kept", place)
        passages = ()
    at = 0
    for start, end, kind in passages:
        gap = document.text[at:start]
        if gap.strip():
            yield at, start, None
        elif gap.strip("\n"):
            report.note("white space between passages written as line breaks", place)
        yield start, end, kind
        at = end
    if at < len(document.text) or not passages:
        yield at, len(document.text), None


_HOLDS = frozenset(HOLDABLE) - {"sentences", "states"}
BIOC_XML = Format(
    "bioc",
    (".xml",),
    "BioC XML",
    _read_xml,
    _write_xml,
    sniff=lambda start: "<collection" in start and "<document" in start,
    holds=_HOLDS,
)
BIOC_JSON = Format(
    "biocjson",
    (".bioc.json", ".json"),
    "BioC JSON",
    _read_json,
    _write_json,
    sniff=lambda start: (
        start.lstrip().startswith("{") and any(f'"{k}"' in start for k in _DOCUMENTS)
    ),
    holds=_HOLDS,
)
