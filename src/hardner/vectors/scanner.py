"""Reads a large file once, forward, in small blocks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from hardner.errors import FileError

ScanProgress = Callable[[int, int | None], None]
"""Called with the bytes read so far and, where it is known, how many there are."""

_BLOCK = 1 << 16
_LONGEST = 1 << 22
"""No line and no word is longer than this many bytes; what is, is not a vector file."""
REPORT = 1 << 22


class Scanner:
    """A forward cursor over a stream: lines, delimited words, fixed sizes and skips."""

    def __init__(
        self, stream: BinaryIO, path: Path, size: int | None, progress: ScanProgress | None = None
    ) -> None:
        self.path, self.size = path, size
        self._stream, self._progress = stream, progress
        self._buffer, self._at, self._base, self._reported = b"", 0, 0, 0

    @property
    def position(self) -> int:
        return self._base + self._at

    def peek(self, size: int) -> bytes:
        self._fill(size)
        return self._buffer[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        if not self._fill(size):
            raise self.truncated(self._base + len(self._buffer))
        start, self._at = self._at, self._at + size
        return self._buffer[start : self._at]

    def skip(self, size: int) -> None:
        self.seek(self.position + size)

    def seek(self, position: int) -> None:
        """Goes forward; a plain file is not read in between."""
        if self.size is not None:
            if position > self.size:
                raise self.truncated(self.size)
            if position > self._base + len(self._buffer):
                self._base, self._at, self._buffer = self._stream.seek(position), 0, b""
        while position > self._base + len(self._buffer):
            self._at = len(self._buffer)
            if not self._fill(1):
                raise self.truncated(self._base)
        self._at = position - self._base

    def until(self, delimiter: bytes) -> bytes:
        """What precedes the next delimiter, which is passed over too."""
        found = self._find(delimiter)
        if found < 0:
            raise self.truncated(self._base + len(self._buffer))
        start, self._at = self._at, found + 1
        return self._buffer[start:found]

    def lines(self) -> Iterator[bytes]:
        while True:
            found = self._find(b"\n")
            if found < 0:
                break
            start, self._at = self._at, found + 1
            yield self._buffer[start:found]
        start, self._at = self._at, len(self._buffer)
        if rest := self._buffer[start:]:
            yield rest

    def truncated(self, position: int) -> FileError:
        return FileError(self.path, f"truncated: ends at byte {position}, more was announced")

    def _find(self, delimiter: bytes) -> int:
        found = self._buffer.find(delimiter, self._at)
        while found < 0:
            held = len(self._buffer) - self._at
            if held > _LONGEST:
                raise FileError(
                    self.path,
                    f"not word vectors: no end of word or line after byte {self.position}",
                )
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
        if self._progress and done - self._reported >= REPORT:
            self._reported = done
            self._progress(done, self.size)
        return len(self._buffer) >= size
