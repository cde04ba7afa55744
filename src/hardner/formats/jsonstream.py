"""JSON out of a file one value at a time: a value a line, or the items of one long array."""

import json
import re
from collections.abc import Iterator
from typing import Any

from hardner.files import LINE_LIMIT, PathLike, chunks, head, lines
from hardner.formats.mention import short
from hardner.formats.report import Place

_SPACES = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def records(path: PathLike) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of a file of JSON lines, or of a file that is one array of objects."""
    if head(path).lstrip().startswith("["):
        found = Cursor(path).items()
    else:
        found = (
            (Place(path, n), _parsed(line, Place(path, n)))
            for n, line in lines(path)
            if line.strip()
        )
    for place, value in found:
        if not isinstance(value, dict):
            raise place.error(f"expected a JSON object, found {short(json.dumps(value))}")
        yield place, value


def _parsed(line: str, place: Place) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise place.error(_complaint(error)) from None


def _complaint(error: Exception) -> str:
    return f"not JSON: {getattr(error, 'msg', error)}"


class Cursor:
    """A place in a JSON file that moves from value to value and forgets what it has passed."""

    def __init__(self, path: PathLike) -> None:
        self._path, self._chunks = path, chunks(path)
        self._text, self._at, self._line = "", 0, 1
        self._ended = False

    def items(self) -> Iterator[tuple[Place, Any]]:
        """The values of an array."""
        self.expect("[")
        while self.peek() != "]":
            place = self._place()
            yield place, self.value()
            if self.peek() != "]":
                self.expect(",")
        self.expect("]")

    def peek(self) -> str:
        """The next character that is not a space; none at the end."""
        while True:
            self._advance(_SPACES.match(self._text, self._at).end())  # type: ignore[union-attr]
            found = self._text[self._at : self._at + 1]
            if found or not self._read_on():
                return found

    def expect(self, mark: str) -> None:
        if (found := self.peek()) != mark:
            seen = short(found) if found else "the end of the file"
            raise self._place().error(f"not JSON: expected {mark}, found {seen}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """The next value, whole."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at > LINE_LIMIT:
                    raise self._place().error(
                        f"a value longer than {LINE_LIMIT:,} characters or never closed"
                    ) from None
                if not self._read_on():
                    self._advance(getattr(error, "pos", self._at))
                    raise self._place().error(_complaint(error)) from None
            else:
                if end < len(self._text) or not self._read_on():
                    self._advance(end)
                    return value

    def _place(self) -> Place:
        return Place(self._path, self._line)

    def _advance(self, at: int) -> None:
        self._line += self._text.count("\n", self._at, at)
        self._at = at

    def _read_on(self) -> bool:
        """At least doubles what is held, so that trying again stays cheap."""
        wanted = 2 * (len(self._text) - self._at)
        pieces = [self._text[self._at :]]
        size = 0
        for piece in self._chunks:
            pieces.append(piece)
            size += len(piece)
            if size >= wanted:
                break
        self._text, self._at = "".join(pieces), 0
        return size > 0
