"""Writing BioC, as XML or JSON, through the library ``bioc``."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from bioc import BioCAnnotation, BioCCollection, BioCDocument, BioCLocation, BioCPassage, biocjson
from bioc.biocxml.encoder import BioCXMLDocumentWriter

from hardner.files import PathLike, atomic_binary, atomic_write
from hardner.formats.report import Place, Report
from hardner.types import Document, Entity


def write_xml(documents: Iterable[Document], path: PathLike, report: Report) -> None:
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


def write_json(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    opening, closing = json.dumps(biocjson.toJSON(_collection())).split("[]")
    with atomic_write(path) as file:
        file.write(opening + "[")
        for number, document in enumerate(documents):
            encoded = _encoded(document, report, Place(path, document=document.id))
            content = json.dumps(biocjson.toJSON(encoded), ensure_ascii=False)
            file.write((",\n" if number else "\n") + content)
        file.write("\n]" + closing + "\n")


def _collection() -> BioCCollection:
    """Without a date: the same documents give the same file."""
    collection = BioCCollection()
    collection.date = ""
    return collection


def _encoded(document: Document, report: Report, place: Place) -> BioCDocument:
    result = BioCDocument()
    result.id = document.id
    for start, end, kind in _pieces(document, report, place):
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


def _annotation(entity: Entity, name: str, text: str) -> BioCAnnotation:
    annotation = BioCAnnotation()
    annotation.id, annotation.text = name, text
    annotation.infons["type"] = entity.label
    if entity.identifier:
        annotation.infons["identifier"] = entity.identifier
    if entity.score != 1.0:
        annotation.infons["score"] = repr(entity.score)
    for start, end in entity.fragments or ((entity.start, entity.end),):
        annotation.add_location(BioCLocation(start, end - start))
    return annotation


def _pieces(
    document: Document, report: Report, place: Place
) -> Iterator[tuple[int, int, str | None]]:
    """The passages and, without a kind, the text that is in none of them."""
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
