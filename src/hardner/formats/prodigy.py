"""Prodigy's JSON lines: ``{"text": "…", "spans": [{"start": 0, "end": 5, "label": "Device"}]}``.

``tokens``, where a task has them, become one sentence; their ``token_end`` is inclusive.
"""

from typing import Any

from hardner.formats.format import Place, Report
from hardner.formats.json_records import Dialect, Record, json_format
from hardner.formats.mention import make_sentences
from hardner.types import Document, Offset


def _decode(record: Record, report: Report) -> Document | None:
    if (answer := record.string("answer")) not in ("", "accept"):
        report.add(f"task answered with {answer!r} left out", record.place)
        return None
    text = record.text()
    entities = tuple(span.entity(text) for span in record.records("spans"))
    offsets = [_offset_of(token, text) for token in record.records("tokens") if _is_word(token)]
    meta = record.fields.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    if meta.keys() - {"id"}:
        report.note("field 'meta' not kept, except its id", record.place)
    name = Record(meta, record.place).string("id") or record.string("id")
    return Document(name, text, entities, make_sentences(text, [offsets], entities))


def _is_word(token: Record) -> bool:
    text = token.fields.get("text")
    return not (isinstance(text, str) and text.isspace())


def _offset_of(token: Record, text: str) -> Offset:
    start, end = token.range()
    if token.fields.get("text") != text[start:end] or start >= end:
        raise token.place.error(f"the token at {start}-{end} differs from the text there")
    return start, end


def _encode(document: Document, report: Report, place: Place) -> dict[str, Any]:
    if len(document.sentences) > 1:
        report.note("sentence bounds not kept", place)
    offsets = [offset for sentence in document.sentences for offset in sentence.offsets or ()]
    starts = {start: index for index, (start, _) in enumerate(offsets)}
    ends = {end: index for index, (_, end) in enumerate(offsets)}
    spans = []
    for entity in document.entities:
        span: dict[str, Any] = {key: getattr(entity, key) for key in ("start", "end", "label")}
        if entity.start in starts and entity.end in ends:
            span |= {"token_start": starts[entity.start], "token_end": ends[entity.end]}
        spans.append(span)
    return {
        "text": document.text,
        "meta": {"id": document.id},
        **({"tokens": _tokens(document.text, offsets)} if offsets else {}),
        "spans": spans,
        "answer": "accept",
    }


def _tokens(text: str, offsets: list[Offset]) -> list[dict[str, Any]]:
    return [
        {
            "text": text[start:end],
            "start": start,
            "end": end,
            "id": index,
            "ws": text[end : end + 1] == " ",
        }
        for index, (start, end) in enumerate(offsets)
    ]


_FIELDS = frozenset({"id", "text", "spans", "tokens", "meta", "answer"})
_ITS_OWN = frozenset({"spans", "_task_hash", "answer"})
PRODIGY_DIALECT = Dialect(_FIELDS, _ITS_OWN.intersection, _decode, _encode)
PRODIGY = json_format(
    "prodigy", "JSON lines of Prodigy", PRODIGY_DIALECT, holds=("ids", "sentences", "overlaps")
)
