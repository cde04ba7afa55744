"""Label Studio's tasks: an array, or lines, of ``{"data": {"text": "…"}, "annotations": […]}``.

Read as well: the short export (JSON-MIN), whose ``label`` holds the regions.
"""

from itertools import chain

from hardner.formats.jsonl import Dialect, Record, list_field, object_list, string_field, text_field
from hardner.formats.mention import mention, offset
from hardner.formats.report import Place, Report
from hardner.types import Document, Entity, Offset


def recognises(record: Record) -> bool:
    regions = record.get("label")
    if isinstance(regions, list) and regions and isinstance(regions[0], dict):
        return "labels" in regions[0]
    return isinstance(record.get("data"), dict)


def decode(record: Record, place: Place, report: Report) -> Document:
    data = record["data"] if isinstance(record.get("data"), dict) else record
    text = text_field(data, place)
    regions = _regions(record, place, report) if data is not record else record["label"]
    entities = chain.from_iterable(_entities(region, text, place) for region in regions)
    name = string_field(data, "id", place) or string_field(record, "id", place)
    if data is not record and data.keys() - {"id", "text"}:
        report.note("fields of 'data' beside 'text' not kept", place)
    return Document(name, text, tuple(entities))


def _regions(record: Record, place: Place, report: Report) -> list[Record]:
    """What the first annotator marked and did not cancel."""
    made = [a for a in object_list(record, "annotations", place) if not a.get("was_cancelled")]
    if made[1:]:
        report.add("second annotation of a task left out", place, len(made) - 1)
    if predictions := object_list(record, "predictions", place):
        report.add("prediction left out", place, len(predictions))
    regions = []
    for item in object_list(made[0], "result", place) if made else []:
        if item.get("type") == "labels" and isinstance(item.get("value"), dict):
            regions.append(item["value"])
        else:
            report.add(f"{string_field(item, 'type', place) or 'nameless'} result left out", place)
    return regions


def _entities(region: Record, text: str, place: Place) -> list[Entity]:
    """One for each label of the region."""
    piece = offset(region.get("start"), place), offset(region.get("end"), place)
    quoted = string_field(region, "text", place) or None
    if quoted is not None and text[slice(*piece)] != quoted:
        piece = _in_characters(text, piece, quoted)
    labels = list_field(region, "labels", place)
    if not labels or not all(isinstance(label, str) for label in labels):
        raise place.error("a mention without a label")
    return [mention(place, text, [piece], label, quoted=quoted) for label in labels]


def _in_characters(text: str, piece: Offset, quoted: str) -> Offset:
    """Offsets that a browser counted in UTF-16 units, in characters, if the text then agrees."""
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in piece)
    return (start, end) if text[start:end] == quoted else piece


def encode(document: Document, report: Report, place: Place) -> Record:
    result = [
        {
            "value": {
                "start": entity.start,
                "end": entity.end,
                "text": entity.text,
                "labels": [entity.label],
            },
            "id": f"e{number}",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "origin": "manual",
        }
        for number, entity in enumerate(document.entities, 1)
    ]
    return {
        "annotations": [{"result": result, "was_cancelled": False, "ground_truth": False}],
        "predictions": [],
        "data": {"text": document.text, "id": document.id},
    }


_BOOKKEEPING = """id data annotations predictions text label annotator annotation_id lead_time meta
    created_at updated_at inner_id total_annotations cancelled_annotations total_predictions
    comment_count unresolved_comment_count last_comment_updated_at project updated_by
    comment_authors file_upload drafts allow_skip"""

LABELSTUDIO = Dialect(
    fields=frozenset(_BOOKKEEPING.split()),
    recognises=recognises,
    decode=decode,
    encode=encode,
)
