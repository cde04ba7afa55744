"""BioC, as XML or JSON, through the library ``bioc``.

A document's text is its passages at their offsets, with line breaks in the gaps; a passage without
a type is text only. Concepts stand in the infon ``identifier``, scores in ``score``.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from hardner.files import TEXT_LIMIT, PathLike, atomic_binary, atomic_write, open_binary
from hardner.formats.format import HOLDABLE, Format, Place, Report
from hardner.formats.json_records import JsonCursor
from hardner.formats.mention import make_mention, parse_offset
from hardner.types import Document, Entity, Passage

# The libraries for XML and BioC are imported when a file is read or written, as they take a while;
# they have no types.
SAFE_XML = {"resolve_entities": False, "no_network": True, "load_dtd": False}
"""For lxml: fetch nothing from outside the file, expand no entity."""
_DOCUMENTS = ("documents", "PubTator3")
_READ = {"type", "identifier", "Identifier", "score"}


def iterate_xml(path: PathLike, *tags: str, **options: Any) -> Iterator[tuple[Any, Place]]:
    """The elements with these tags and their places; each is freed when the next is asked for."""
    from lxml import etree

    with open_binary(path) as file:
        elements = etree.iterparse(file, tag=tags, **SAFE_XML, **options)
        try:
            for _, element in elements:
                yield element, Place(path, element.sourceline)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            first = next(iter(elements.error_log), None)  # the error itself may lack a line
            line, message = (first.line, first.message) if first else (None, error.msg)
            raise Place(path, line).error(f"not XML: {message}") from None


def _read_xml(path: PathLike, report: Report) -> Iterator[Document]:
    from bioc import biocxml
    from lxml import etree

    for element, place in iterate_xml(path, "document"):
        content = etree.tostring(element, encoding="unicode", with_tail=False)
        with _malformed(place):
            (found,) = biocxml.loads(f"<collection>{content}</collection>").documents
            document = _document(found, place, report)
        yield document


def _read_json(path: PathLike, report: Report) -> Iterator[Document]:
    from bioc import biocjson

    cursor = JsonCursor(path)
    cursor.expect("{")
    while cursor.peek() != "}":
        key = cursor.value()
        cursor.expect(":")
        if key not in _DOCUMENTS:
            cursor.value()
        else:
            for place, value in cursor.items():
                with _malformed(place):
                    document = _document(biocjson.fromJSON(value, "BioCDocument"), place, report)
                yield document
        if cursor.peek() != "}":
            cursor.expect(",")


@contextmanager
def _malformed(place: Place) -> Iterator[None]:
    """Turn what the library raises for a malformed document into an error with its place."""
    try:
        yield
    except SyntaxError as error:  # lxml's, of an entity that is not defined, for one
        raise place.error(f"not XML: {error.msg}") from None
    except KeyError as error:
        raise place.error(f"not a BioC document: it lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise place.error(f"not a BioC document: {error}") from None


def _document(source: Any, place: Place, report: Report) -> Document:
    place = place._replace(document=str(source.id or ""))
    text, passages, holders = "", [], [source]
    for passage in source.passages:
        start = parse_offset(passage.offset, place)
        for part in [passage] if passage.text or not passage.sentences else passage.sentences:
            text = _placed(text, parse_offset(part.offset, place), part.text or "", place)
        if "type" in passage.infons:
            kind = str(passage.infons["type"] or "")
            passages.append(Passage(start, max(start, len(text)), kind))
        if passage.sentences:
            report.note("sentence bounds not kept", place)
        holders += [passage, *passage.sentences]
    entities: list[Entity] = []
    for holder in holders:
        if holder.relations:
            report.add("relation left out", place, len(holder.relations))
        found = (_entity(annotation, text, place, report) for annotation in holder.annotations)
        entities += [entity for entity in found if entity is not None]
    if any(holder.infons.keys() - _READ for holder in holders):
        report.note("infons of a document or passage not kept", place)
    return Document(str(source.id or ""), text, tuple(entities), passages=tuple(passages))


def _placed(text: str, start: int, part: str, place: Place) -> str:
    if not len(text) <= start <= TEXT_LIMIT:
        raise place.error(f"the passage at {start} overlaps the one before or is out of bounds")
    return text + "\n" * (start - len(text)) + part


def _entity(source: Any, text: str, place: Place, report: Report) -> Entity | None:
    infons = {key: str(value) for key, value in source.infons.items() if value is not None}
    if not source.locations:
        report.add("annotation without a location left out", place)
        return None
    if "type" not in source.infons:
        raise place.error(f"annotation {source.id} has no type")
    if infons.keys() - _READ:
        report.note("infons of a mention beside type, identifier and score not kept", place)
    try:
        score = float(infons.get("score", 1.0))
    except ValueError:
        raise place.error(f"the score {infons['score']!r} is not a number") from None
    ranges = []
    for location in source.locations:
        start = parse_offset(location.offset, place)
        ranges.append((start, start + parse_offset(location.length, place)))
    label, name = infons.get("type", ""), infons.get("identifier") or infons.get("Identifier", "")
    return make_mention(
        place, text, ranges, label, quoted=source.text, score=score, identifier=name
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
