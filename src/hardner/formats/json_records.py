"""Files of JSON records: one object a line, or one array of objects.

hardner, Prodigy, doccano and Label Studio write such files; each format says by a
:class:`Dialect` what its records look like.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hardner.files import (
    LINE_LIMIT,
    PathLike,
    atomic_write,
    chunks,
    head,
    lines,
    plain_name,
    stem,
)
from hardner.formats.format import (
    Format,
    Place,
    Report,
    check_document,
    make_mention,
    parse_range,
    short,
)
from hardner.types import Document, Entity, Offset

_SPACES = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Record:
    """A JSON object of a file; its fields are checked as they are read.

    A string or list that is not there is an empty one.
    """

    def __init__(self, fields: Any, place: Place) -> None:
        if not isinstance(fields, dict):
            raise place.error(f"expected a JSON object, found {short(json.dumps(fields))}")
        self.fields: dict[str, Any] = fields
        self.place = place

    def text(self) -> str:
        """The string under ``text``, which must be there."""
        text = self.fields.get("text")
        if not isinstance(text, str):
            raise self.place.error('no "text"' if text is None else '"text" is not a string')
        return text

    def string(self, key: str) -> str:
        """The string under the key, or the digits of an integer."""
        value = self.fields.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise self.place.error(f'"{key}" is not a string')
        return "" if value is None else str(value)

    def items(self, key: str) -> list[Any]:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, list):
            raise self.place.error(f'"{key}" is not a list')
        return value or []

    def strings(self, key: str) -> tuple[str, ...]:
        items = self.items(key)
        if not all(isinstance(item, str) for item in items):
            raise self.place.error(f'"{key}" is not a list of strings')
        return tuple(items)

    def records(self, key: str) -> list["Record"]:
        items = self.items(key)
        if not all(isinstance(item, dict) for item in items):
            raise self.place.error(f'"{key}" is not a list of objects')
        return [Record(item, self.place) for item in items]

    def range(self) -> Offset:
        """The offsets under ``start`` and ``end``."""
        return parse_range(self.fields.get("start"), self.fields.get("end"), self.place)

    def ranges(self, key: str) -> list[Offset]:
        """The list of ``[start, end]`` under the key."""
        pairs = self.items(key)
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise self.place.error("offsets are not pairs of [start, end]")
        return [parse_range(start, end, self.place) for start, end in pairs]

    def triples(self, key: str) -> list[tuple[int, int, str]]:
        """The list of ``[start, end, label]`` under the key."""
        found = []
        for item in self.items(key):
            match item:
                case [start, end, str(label)]:
                    found.append((*parse_range(start, end, self.place), label))
                case _:
                    problem = f'not a mention of the form [start, end, label] in "{key}"'
                    raise self.place.error(f"{problem}: {short(str(item))}")
        return found

    def entity(self, text: str) -> Entity:
        """A mention of the form ``{"start": 0, "end": 5, "label": "Device"}``."""
        whole, score = self.range(), self.fields.get("score")
        score = 1.0 if score is None else score
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise self.place.error('"score" is not a number')
        if abs(score) > sys.float_info.max:
            raise self.place.error('"score" is not a number that a computer can hold')
        if not isinstance(label := self.fields.get("label"), str):
            raise self.place.error("a mention without a label")
        entity = make_mention(
            self.place,
            text,
            self.ranges("fragments") or [whole],
            label,
            quoted=self.string("text") or None,
            score=float(score),
            identifier=self.string("identifier"),
        )
        if (entity.start, entity.end) != whole:
            where = f"{whole[0]}-{whole[1]}"
            raise self.place.error(f"the fragments of the mention at {where} do not span it")
        return entity


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one tool writes an annotated text as a JSON object."""

    fields: frozenset[str]
    """The fields that are read, and those that mean nothing outside the tool."""
    recognises: Callable[[dict[str, Any]], object]
    """Whether, by its fields, a record is one of the tool's; true or false in a condition."""
    decode: Callable[[Record, Report], Document | None]
    """The document, its id empty where the record has none; None to leave the record out."""
    encode: Callable[[Document, Report, Place], dict[str, Any]] | None = None
    """None where it is only read."""


def json_format(
    name: str,
    about: str,
    *dialects: Dialect,
    holds: Iterable[str],
    endings: tuple[str, ...] = (),
    sniff: Callable[[str], bool] = lambda start: False,
) -> Format:
    """A format of JSON records: reads all the dialects, writes the last.

    A record that no dialect recognises is read as one of the last.
    """

    def decode(record: Record, report: Report) -> Document | None:
        known = (dialect for dialect in dialects if dialect.recognises(record.fields))
        dialect = next(known, dialects[-1])
        _report_unread(record, dialect, report)
        document = dialect.decode(record, report)
        if document is not None:
            check_document(document, record.place)
        return document

    def read(path: PathLike, report: Report) -> Iterator[Document]:
        for number, record in enumerate(read_records(path), 1):
            document = decode(record, report)
            if document is not None:
                yield document if document.id else replace(document, id=f"{stem(path)}-{number}")

    def read_line(line: str, place: Place, report: Report) -> Document | None:
        return decode(_parsed(line, place), report)

    encode = dialects[-1].encode
    assert encode is not None

    def write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
        array = plain_name(path).endswith(".json")
        with atomic_write(path) as file:
            file.write("[" if array else "")
            for number, document in enumerate(documents):
                record = encode(document, report, Place(path, document=document.id))
                file.write((",\n" if number else "\n") if array else "")
                file.write(json.dumps(record, ensure_ascii=False, allow_nan=False))
                file.write("" if array else "\n")
            file.write("\n]\n" if array else "")

    kept = frozenset(holds)
    return Format(name, endings, about, read, write, sniff, kept, read_line=read_line)


def _report_unread(record: Record, dialect: Dialect, report: Report) -> None:
    for key, value in record.fields.items():
        if not value or key in dialect.fields:
            continue
        if key in ("relations", "events") and isinstance(value, list):
            report.add(f"{key[:-1]} left out", record.place, len(value))
        elif not key.startswith("_"):
            report.note(f"field {key!r} not kept", record.place)


def read_records(path: PathLike) -> Iterator[Record]:
    """The objects of a file."""
    if head(path).lstrip().startswith("["):
        cursor = JsonCursor(path)
        for place, value in cursor.items():
            match value:
                case [str(text), {"entities": list(entities)}]:  # training data of spaCy 2
                    value = {"text": text, "label": entities}
            yield Record(value, place)
        cursor.expect_end()
    else:
        for number, line in lines(path):
            if line.strip():
                yield _parsed(line, Place(path, number))


def _parsed(line: str, place: Place) -> Record:
    try:
        return Record(json.loads(line), place)
    except (ValueError, RecursionError) as error:
        raise place.error(f"not JSON: {getattr(error, 'msg', error)}") from None


class JsonCursor:
    """Reads a JSON file value by value; it holds one value at a time."""

    def __init__(self, path: PathLike) -> None:
        self._path, self._chunks = path, chunks(path)
        self._text, self._at, self._line = "", 0, 1

    def items(self) -> Iterator[tuple[Place, Any]]:
        """The values of an array with their places."""
        self.expect("[")
        while self.peek() != "]":
            place = self._place()
            yield place, self.value()
            if self.peek() != "]":
                self.expect(",")
        self.expect("]")

    def peek(self) -> str:
        """The next character that is not a space; empty at the end of the file."""
        while True:
            self._advance(_SPACES.match(self._text, self._at).end())  # type: ignore[union-attr]
            found = self._text[self._at : self._at + 1]
            if found or not self._read_on():
                return found

    def expect(self, mark: str) -> None:
        """Step over this character, or raise an error where another one stands."""
        if (found := self.peek()) != mark:
            seen = short(found) if found else "the end of the file"
            raise self._place().error(f"not JSON: expected {mark}, found {seen}")
        self._advance(self._at + 1)

    def expect_end(self) -> None:
        """Raise an error where more than white space is left of the file."""
        if found := self.peek():
            message = f"not JSON: text behind its end, from {short(found)} on; one value a file"
            raise self._place().error(message)

    def value(self) -> Any:
        """The next value, whole."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                # Not JSON, or not all of the value has been read: more text tells.
                if len(self._text) - self._at > LINE_LIMIT:
                    raise self._place().error(
                        f"a value longer than {LINE_LIMIT:,} characters or never closed"
                    ) from None
                if not self._read_on():
                    self._advance(getattr(error, "pos", self._at))
                    reason = getattr(error, "msg", error)
                    raise self._place().error(f"not JSON: {reason}") from None
            else:
                # A number that ends where the text ends may go on in the next chunk.
                if end < len(self._text) or not self._read_on():
                    self._advance(end)
                    return value

    def _place(self) -> Place:
        return Place(self._path, self._line)

    def _advance(self, at: int) -> None:
        self._line += self._text.count("\n", self._at, at)
        self._at = at

    def _read_on(self) -> bool:
        # At least doubles the text held: decoding a long value anew each time stays linear.
        wanted = 2 * (len(self._text) - self._at)
        held = [self._text[self._at :]]
        size = 0
        for chunk in self._chunks:
            held.append(chunk)
            size += len(chunk)
            if size >= wanted:
                break
        self._text, self._at = "".join(held), 0
        return size > 0
