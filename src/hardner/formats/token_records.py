"""JSON records of tokens without a text, read only; the text is the tokens joined by spaces.

Hugging Face's data sets: ``{"tokens": ["A", "stent"], "ner_tags": ["O", "B-Device"]}``.
GLiNER's: ``{"tokenized_text": ["A", "stent"], "ner": [[1, 1, "Device"]]}``, with inclusive ends.
"""

from collections.abc import Iterator

from hardner.errors import HardnerError
from hardner.formats.conll import REPAIRED, join_sentences
from hardner.formats.format import Report
from hardner.formats.json_records import Dialect, Record
from hardner.formats.mention import parse_range, short
from hardner.schemes import tags_to_spans
from hardner.types import Document, Sentence, Span


def _decode(record: Record, report: Report) -> Document:
    tagged = "ner_tags" in record.fields
    tokens = record.strings("tokens" if tagged else "tokenized_text")
    spans = _of_tags(record, len(tokens), report) if tagged else tuple(_of_gliner(record))
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


def _of_gliner(record: Record) -> Iterator[Span]:
    for item in record.items("ner"):
        match item:
            case [first, last, str(label)]:
                start, last = parse_range(first, last, record.place)
                yield Span(start, last + 1, label)
            case _:
                message = f'"ner" is not a list of [first, last, label]: {short(str(item))}'
                raise record.place.error(message)


TOKENS_DIALECT = Dialect(
    frozenset({"id", "tokens", "ner_tags", "tokenized_text", "ner"}),
    lambda fields: "text" not in fields and not {"ner_tags", "tokenized_text"}.isdisjoint(fields),
    _decode,
)
