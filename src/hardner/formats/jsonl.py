"""Files of JSON records, a dialect for each tool: lines, or one array where the name says .json."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hardner.files import PathLike, atomic_write, plain_name, stem
from hardner.formats.format import Reader, Writer
from hardner.formats.jsonstream import records
from hardner.formats.mention import check
from hardner.formats.report import Place, Report
from hardner.types import Document

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one tool writes an annotated text as a JSON object."""

    fields: frozenset[str]
    """The fields that are read, or of no value outside the tool."""
    recognises: Callable[[Record], bool]
    decode: Callable[[Record, Place, Report], Document | None]
    """None where the record is to be left out; a document without an id gets one."""
    encode: Callable[[Document, Report, Place], Record]


def reader(*dialects: Dialect) -> Reader:
    """Reads records of these dialects; what none of them recognises is of the last."""

    def read(path: PathLike, report: Report) -> Iterator[Document]:
        for number, (place, record) in enumerate(records(path), 1):
            known = (dialect for dialect in dialects if dialect.recognises(record))
            dialect = next(known, dialects[-1])
            _tell_unread(record, dialect, place, report)
            document = dialect.decode(record, place, report)
            if document is not None:
                check(document, place)
                yield document if document.id else _named(document, f"{stem(path)}-{number}")

    return read


def _named(document: Document, name: str) -> Document:
    return Document(name, document.text, document.entities, document.sentences, document.passages)


def _tell_unread(record: Record, dialect: Dialect, place: Place, report: Report) -> None:
    for key in (key for key in record if key not in dialect.fields and record[key]):
        if key in ("relations", "events") and isinstance(record[key], list):
            report.add(f"{key[:-1]} left out", place, len(record[key]))
        elif not key.startswith("_"):
            report.note(f"field {key!r} not kept", place)


def writer(dialect: Dialect) -> Writer:
    def write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
        array = plain_name(path).endswith(".json")
        with atomic_write(path) as file:
            file.write("[" if array else "")
            for number, document in enumerate(documents):
                record = dialect.encode(document, report, Place(path, document=document.id))
                file.write(",\n" if array and number else "\n" if array else "")
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False))
                file.write("" if array else "\n")
            file.write("\n]\n" if array else "")

    return write


def text_field(record: Record, place: Place) -> str:
    text = record.get("text")
    if not isinstance(text, str):
        raise place.error('no "text"' if text is None else '"text" is not a string')
    return text


def list_field(record: Record, key: str, place: Place) -> list[Any]:
    """The list under the key; an empty one where there is none."""
    value = record.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise place.error(f'"{key}" is not a list')
    return value


def object_list(record: Record, key: str, place: Place) -> list[Record]:
    """As :func:`list_field`, of objects."""
    items = list_field(record, key, place)
    if not all(isinstance(item, dict) for item in items):
        raise place.error(f'"{key}" is not a list of objects')
    return items


def string_field(record: Record, key: str, place: Place) -> str:
    """The string or number under the key, as a string; an empty one where there is none."""
    value = record.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise place.error(f'"{key}" is not a string')
    return str(value)


def label_field(record: Record, place: Place) -> str:
    if not isinstance(label := record.get("label"), str):
        raise place.error("a mention without a label")
    return label
