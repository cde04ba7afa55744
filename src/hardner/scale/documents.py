"""The documents of many files as one stream, each known to be of its file."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

from hardner.errors import HardnerError
from hardner.formats import Report, read
from hardner.types import Document

_Work = Callable[[Iterable[Document]], Iterable[Document]]
"""Changes documents, which it may read ahead, and gives them back in order."""


class Inputs:
    """Files that are worked on as one stream.

    A file that cannot be read ends the stream; it is an error once all that was read is done.
    """

    def __init__(
        self, sources: Sequence[str], format: str | None, report: Report, skip: int = 0
    ) -> None:
        """Args: ``skip`` says how many documents are done already."""
        self._sources, self._format, self._report = sources, format, report
        self._skip = skip
        self._owners: deque[str] = deque()
        self._failed: tuple[str, HardnerError] | None = None

    def through(self, work: _Work) -> Iterator[Document]:
        """What the work makes of all documents."""
        return chain.from_iterable(documents for _, documents in self.parted(work))

    def parted(self, work: _Work) -> Iterator[tuple[str, Iterator[Document]]]:
        """The same file by file; the documents of one are to be taken before the next."""
        pairs = ((self._owners.popleft(), document) for document in work(self._read()))
        for source, group in groupby(pairs, key=itemgetter(0)):
            yield source, self._whole(source, (document for _, document in group))
        self._check()

    def _read(self) -> Iterator[Document]:
        for source in self._sources:
            try:
                for document in read(source, self._format, report=self._report):
                    if self._skip:
                        self._skip -= 1
                        continue
                    self._owners.append(source)
                    yield document
            except HardnerError as error:
                self._failed = source, error
                return

    def _whole(self, source: str, documents: Iterator[Document]) -> Iterator[Document]:
        yield from documents
        if self._failed and self._failed[0] == source:
            self._check()

    def _check(self) -> None:
        if self._failed:
            raise self._failed[1]
