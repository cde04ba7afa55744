"""What a conversion could not keep or had to repair: counted, said in one line each."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hardner.errors import FileError
from hardner.files import PathLike, shown_path


class Place(NamedTuple):
    """Where in a file, by line or by document."""

    path: PathLike
    line: int | None = None
    document: str | None = None

    def error(self, message: str) -> FileError:
        if self.document is not None:
            message = f"document {self.document!r}: {message}"
        return FileError(shown_path(self.path), message.replace("\n", " "), self.line)


class Report:
    """Counts by reason, each with the first place it was seen at.

    Args:
        strict: The first loss or repair of an annotation is an error.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self._first: dict[str, Place] = {}

    def add(self, reason: str, place: Place, count: int = 1) -> None:
        """An annotation was left out or repaired."""
        if self.strict:
            raise place.error(reason)
        self.note(reason, place, count)

    def note(self, reason: str, place: Place, count: int = 1) -> None:
        """Something around the annotations was left out: ids, layout, bookkeeping of a tool."""
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
    """The caller's report; without one, what was counted ends as Python warnings."""
    if report is not None:
        report.strict |= strict
        yield report
        return
    own = Report(strict)
    yield own
    for line in own.lines():
        warnings.warn(line, stacklevel=2)
