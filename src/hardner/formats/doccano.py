"""doccano's JSON lines: ``{"id": 1, "text": "…", "label": [[0, 5, "Device"]], "Comments": []}``.

Read as well: ``labels`` instead of ``label``, and the export with relations, whose ``entities``
have a ``start_offset`` and an ``end_offset``.
"""

from typing import Any

from hardner.formats.format import Place, Report
from hardner.formats.json_records import Dialect, Record, json_format
from hardner.formats.mention import make_mention, parse_range, short
from hardner.types import Document, Entity


def _recognises(fields: dict[str, Any]) -> bool:
    if isinstance(entities := fields.get("entities"), list) and entities:
        return isinstance(entities[0], dict) and "start_offset" in entities[0]
    return any(isinstance(fields.get(key), list) for key in ("label", "labels"))


def _decode(record: Record, report: Report) -> Document:
    text = record.text()
    items = [item for key in ("label", "labels", "entities") for item in record.items(key)]
    entities = tuple(_entity(item, text, record.place) for item in items)
    return Document(record.string("id"), text, entities)


def _entity(item: object, text: str, place: Place) -> Entity:
    if isinstance(item, dict):
        item = [item.get(key) for key in ("start_offset", "end_offset", "label")]
    if not isinstance(item, list) or len(item) != 3 or not isinstance(item[2], str):
        raise place.error(f"not a mention of the form [start, end, label]: {short(str(item))}")
    start, end, label = item
    return make_mention(place, text, [parse_range(start, end, place)], label)


def _encode(document: Document, report: Report, place: Place) -> dict[str, Any]:
    name = document.id
    return {
        "id": int(name) if name.isdecimal() and str(int(name)) == name else name,
        "text": document.text,
        "label": [[entity.start, entity.end, entity.label] for entity in document.entities],
        "Comments": [],
    }


_FIELDS = frozenset({"id", "text", "label", "labels", "entities"})
DOCCANO_DIALECT = Dialect(_FIELDS, _recognises, _decode, _encode)
DOCCANO = json_format(
    "doccano", "JSON lines of doccano", DOCCANO_DIALECT, holds=("ids", "overlaps")
)
