"""JSON of annotation tools: Prodigy, doccano and Label Studio.

Prodigy's lines are ``{"text": "…", "spans": [{"start": 0, "end": 5, "label": "Device"}]}``;
``tokens``, where a task has them, become one sentence. A task with one span that is answered with
``"reject"`` says that this is no mention, and nothing of the rest.

doccano's are ``{"id": 1, "text": "…", "label": [[0, 5, "Device"]], "Comments": []}``; read as well:
``labels``, and the export with relations, whose ``entities`` have a ``start_offset``.

Label Studio's are ``{"data": {"text": "…"}, "annotations": […]}``, in lines or an array; read as
well: the short export (JSON-MIN), whose ``label`` holds the regions.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

from hardner.formats.format import Place, Report, make_mention, make_sentences, parse_range
from hardner.formats.json_records import Dialect, Record, json_format
from hardner.text import sentences
from hardner.types import Document, Entity, Offset


def _decode_prodigy(record: Record, report: Report) -> Document | None:
    answer, spans = record.string("answer"), record.records("spans")
    # Of several, no one can say which is wrong.
    is_rejected = answer == "reject" and len(spans) == 1
    if not is_rejected and answer not in ("", "accept"):
        report.add(f"task answered with {answer!r} left out", record.place)
        return None
    text = record.text()
    entities = tuple(span.entity(text) for span in spans)
    offsets = []
    for token in record.records("tokens"):
        start, end = token.range()
        if (quoted := token.string("text")) != text[start:end]:
            raise token.place.error(f"the token at {start}-{end} differs from the text there")
        if not quoted.isspace():
            offsets.append((start, end))
    meta = record.fields.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    if meta.keys() - {"id"}:
        report.note("field 'meta' not kept, except its id", record.place)
    name = Record(meta, record.place).string("id") or record.string("id")
    if not is_rejected:
        return Document(name, text, entities, make_sentences(text, [offsets], entities))
    bare = (replace(s, state="partial") for s in make_sentences(text, [offsets], ()))
    whole = Document(name, text, sentences=tuple(bare), rejected=entities)
    return replace(whole, sentences=sentences(whole)) if whole.sentences else whole


def _encode_prodigy(document: Document, report: Report, place: Place) -> dict[str, Any]:
    if len(document.sentences) > 1:
        report.note("sentence bounds not kept", place)
    offsets = [offset for sentence in document.sentences for offset in sentence.offsets or ()]
    tokens = [
        {
            "text": document.text[start:end],
            "start": start,
            "end": end,
            "id": index,
            "ws": document.text[end : end + 1] == " ",
        }
        for index, (start, end) in enumerate(offsets)
    ]
    starts = {start: index for index, (start, _) in enumerate(offsets)}
    ends = {end: index for index, (_, end) in enumerate(offsets)}
    spans = []
    for entity in document.entities:
        span: dict[str, Any] = {key: getattr(entity, key) for key in ("start", "end", "label")}
        if entity.start in starts and entity.end in ends:  # inclusive
            span |= {"token_start": starts[entity.start], "token_end": ends[entity.end]}
        spans.append(span)
    return {
        "text": document.text,
        "meta": {"id": document.id},
        **({"tokens": tokens} if tokens else {}),
        "spans": spans,
        "answer": "accept",
    }


def _is_doccano(fields: dict[str, Any]) -> bool:
    if isinstance(entities := fields.get("entities"), list) and entities:
        return isinstance(entities[0], dict) and "start_offset" in entities[0]
    return any(isinstance(fields.get(key), list) for key in ("label", "labels"))


def _decode_doccano(record: Record, report: Report) -> Document:
    text, place = record.text(), record.place
    mentions = [*record.triples("label"), *record.triples("labels")]
    for item in record.records("entities"):
        start, end = map(item.fields.get, ("start_offset", "end_offset"))
        if not (label := item.string("label")):
            raise place.error("a mention without a label")
        mentions.append((*parse_range(start, end, place), label))
    entities = (make_mention(place, text, [(start, end)], label) for start, end, label in mentions)
    return Document(record.string("id"), text, tuple(entities))


def _encode_doccano(document: Document, report: Report, place: Place) -> dict[str, Any]:
    name = document.id
    return {
        "id": int(name) if name.isdecimal() and str(int(name)) == name else name,
        "text": document.text,
        "label": [[entity.start, entity.end, entity.label] for entity in document.entities],
        "Comments": [],
    }


def _is_label_studio(fields: dict[str, Any]) -> bool:
    regions = fields.get("label")
    if isinstance(regions, list) and regions and isinstance(regions[0], dict):
        return "labels" in regions[0]
    return isinstance(fields.get("data"), dict)


def _decode_label_studio(record: Record, report: Report) -> Document:
    task = record.fields.get("data")
    data = Record(task, record.place) if isinstance(task, dict) else record
    text = data.text()
    regions = _regions(record, report) if data is not record else record.records("label")
    entities = chain.from_iterable(_labelled(region, text) for region in regions)
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


def _labelled(region: Record, text: str) -> list[Entity]:
    """A mention for each label of the region."""
    extent, quoted = region.range(), region.string("text") or None
    if quoted is not None and text[slice(*extent)] != quoted:
        extent = _in_characters(text, extent, quoted)
    if not (labels := region.strings("labels")):
        raise region.place.error("a mention without a label")
    return [make_mention(region.place, text, [extent], label, quoted=quoted) for label in labels]


def _in_characters(text: str, extent: Offset, quoted: str) -> Offset:
    """Offsets in characters where a browser counted UTF-16 units, if the text then agrees."""
    units = text.encode("utf-16-le", "surrogatepass")
    start, end = (len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in extent)
    return (start, end) if text[start:end] == quoted else extent


def _encode_label_studio(document: Document, report: Report, place: Place) -> dict[str, Any]:
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


PRODIGY_DIALECT = Dialect(
    frozenset({"id", "text", "spans", "tokens", "meta", "answer"}),
    frozenset({"spans", "_task_hash", "answer"}).intersection,
    _decode_prodigy,
    _encode_prodigy,
)
PRODIGY = json_format(
    "prodigy", "JSON lines of Prodigy", PRODIGY_DIALECT, holds=("ids", "sentences", "overlaps")
)
DOCCANO_DIALECT = Dialect(
    frozenset({"id", "text", "label", "labels", "entities"}),
    _is_doccano,
    _decode_doccano,
    _encode_doccano,
)
DOCCANO = json_format(
    "doccano", "JSON lines of doccano", DOCCANO_DIALECT, holds=("ids", "overlaps")
)
_LABEL_STUDIO_FIELDS = """id data annotations predictions text label annotator annotation_id
    lead_time meta created_at updated_at inner_id total_annotations cancelled_annotations
    total_predictions comment_count unresolved_comment_count last_comment_updated_at project
    updated_by comment_authors file_upload drafts allow_skip"""
LABELSTUDIO_DIALECT = Dialect(
    frozenset(_LABEL_STUDIO_FIELDS.split()),
    _is_label_studio,
    _decode_label_studio,
    _encode_label_studio,
)
LABELSTUDIO = json_format(
    "labelstudio",
    "tasks of Label Studio, an array or lines",
    LABELSTUDIO_DIALECT,
    holds=("ids", "overlaps"),
)
