"""What a format is, and what a reader or writer reports on the way."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hardner.errors import FileError, HardnerError
from hardner.files import PathLike, shown_path
from hardner.types import Document

HOLDABLE = (
    *("ids", "passages", "sentences", "states", "scores", "identifiers", "overlaps", "fragments"),
    "rejected",
)
"""What only some formats can hold beside a text and its labelled mentions."""


class Place(NamedTuple):
    """A place in a file, given by line or by document, for error messages."""

    path: PathLike
    line: int | None = None
    document: str | None = None

    def error(self, message: str) -> FileError:
        """An error that names the place, to be raised by the caller."""
        if self.document is not None:
            message = f"document {self.document!r}: {message}"
        return FileError(shown_path(self.path), message.replace("\n", " "), self.line)


_T = TypeVar("_T")
_END = object()


@contextmanager
def boundary(place: Place, what: str) -> Iterator[None]:
    """Around a call of another library, which may raise anything where a file is damaged.

    Our own code, where it would hide mistakes, never runs inside of it.
    """
    try:
        yield
    except HardnerError:  # of the file that the library reads from
        raise
    except Exception as error:
        line = getattr(error, "lineno", None) or place.line  # lxml's have one
        reason = str(getattr(error, "msg", error)).partition("\n")[0] or type(error).__name__
        raise place._replace(line=line).error(f"{what}: {reason}") from None


def bounded(items: Iterable[_T], place: Place, what: str) -> Iterator[_T]:
    """Items that another library makes, each within :func:`boundary`."""
    iterator = iter(items)
    while True:
        with boundary(place, what):
            item = next(iterator, _END)
        if item is _END:
            return
        yield item  # type: ignore[misc]


class Report:
    """What a conversion left out or repaired: counts by reason, each with its first place.

    Args:
        strict: Raise an error at the first annotation that is lost or repaired.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self._first: dict[str, Place] = {}

    def add(self, reason: str, place: Place, count: int = 1) -> None:
        """Count an annotation that was left out or repaired."""
        if self.strict:
            raise place.error(reason)
        self.note(reason, place, count)

    def note(self, reason: str, place: Place, count: int = 1) -> None:
        """Count something beside the annotations: ids, layout, bookkeeping of a tool."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self._first.setdefault(reason, place)

    def lines(self) -> list[str]:
        """One line for each reason."""
        return [
            str(self._first[reason].error(reason)) + (f", and {count - 1:,} more" * (count > 1))
            for reason, count in self.counts.items()
        ]


@contextmanager
def reporting(strict: bool, report: Report | None) -> Iterator[Report]:
    """The caller's report; without one, a new one whose lines become Python warnings."""
    if report is not None:
        report.strict |= strict
        yield report
        return
    own = Report(strict)
    yield own
    for line in own.lines():
        warnings.warn(line, stacklevel=2)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format for annotated text: its reader, its writer and what it can hold."""

    name: str
    """As ``--from`` and ``--to`` take it."""
    endings: tuple[str, ...]
    """Of file names, in lower case, without those of compressed files."""
    about: str
    """One line for ``hardner convert --formats``."""
    read: Callable[..., Iterator[Document]] | None = None
    """``read(path, report)`` yields the documents; None where the format is written only."""
    write: Callable[..., None] | None = None
    """``write(documents, path, report)``; None where the format is read only."""
    sniff: Callable[[str], object] = lambda start: False
    """Whether a file that starts with this text is certainly of the format."""
    holds: frozenset[str] = frozenset()
    """Those of :data:`HOLDABLE` that survive writing and reading."""
    tagged: bool = False
    """Whether it marks mentions by tags of tokens; ``read`` and ``write`` then take ``scheme``."""
    folder: bool = False
    """Whether a folder of files can be read as one corpus."""
    read_line: Callable[[str, Place, Report], Document | None] | None = None
    """Of formats with a document a line: the document of one, None where it is left out."""
