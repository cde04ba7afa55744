"""The project's own JSON lines: everything a document holds, so that round trips are exact."""

from hardner.formats.jsonl import (
    Dialect,
    Record,
    label_field,
    list_field,
    object_list,
    string_field,
    text_field,
)
from hardner.formats.mention import mention, offset
from hardner.formats.report import Place, Report
from hardner.types import Document, Entity, Offset, Passage, Sentence, Span


def encode(document: Document, report: Report, place: Place) -> Record:
    record: Record = {
        "id": document.id,
        "text": document.text,
        "entities": [_encode_entity(entity) for entity in document.entities],
    }
    if document.sentences:
        record["sentences"] = [_encode_sentence(sentence) for sentence in document.sentences]
    if document.passages:
        record["passages"] = [passage._asdict() for passage in document.passages]
    return record


def _encode_entity(entity: Entity) -> Record:
    item: Record = {
        "start": entity.start,
        "end": entity.end,
        "label": entity.label,
        "text": entity.text,
    }
    if entity.score != 1.0:
        item["score"] = entity.score
    if entity.identifier:
        item["identifier"] = entity.identifier
    if entity.fragments:
        item["fragments"] = entity.fragments
    return item


def _encode_sentence(sentence: Sentence) -> Record:
    item: Record = {"id": sentence.id, "tokens": sentence.tokens, "spans": sentence.spans}
    return item if sentence.offsets is None else {**item, "offsets": sentence.offsets}


def decode(record: Record, place: Place, report: Report) -> Document:
    text = text_field(record, place)
    items = object_list(record, "entities", place)
    return Document(
        id=string_field(record, "id", place),
        text=text,
        entities=tuple(decode_entity(item, text, place) for item in items),
        sentences=tuple(
            _decode_sentence(item, place) for item in object_list(record, "sentences", place)
        ),
        passages=tuple(
            Passage(
                offset(item.get("start"), place),
                offset(item.get("end"), place),
                string_field(item, "kind", place),
            )
            for item in object_list(record, "passages", place)
        ),
    )


def decode_entity(item: Record, text: str, place: Place) -> Entity:
    whole = offset(item.get("start"), place), offset(item.get("end"), place)
    score = item.get("score", 1.0)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise place.error('"score" is not a number')
    entity = mention(
        place,
        text,
        _offsets(list_field(item, "fragments", place), place) or [whole],
        label_field(item, place),
        quoted=string_field(item, "text", place) or None,
        score=float(score),
        identifier=string_field(item, "identifier", place),
    )
    if (entity.start, entity.end) != whole:
        raise place.error(f"the fragments of the mention at {whole[0]}-{whole[1]} do not span it")
    return entity


def _decode_sentence(item: Record, place: Place) -> Sentence:
    tokens = list_field(item, "tokens", place)
    if not all(isinstance(token, str) for token in tokens):
        raise place.error('"tokens" is not a list of strings')
    spans = []
    for span in list_field(item, "spans", place):
        try:
            start, end, label = span
        except (TypeError, ValueError):
            raise place.error('"spans" is not a list of [start, end, label]') from None
        spans.append(Span(offset(start, place), offset(end, place), str(label)))
    given = item.get("offsets") is not None
    offsets = _offsets(list_field(item, "offsets", place), place)
    if given and len(offsets) != len(tokens):
        raise place.error(f"{len(tokens)} tokens and {len(offsets)} offsets in a sentence")
    return Sentence(
        tokens=tuple(tokens),
        spans=tuple(spans),
        id=string_field(item, "id", place),
        offsets=tuple(offsets) if given else None,
    )


def _offsets(items: list[object], place: Place) -> list[Offset]:
    pairs = []
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise place.error("offsets are not pairs of [start, end]")
        pairs.append((offset(item[0], place), offset(item[1], place)))
    return pairs


RICH = Dialect(
    fields=frozenset({"id", "text", "entities", "sentences", "passages"}),
    recognises=lambda record: "entities" in record or "passages" in record,
    decode=decode,
    encode=encode,
)
