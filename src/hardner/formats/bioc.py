"""Reading BioC, as XML or JSON, through the library ``bioc``.

A document's text is its passages at their offsets, with line breaks in the gaps; a passage without
a type is text only. Concepts stand in the infon ``identifier``, scores in ``score``.
"""

from collections.abc import Callable, Iterator
from typing import Any

from bioc import BioCAnnotation, BioCDocument, BioCLocation, biocjson, biocxml
from lxml import etree  # type: ignore[import-untyped]

from hardner.files import TEXT_LIMIT, PathLike, open_binary
from hardner.formats.jsonstream import Cursor
from hardner.formats.mention import mention, offset
from hardner.formats.report import Place, Report
from hardner.types import Document, Entity, Offset, Passage

SAFE_XML = {"resolve_entities": False, "no_network": True, "load_dtd": False}
"""For lxml: nothing outside the file is fetched, no entity blows up."""
_DOCUMENTS = ("documents", "PubTator3")
_READ = {"type", "identifier", "Identifier", "score"}


def sniff_xml(head: str) -> bool:
    return "<collection" in head and "<document" in head


def sniff_json(head: str) -> bool:
    return head.lstrip().startswith("{") and any(f'"{key}"' in head for key in _DOCUMENTS)


def read_xml(path: PathLike, report: Report) -> Iterator[Document]:
    with open_binary(path) as file:
        try:
            for _, element in etree.iterparse(file, tag="document", **SAFE_XML):
                place = Place(path, element.sourceline)
                content = etree.tostring(element, encoding="unicode", with_tail=False)
                yield _converted(_from_xml, content, place, report)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise Place(path, error.lineno).error(f"not XML: {error.msg}") from None


def read_json(path: PathLike, report: Report) -> Iterator[Document]:
    cursor = Cursor(path)
    cursor.expect("{")
    while cursor.peek() != "}":
        key = cursor.value()
        cursor.expect(":")
        if key not in _DOCUMENTS:
            cursor.value()
        else:
            for place, value in cursor.items():
                yield _converted(_from_json, value, place, report)
        if cursor.peek() != "}":
            cursor.expect(",")


def _converted(
    decode: Callable[[Any], BioCDocument], source: Any, place: Place, report: Report
) -> Document:
    """The document; what the library or its objects raise where it is malformed, with its place."""
    try:
        return _document(decode(source), place, report)
    except KeyError as error:
        raise place.error(f"not a BioC document: it lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise place.error(f"not a BioC document: {error}") from None


def _from_xml(source: str) -> BioCDocument:
    return biocxml.loads(f"<collection>{source}</collection>").documents[0]


def _from_json(source: Any) -> BioCDocument:
    return biocjson.fromJSON(source, "BioCDocument")


def _document(source: BioCDocument, place: Place, report: Report) -> Document:
    place = place._replace(document=str(source.id or ""))
    text, passages, holders = "", [], [source]
    for passage in source.passages:
        start = offset(passage.offset, place)
        for part in [passage] if passage.text or not passage.sentences else passage.sentences:
            text = _placed(text, offset(part.offset, place), part.text or "", place)
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


def _entity(source: BioCAnnotation, text: str, place: Place, report: Report) -> Entity | None:
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
    return mention(
        place,
        text,
        [_piece(location, place) for location in source.locations],
        infons.get("type", ""),
        quoted=source.text,
        score=score,
        identifier=infons.get("identifier") or infons.get("Identifier", ""),
    )


def _piece(location: BioCLocation, place: Place) -> Offset:
    start = offset(location.offset, place)
    return start, start + offset(location.length, place)
