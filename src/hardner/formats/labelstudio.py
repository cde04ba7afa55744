"""Label Studio's tasks: an array, or lines, of ``{"data": {"text": "…"}, "annotations": […]}``.

Read as well: the short export (JSON-MIN), whose ``label`` holds the regions.
"""

from itertools import chain
from typing import Any

from hardner.formats.format import Place, Report
from hardner.formats.json_records import Dialect, Record, json_format
from hardner.formats.mention import make_mention
from hardner.types import Document, Entity, Offset

_FIELDS = """id data annotations predictions text label annotator annotation_id lead_time meta
    created_at updated_at inner_id total_annotations cancelled_annotations total_predictions
    comment_count unresolved_comment_count last_comment_updated_at project updated_by
    comment_authors file_upload drafts allow_skip"""


def _recognises(fields: dict[str, Any]) -> bool:
    regions = fields.get("label")
    if isinstance(regions, list) and regions and isinstance(regions[0], dict):
        return "labels" in regions[0]
    return isinstance(fields.get("data"), dict)


def _decode(record: Record, report: Report) -> Document:
    task = record.fields.get("data")
    data = Record(task, record.place) if isinstance(task, dict) else record
    text = data.text()
    regions = _regions(record, report) if data is not record else record.records("label")
    entities = chain.from_iterable(_entities(region, text) for region in regions)
    name = data.string("id") or record.string("id")
    if data is not record and data.fields.keys() - {"id", "text"}:
        report.note("fields of 'data' beside 'text' not kept", record.place)
    return Document(name, text, tuple(entities))


def _regions(record: Record, report: Report) -> list[Record]:
    """What the first annotator marked and did not cancel."""
    made = [a for a in record.records("annotations") if not a.fields.get("was_cancelled")]
    if made[1:]:
        report.add("second annotation of a task left out", record.place, len(made) - 1)
    if predictions := record.records("predictions"):
        report.add("prediction left out", record.place, len(predictions))
    regions = []
    for item in made[0].records("result") if made else []:
        if item.fields.get("type") == "labels" and isinstance(item.fields.get("value"), dict):
            regions.append(Record(item.fields["value"], record.place))
        else:
            report.add(f"{item.string('type') or 'nameless'} result left out", record.place)
    return regions


def _entities(region: Record, text: str) -> list[Entity]:
    """One for each label of the region."""
    extent, quoted = region.range(), region.string("text") or None
    if quoted is not None and text[slice(*extent)] != quoted:
        extent = _in_characters(text, extent, quoted)
    labels = region.items("labels")
    if not labels or not all(isinstance(label, str) for label in labels):
        raise region.place.error("a mention without a label")
    return [make_mention(region.place, text, [extent], label, quoted=quoted) for label in labels]


def _in_characters(text: str, extent: Offset, quoted: str) -> Offset:
    """Offsets in characters where a browser counted UTF-16 units, if the text then agrees."""
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in extent)
    return (start, end) if text[start:end] == quoted else extent


def _encode(document: Document, report: Report, place: Place) -> dict[str, Any]:
    result = [
        {
            "value": {key: getattr(entity, key) for key in ("start", "end", "text")}
            | {"labels": [entity.label]},
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


LABELSTUDIO_DIALECT = Dialect(frozenset(_FIELDS.split()), _recognises, _decode, _encode)
LABELSTUDIO = json_format(
    "labelstudio",
    "tasks of Label Studio, an array or lines",
    LABELSTUDIO_DIALECT,
    holds=("ids", "overlaps"),
)
