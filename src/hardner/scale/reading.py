"""Some documents of an input: by number, and those that cannot be read put aside."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from hardner.errors import HardnerError
from hardner.files import head, lines, stem
from hardner.formats import FORMATS, Place, Report, parquet, read
from hardner.scale.inputs import Input
from hardner.types import Document


@dataclass(frozen=True, slots=True)
class Bad:
    """A document that could not be read or tagged."""

    file: str
    number: int
    """Which one of the file, from 1."""
    id: str
    error: str
    text: str
    """The document's, or the line that holds it."""


Aside = Callable[[Bad], None]


class InputCount(NamedTuple):
    """What an input holds."""

    documents: int
    """Bad ones counted."""
    notes: Mapping[str, int]
    """What could not be kept, by reason; where each line is read for itself, its shard tells."""


def count_input(source: Input) -> InputCount:
    """Reads the whole of an input once."""
    if source.format == "parquet":
        return InputCount(parquet.count_rows(source.path), {})
    if _by_line(source):
        return InputCount(sum(1 for _, line in lines(source.path) if line.strip()), {})
    report = Report()
    return InputCount(
        sum(1 for _ in read(source.path, source.format, report=report)), report.counts
    )


Item = Any
"""A document as an input gives it: whole, or a line or row that is yet to be understood."""


class Stream:
    """An input read once from start to end, in stretches that follow on each other."""

    def __init__(self, source: Input, start: int, stop: int) -> None:
        """Args: ``start`` and ``stop`` say which documents, numbered from 0, will be asked for."""
        self.source = source
        self._items = _items(source, start, stop)
        self._next = next(self._items, None)

    def documents(
        self, start: int, stop: int, report: Report, aside: Aside
    ) -> Iterator[tuple[int, Document]]:
        """The documents of a stretch with their numbers; those that cannot be read go aside."""
        while self._next is not None and self._next[0] < stop:
            number, item = self._next
            if number >= start:
                try:
                    document = _document(self.source, number, item, report)
                except HardnerError as error:
                    text = item[1] if isinstance(item, tuple) else str(item.get("text") or "")
                    aside(Bad(self.source.path, number + 1, "", str(error), text))
                else:
                    if document is not None:
                        yield number, document
            self._next = next(self._items, None)


def _items(source: Input, start: int, stop: int) -> Iterator[tuple[int, Item]]:
    if source.format == "parquet":
        return parquet.read_rows(source.path, start, stop)
    if _by_line(source):
        filled = (found for found in lines(source.path) if found[1].strip())
        return islice(enumerate(filled), start, stop)
    return islice(enumerate(read(source.path, source.format, report=Report())), start, stop)


def _document(source: Input, number: int, item: Item, report: Report) -> Document | None:
    if isinstance(item, Document):
        return item
    if source.format == "parquet":
        return parquet.document_of_row(item, source.path, number)
    line, text = item
    read_line = FORMATS[source.format].read_line
    assert read_line is not None  # as `_by_line` has found
    document = read_line(text, Place(source.path, line), report)
    if document is None or document.id:
        return document
    return replace(document, id=f"{stem(source.path)}-{number + 1}")


def _by_line(source: Input) -> bool:
    """Whether documents are lines: the file can be cut, and a bad line harms no other."""
    by_line = FORMATS[source.format].read_line is not None
    return by_line and not head(source.path).lstrip().startswith("[")
