"""hardner's own JSON lines: all that a document holds, so that a round trip changes nothing.

Read as well: records of tokens without a text, which is then the tokens joined by spaces: Hugging
Face's ``{"tokens": ["A", "stent"], "ner_tags": ["O", "B-Device"]}`` and GLiNER's
``{"tokenized_text": ["A", "stent"], "ner": [[1, 1, "Device"]]}``, with inclusive ends.
"""

from typing import Any

from hardner.errors import HardnerError
from hardner.formats.annotation_tools import (
    DOCCANO_DIALECT,
    LABELSTUDIO_DIALECT,
    PRODIGY_DIALECT,
)
from hardner.formats.conll import REPAIRED, join_sentences
from hardner.formats.format import HOLDABLE, Place, Report, short
from hardner.formats.json_records import Dialect, Record, json_format
from hardner.schemes import tags_to_spans
from hardner.types import STATES, Document, Entity, Passage, Sentence, Span


def encode_document(document: Document, report: Report, place: Place) -> dict[str, Any]:
    """The document as a JSON object, without the fields that it leaves empty."""
    record: dict[str, Any] = {
        "id": document.id,
        "text": document.text,
        "entities": [_encode_entity(entity) for entity in document.entities],
    }
    if document.rejected:
        record["rejected"] = [_encode_entity(entity) for entity in document.rejected]
    if document.held_out:
        record["held_out"] = True
    if document.sentences:
        record["sentences"] = [_encode_sentence(sentence) for sentence in document.sentences]
    if document.passages:
        record["passages"] = [passage._asdict() for passage in document.passages]
    return record


def _encode_entity(entity: Entity) -> dict[str, Any]:
    item = {key: getattr(entity, key) for key in ("start", "end", "label", "text")}
    if entity.score != 1.0:
        item["score"] = entity.score
    if entity.identifier:
        item["identifier"] = entity.identifier
    if entity.fragments:
        item["fragments"] = entity.fragments
    return item


def _encode_sentence(sentence: Sentence) -> dict[str, Any]:
    item = {key: getattr(sentence, key) for key in ("id", "tokens", "spans")}
    if sentence.state:
        item["state"] = sentence.state
    if sentence.rejected:
        item["rejected"] = sentence.rejected
    return item if sentence.offsets is None else {**item, "offsets": sentence.offsets}


def decode_document(record: Record, report: Report) -> Document:
    """The document of a JSON object; all fields but ``text`` may be missing."""
    text = record.text()
    return Document(
        record.string("id"),
        text,
        tuple(item.entity(text) for item in record.records("entities")),
        tuple(_decode_sentence(item) for item in record.records("sentences")),
        tuple(Passage(*item.range(), item.string("kind")) for item in record.records("passages")),
        record.fields.get("held_out") is True,
        tuple(item.entity(text) for item in record.records("rejected")),
    )


def _decode_sentence(record: Record) -> Sentence:
    place, tokens = record.place, record.strings("tokens")
    spans = tuple(Span(*triple) for triple in record.triples("spans"))
    given = record.fields.get("offsets") is not None
    offsets = tuple(record.ranges("offsets"))
    if given and len(offsets) != len(tokens):
        raise place.error(f"{len(tokens)} tokens and {len(offsets)} offsets in a sentence")
    if (state := record.string("state")) not in ("", *STATES):
        raise place.error(f'"state" is {short(state)}; known are {", ".join(STATES)}')
    rejected = tuple(Span(*triple) for triple in record.triples("rejected"))
    own = offsets if given else None
    return Sentence(tokens, spans, record.string("id"), own, state, rejected)


def _decode_tokens(record: Record, report: Report) -> Document:
    if "ner_tags" in record.fields:
        tokens = record.strings("tokens")
        spans = _of_tags(record, len(tokens), report)
    else:
        tokens = record.strings("tokenized_text")
        spans = tuple(Span(first, last + 1, label) for first, last, label in record.triples("ner"))
    if any(not 0 <= start < end <= len(tokens) for start, end, _ in spans):
        raise record.place.error(f"a mention lies outside the {len(tokens)} tokens")
    return join_sentences(record.string("id"), [Sentence(tokens, spans)])


def _of_tags(record: Record, length: int, report: Report) -> tuple[Span, ...]:
    if any(isinstance(tag, int) for tag in record.items("ner_tags")):
        raise record.place.error(
            '"ner_tags" are numbers, whose names stand elsewhere; write them as O, B-Disease, ...'
        )
    tags = record.strings("ner_tags")
    if len(tags) != length:
        raise record.place.error(f'{length} "tokens" and {len(tags)} "ner_tags"')
    scheme = "IOBES" if any(tag.startswith(("E-", "S-")) for tag in tags) else "IOB2"
    try:
        spans, repaired = tags_to_spans(tags, scheme)
    except HardnerError as error:
        raise record.place.error(str(error)) from None
    if repaired:
        report.add(REPAIRED, record.place, len(repaired))
    return spans


JSONL = json_format(
    "jsonl",
    "JSON lines of hardner; also reads those of the three tools above",
    PRODIGY_DIALECT,
    LABELSTUDIO_DIALECT,
    DOCCANO_DIALECT,
    Dialect(
        fields=frozenset({"id", "tokens", "ner_tags", "tokenized_text", "ner"}),
        recognises=lambda fields: (
            "text" not in fields and ("ner_tags" in fields or "tokenized_text" in fields)
        ),
        decode=_decode_tokens,
    ),
    Dialect(
        fields=frozenset(
            {"id", "text", "entities", "rejected", "sentences", "passages", "held_out"}
        ),
        recognises=lambda fields: (
            not fields.keys().isdisjoint({"entities", "rejected", "passages"})
        ),
        decode=decode_document,
        encode=encode_document,
    ),
    holds=HOLDABLE,
    endings=(".jsonl", ".ndjson", ".json"),
    sniff=lambda start: start.lstrip().startswith(("{", "[")),
)
