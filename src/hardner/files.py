"""Files as streams: compressed or plain, checked as they are read, written whole or not at all.

``-`` is standard input or standard output.
"""

import codecs
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from hardner.errors import FileError
from hardner.folders import unfinished

PathLike = str | Path

LINE_LIMIT = 10_000_000
"""Characters of a line: a longer one is no annotated text, and would fill the memory."""
TEXT_LIMIT = 100_000_000
"""Characters of a text that is held in memory as a whole."""
_BLOCK = 1 << 18

_REASONS = {
    errno.ENOENT: "no such file or folder",
    errno.EISDIR: "is a folder, not a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "no space left on the device",
}
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def is_standard(path: PathLike) -> bool:
    """Whether the path means standard input or output."""
    return str(path) == "-"


def shown_path(path: PathLike) -> str:
    """The path as messages name it."""
    return "<standard input>" if is_standard(path) else str(path)


def plain_name(path: PathLike) -> str:
    """The file's name without the ending of a compressed file."""
    name = Path(path).name
    return name[:-3] if name.lower().endswith((".gz", ".xz")) else name


def stem(path: PathLike) -> str:
    """The file's name without its endings; what nameless documents are named after."""
    return "stdin" if is_standard(path) else plain_name(path).partition(".")[0] or "document"


@contextmanager
def file_errors(path: PathLike) -> Iterator[None]:
    """Turns what the system refuses into one line about the file."""
    try:
        yield
    except BrokenPipeError:  # a reader that has seen enough is no error
        raise
    except OSError as error:
        # Windows says "permission denied" of a folder. Path.is_dir fails where a name is too long.
        code = errno.EISDIR if os.path.isdir(path) else error.errno  # noqa: PTH112
        reason = _REASONS.get(code or 0, error.strerror or str(error))
        raise FileError(shown_path(path), reason) from None


class _Source(io.RawIOBase):
    """The bytes of a file, decompressed; errors name the file."""

    def __init__(self, path: PathLike) -> None:
        self._path = path
        with file_errors(path):
            raw = sys.stdin.buffer if is_standard(path) else Path(path).open("rb")  # noqa: SIM115
            self._raw = cast(io.BufferedReader, raw)
            self._file = _decompressed(self._raw, path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            with file_errors(self._path):
                data = self._file.read(len(buffer))
        except _DAMAGED:
            message = "compressed data is cut short or damaged"
            raise FileError(shown_path(self._path), message) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed and not is_standard(self._path) and hasattr(self, "_raw"):
            self._raw.close()
        super().close()


def _decompressed(file: io.BufferedReader, path: PathLike) -> io.BufferedIOBase:
    magic, ending = file.peek(6), str(path)[-3:].lower()
    if magic.startswith(b"\x1f\x8b") or ending == ".gz":
        return gzip.GzipFile(fileobj=file)
    if magic.startswith(b"\xfd7zXZ\x00") or ending == ".xz":
        return lzma.LZMAFile(file)
    return file


def open_binary(path: PathLike) -> io.BufferedReader:
    """The bytes of a file, decompressed where it is .gz or .xz."""
    return io.BufferedReader(_Source(path), _BLOCK)


_UTF_8 = "utf-8-sig"
_ENCODING: ContextVar[str] = ContextVar("encoding", default=_UTF_8)


def is_encoding(name: str) -> bool:
    """Whether Python knows an encoding of text by this name."""
    try:
        return "a".encode(name).decode(name) == "a"
    except (LookupError, ValueError):
        return False


@contextmanager
def decoded_as(encoding: str | None) -> Iterator[None]:
    """Files of text that are opened here are in this encoding, UTF-8 if it is None."""
    token = _ENCODING.set(encoding or _UTF_8)
    try:
        yield
    finally:
        _ENCODING.reset(token)


def chunks(path: PathLike) -> Iterator[str]:
    """The text of a file in chunks: strictly decoded, without a byte-order mark or NUL.

    It is UTF-8 unless `decoded_as` says otherwise.
    """
    encoding = _ENCODING.get()
    decode = codecs.getincrementaldecoder(encoding)().decode
    line = 1
    with open_binary(path) as file:
        while True:
            data = file.read(_BLOCK)
            try:
                text = decode(data, final=not data)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                name = "UTF-8" if encoding == _UTF_8 else encoding
                message = f"byte 0x{error.object[error.start]:02X} is not {name}"
                cure = "re-code the file (iconv -f LATIN1 -t UTF-8), or name its --encoding"
                raise FileError(shown_path(path), f"{message}; {cure}", line) from None
            if "\0" in text:
                line += text[: text.index("\0")].count("\n")
                message = "a NUL byte: this is no text, or in another --encoding, such as utf-16"
                raise FileError(shown_path(path), message, line)
            if not data:
                return
            line += text.count("\n")
            yield text


def read_text(path: PathLike) -> str:
    """All of a file's text, its line ends as they are: offsets into it count every character."""
    held, size = [], 0
    for text in chunks(path):
        size += len(text)
        if size > TEXT_LIMIT:
            raise FileError(shown_path(path), f"longer than {TEXT_LIMIT:,} characters; split it")
        held.append(text)
    whole = "".join(held)
    for number, line in enumerate(whole.split("\n") if size > LINE_LIMIT else (), 1):
        if len(line) > LINE_LIMIT:
            raise _too_long(path, number)
    return whole


def unpacked_limit(path: PathLike) -> int:
    """Bytes that a file may become where it is held in memory as a whole; real ones, 20 times."""
    if is_standard(path):
        return TEXT_LIMIT
    return max(TEXT_LIMIT // 5, 50 * os.stat(path).st_size)  # noqa: PTH116


def read_bytes(path: PathLike) -> bytes:
    """All bytes of a file, decompressed up to :func:`unpacked_limit`."""
    held, size = [], 0
    with open_binary(path) as file:
        limit = unpacked_limit(path)
        while data := file.read(_BLOCK):
            size += len(data)
            if size > limit:
                raise FileError(shown_path(path), f"unpacks to more than {limit:,} bytes; split it")
            held.append(data)
    return b"".join(held)


def read_json(path: PathLike) -> dict[str, Any]:
    """The object in a file of JSON."""
    held = _parsed(path, json.loads, "damaged, not JSON")
    if not isinstance(held, dict):
        raise FileError(path, "damaged: not a JSON object")
    return held


def read_toml(path: PathLike) -> dict[str, Any]:
    """The table in a file of TOML."""
    return cast(dict[str, Any], _parsed(path, tomllib.loads, "cannot be read"))


def _parsed(path: PathLike, parse: Callable[[str], Any], reason: str) -> Any:
    try:
        return parse(read_text(path))
    except (ValueError, RecursionError) as error:  # also of a number of thousands of digits
        raise FileError(path, f"{reason}: {error}") from None


def lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a file and their numbers, from 1, whatever ends them."""
    number, rest = 1, ""
    for text in chunks(path):
        whole, end, rest = (rest + text).rpartition("\n")
        if end:
            rows = _rows(whole)
            yield from enumerate(rows, number)
            number += len(rows)
        if len(rest) > LINE_LIMIT:
            raise _too_long(path, number)
    if rest:
        yield from enumerate(_rows(rest), number)


def _rows(text: str) -> list[str]:
    return text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _too_long(path: PathLike, line: int) -> FileError:
    return FileError(shown_path(path), f"a line longer than {LINE_LIMIT:,} characters", line)


def head(path: PathLike, size: int = 1 << 16) -> str:
    """The first characters of a file, to tell its format; standard input loses nothing."""
    if is_standard(path):
        data = sys.stdin.buffer.peek(size)[:size]  # type: ignore[union-attr]
    else:
        with open_binary(path) as file:
            data = file.read(size)
    return codecs.getincrementaldecoder(_ENCODING.get())("replace").decode(data)


def append_lines(path: PathLike, records: Iterable[Mapping[str, Any]]) -> None:
    """Append JSON lines and flush them to disk: all of them or, where it is full, none."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    with file_errors(path), Path(path).open("ab", buffering=0) as file:
        # A single write, so that writers do not interleave; more only where the disk takes less.
        left, start = memoryview(text.encode()), file.seek(0, os.SEEK_END)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                file.truncate(start)
            raise


@contextmanager
def atomic_binary(path: PathLike) -> Iterator[BinaryIO]:
    """A file to write bytes to; it takes its place when the block ends well, else leaves no trace.

    It is compressed where its name ends in .gz or .xz.
    """
    with file_errors("<standard output>" if is_standard(path) else path):
        if is_standard(path):
            with _passed_on(sys.stdout.buffer) as file:
                yield file
            return
        target = Path(path).resolve()
        if target.exists() and not (target.is_file() or target.is_dir()):
            with target.open("wb") as device, _passed_on(device) as file:
                yield file
            return
        with _beside(target) as raw, _compressed(raw, target.name) as file:
            yield file


@contextmanager
def atomic_write(path: PathLike) -> Iterator[TextIO]:
    """As :func:`atomic_binary`, for UTF-8 text; line ends are written as they are."""
    with atomic_binary(path) as raw:
        yield cast(TextIO, Utf8Writer(raw))


class Utf8Writer(codecs.getwriter("utf-8")):  # type: ignore[misc]
    """Writes a byte-order mark before a text that begins with one, as readers take one away."""

    _begun = False

    def write(self, text: str) -> None:
        if not self._begun and text.startswith("\ufeff"):
            text = "\ufeff" + text
        self._begun = self._begun or text != ""
        super().write(text)


@contextmanager
def _passed_on(target: BinaryIO) -> Iterator[BinaryIO]:
    """For pipes and devices, where nothing can be renamed into place: kept aside until complete."""
    with tempfile.TemporaryFile() as file:
        yield cast(BinaryIO, file)
        file.seek(0)
        shutil.copyfileobj(file, target)
        target.flush()


@contextmanager
def _beside(target: Path) -> Iterator[BinaryIO]:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with unfinished(target.parent) as spare:
        with spare.open("r+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            spare.chmod(mode)
        spare.replace(target)


@contextmanager
def _compressed(raw: BinaryIO, name: str) -> Iterator[BinaryIO]:
    if name.lower().endswith(".gz"):
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif name.lower().endswith(".xz"):
        with lzma.LZMAFile(raw, "wb") as packed:
            yield cast(BinaryIO, packed)
    else:
        yield raw


def sha256(path: Path) -> str:
    """SHA-256 of a file as it is on the disk (not decompressed), in hexadecimal."""
    with file_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
