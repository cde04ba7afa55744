"""doccano's JSON lines: ``{"id": 1, "text": "…", "label": [[0, 5, "Device"]], "Comments": []}``.

Read as well: ``labels`` instead of ``label``, and the export with relations, whose ``entities``
have a ``start_offset`` and an ``end_offset``.
"""

from hardner.formats.jsonl import Dialect, Record, list_field, string_field, text_field
from hardner.formats.mention import mention, offset, short
from hardner.formats.report import Place, Report
from hardner.types import Document, Entity


def recognises(record: Record) -> bool:
    if isinstance(entities := record.get("entities"), list) and entities:
        return isinstance(entities[0], dict) and "start_offset" in entities[0]
    return any(isinstance(record.get(key), list) for key in ("label", "labels"))


def decode(record: Record, place: Place, report: Report) -> Document:
    text = text_field(record, place)
    items = [
        item for key in ("label", "labels", "entities") for item in list_field(record, key, place)
    ]
    entities = tuple(_entity(item, text, place) for item in items)
    return Document(string_field(record, "id", place), text, entities)


def _entity(item: object, text: str, place: Place) -> Entity:
    if isinstance(item, dict):
        item = [item.get(key) for key in ("start_offset", "end_offset", "label")]
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[2], str):
        raise place.error(f"not a mention of the form [start, end, label]: {short(str(item))}")
    return mention(place, text, [(offset(item[0], place), offset(item[1], place))], item[2])


def encode(document: Document, report: Report, place: Place) -> Record:
    name = document.id
    return {
        "id": int(name) if name.isdecimal() and str(int(name)) == name else name,
        "text": document.text,
        "label": [[entity.start, entity.end, entity.label] for entity in document.entities],
        "Comments": [],
    }


DOCCANO = Dialect(
    fields=frozenset({"id", "text", "label", "labels", "entities"}),
    recognises=recognises,
    decode=decode,
    encode=encode,
)
