"""Prodigy's JSON lines: ``{"text": "…", "spans": [{"start": 0, "end": 5, "label": "Device"}]}``.

``tokens``, where a task has them, become one sentence; their ``token_end`` is inclusive.
"""

from collections.abc import Sequence

from hardner.formats.jsonl import Dialect, Record, object_list, string_field, text_field
from hardner.formats.mention import offset
from hardner.formats.report import Place, Report
from hardner.formats.rich import decode_entity
from hardner.text import align
from hardner.types import Document, Entity, Offset, Sentence

_ACCEPTED = ("", "accept")


def recognises(record: Record) -> bool:
    return "spans" in record or "_task_hash" in record or "answer" in record


def decode(record: Record, place: Place, report: Report) -> Document | None:
    if (answer := string_field(record, "answer", place)) not in _ACCEPTED:
        report.add(f"task answered with {answer!r} left out", place)
        return None
    text = text_field(record, place)
    spans = object_list(record, "spans", place)
    entities = tuple(decode_entity(span, text, place) for span in spans)
    tokens = object_list(record, "tokens", place)
    offsets = [_offset_of(token, text, place) for token in tokens if not _is_space(token)]
    meta = record.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    if meta.keys() - {"id"}:
        report.note("field 'meta' not kept but for an id", place)
    name = string_field(meta, "id", place) or string_field(record, "id", place)
    return Document(name, text, entities, sentence_over(text, offsets, entities))


def _is_space(token: Record) -> bool:
    return isinstance(token.get("text"), str) and token["text"].isspace()


def _offset_of(token: Record, text: str, place: Place) -> Offset:
    start, end = offset(token.get("start"), place), offset(token.get("end"), place)
    if token.get("text") != text[start:end] or start >= end:
        raise place.error(f"the token at {start}-{end} is not what the text reads there")
    return start, end


def sentence_over(
    text: str, offsets: list[Offset], entities: Sequence[Entity]
) -> tuple[Sentence, ...]:
    """The tokens at these offsets as one sentence, with those mentions that keep to tokens."""
    if not offsets:
        return ()
    tokens = tuple(text[start:end] for start, end in offsets)
    spans, _ = align(entities, offsets)
    return (Sentence(tokens, spans, offsets=tuple(offsets)),)


def encode(document: Document, report: Report, place: Place) -> Record:
    if len(document.sentences) > 1:
        report.note("sentence bounds not kept", place)
    offsets = [offset for sentence in document.sentences for offset in sentence.offsets or ()]
    starts = {start: index for index, (start, _) in enumerate(offsets)}
    ends = {end: index for index, (_, end) in enumerate(offsets)}
    spans = []
    for entity in document.entities:
        span: Record = {"start": entity.start, "end": entity.end, "label": entity.label}
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


def _tokens(text: str, offsets: list[Offset]) -> list[Record]:
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


PRODIGY = Dialect(
    fields=frozenset({"id", "text", "spans", "tokens", "meta", "answer"}),
    recognises=recognises,
    decode=decode,
    encode=encode,
)
