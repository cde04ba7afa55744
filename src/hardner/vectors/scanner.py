"""Reads a large file once, forward, in small blocks; which of its words serve a vocabulary."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hardner.errors import FileError

ReadProgress = Callable[[int, int | None], None]
"""Progress callback: (bytes read, bytes of the file where that is known)."""

VECTOR_SOURCES = ("exact", "lower", "capitalised", "upper", "subwords")
"""Where a vector may come from, the first found wins: the word as written, its other cases, then,
where the file has them, the character n-grams of the word as written."""
SUBWORDS, MISSING = VECTOR_SOURCES.index("subwords"), len(VECTOR_SOURCES)
SourceRanks = NDArray[np.int8]
"""For each word of the vocabulary, the index of its source, or ``MISSING``."""
_BLOCK = 1 << 16
_REPORT = 1 << 22
"""Bytes between two calls of the progress callback."""
_LONGEST = 1 << 22
"""Bytes of the longest line or word: a file with a longer one holds no vectors."""


class Scanner:
    """A forward cursor over a stream: lines, delimited words, fixed sizes and skips."""

    def __init__(
        self, stream: BinaryIO, path: Path, size: int | None, progress: ReadProgress | None = None
    ) -> None:
        """Args: ``size`` is None for a stream that cannot seek, such as a compressed file."""
        self.path, self.size = path, size
        self._stream, self._progress = stream, progress
        # The buffer starts at byte `_base` of the file; the cursor is at `_at` in the buffer.
        self._buffer, self._at, self._base, self._reported = b"", 0, 0, 0

    @property
    def position(self) -> int:
        return self._base + self._at

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return self._buffer[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        if not self._fill(size):
            raise self._truncated()
        return self._advance(self._at + size)

    def skip(self, size: int) -> None:
        self.seek(self.position + size)

    def seek(self, position: int) -> None:
        """Go forward; a plain file is not read in between."""
        self.check_size(position)
        if self.size is not None and position > self._base + len(self._buffer):
            self._base, self._at, self._buffer = self._stream.seek(position), 0, b""
        while position > self._base + len(self._buffer):
            self._at = len(self._buffer)
            if not self._fill(1):
                raise self._truncated()
        self._at = position - self._base

    def until(self, delimiter: bytes) -> bytes:
        """What precedes the next delimiter, which is passed over too."""
        found = self._find(delimiter)
        if found < 0:
            raise self._truncated()
        return self._advance(found, 1)

    def lines(self) -> Iterator[bytes]:
        while (found := self._find(b"\n")) >= 0:
            yield self._advance(found, 1)
        if rest := self._advance(len(self._buffer)):
            yield rest

    def check_size(self, end: int) -> None:
        """Refuse a file that is known to end before this byte."""
        if self.size is not None and end > self.size:
            raise self.error(f"truncated: ends at byte {self.size}, more was announced")

    def error(self, message: str, line: int | None = None) -> FileError:
        return FileError(self.path, message, line)

    def _truncated(self) -> FileError:
        end = self._base + len(self._buffer)
        return self.error(f"truncated: ends at byte {end}, more was announced")

    def _advance(self, end: int, passed_over: int = 0) -> bytes:
        taken = self._buffer[self._at : end]
        self._at = end + passed_over
        return taken

    def _find(self, delimiter: bytes) -> int:
        found = self._buffer.find(delimiter, self._at)
        while found < 0:
            held = len(self._buffer) - self._at
            if held > _LONGEST:
                message = f"not word vectors: no end of word or line after byte {self.position}"
                raise self.error(message)
            if not self._fill(held + 1):
                return -1
            found = self._buffer.find(delimiter, self._at + held)
        return found

    def _fill(self, size: int) -> bool:
        """Whether at least ``size`` bytes lie ahead in the buffer, after reading as needed."""
        missing = self._at + size - len(self._buffer)
        if missing <= 0:
            return True
        more = self._stream.read(max(missing, _BLOCK))
        self._buffer = self._buffer[self._at :] + more
        self._base, self._at = self.position, 0
        done = self._base + len(self._buffer)
        if self._progress and done - self._reported >= _REPORT:
            self._reported = done
            self._progress(done, self.size)
        return len(self._buffer) >= size


def case_forms(word: str) -> tuple[bytes, ...]:
    """The word in the order of ``VECTOR_SOURCES``, as UTF-8."""
    cases = (word, word.lower(), word.capitalize(), word.upper())
    return tuple(case.encode("utf-8", "surrogatepass") for case in cases)


class Lookup:
    """A vocabulary, to be found in a file."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.forms: dict[bytes, list[tuple[int, int]]] = {}
        """For each form that a file may hold: the words it serves, as (rank, index)."""
        for index, word in enumerate(words):
            for rank, form in enumerate(case_forms(word)):
                self.forms.setdefault(form, []).append((rank, index))

    def keep_best(self, found: Iterable[tuple[bytes, Any]], into: NDArray[Any]) -> SourceRanks:
        """Write the best value found for each word into its row; of duplicates the first counts."""
        ranks = np.full(len(self.words), MISSING, np.int8)
        for form, value in found:
            for rank, index in self.forms.get(form, ()):
                if rank < ranks[index]:
                    ranks[index], into[index] = rank, value
        return ranks
