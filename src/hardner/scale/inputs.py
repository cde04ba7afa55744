"""What is to be tagged: files out of paths, folders and patterns, and the documents in them."""

import glob
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from hardner.errors import FileError, HardnerError
from hardner.files import file_errors, head, is_standard, lines, plain_name, stem
from hardner.formats import FORMATS, Place, Report, detect, parquet, read
from hardner.types import Document


def list_inputs(
    given: Iterable[str | Path], format: str | None = None, outside: Path | None = None
) -> list[str]:
    """The files, and the folders that are one corpus, that paths, folders and patterns name.

    Args:
        given: Of a folder that is no corpus, all files below it with the ending of a known format.
        format: Of all of them; by default, what each ending or content shows.
        outside: A folder below which nothing is found.
    """
    if format is not None and format not in FORMATS:
        raise HardnerError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    names = [str(name) for name in given]
    found: list[str] = []
    for name in names:
        path = Path(name)
        if is_standard(name) or path.is_file() or _is_corpus(path, format):
            found.append(name)
        elif path.is_dir() or glob.has_magic(name):
            inside = outside and outside.resolve()
            files = _below(path) if path.is_dir() else _matching(name, format)
            found += [f for f in files if not (inside and Path(f).resolve().is_relative_to(inside))]
        else:
            found.append(name)  # It is not there, which is an error when its turn comes.
    if not found:
        raise HardnerError(f"no files of a known format in {', '.join(names)}")
    return found


def _is_corpus(path: Path, format: str | None) -> bool:
    """Whether a folder is a layout of its own rather than a place for files."""
    if not path.is_dir():
        return False
    if format is not None:
        return FORMATS[format].folder
    try:
        return detect(path).folder
    except FileError:
        return False


def _below(folder: Path) -> Iterator[str]:
    endings = tuple(ending for row in FORMATS.values() if row.read for ending in row.endings)
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and plain_name(path).lower().endswith(endings):
            yield str(path)


def _matching(pattern: str, format: str | None) -> list[str]:
    matching = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - may be absolute
    if not matching:
        raise FileError(pattern, "no file matches")
    return list_inputs(matching, format)


@dataclass(frozen=True, slots=True)
class Input:
    """A file, or a folder that is one corpus, and what identifies its content."""

    path: str
    format: str
    bytes: int
    modified: int
    """Its time of change, in nanoseconds."""

    @classmethod
    def of(cls, path: Path, format: str | None) -> "Input":
        """Look at a file or folder."""
        if not path.exists():
            raise FileError(path, "no such file or folder")
        with file_errors(path):
            parts = [p.stat() for p in ([path] if path.is_file() else sorted(path.rglob("*")))]
        size, modified = sum(p.st_size for p in parts), max(p.st_mtime_ns for p in parts)
        return cls(str(path), format or detect(path).name, size, modified)


def documents_by_input(
    sources: Sequence[str],
    work: Callable[[Iterable[Document]], Iterable[Document]],
    report: Report,
    format: str | None = None,
    skip: int = 0,
) -> Iterator[tuple[str, Iterator[Document]]]:
    """What the work makes of the documents of several inputs, input by input.

    All are worked on as one stream, so that documents of small files are tagged together. An input
    that cannot be read ends the stream; it is an error once all that was read is done.

    Args:
        sources: The inputs; the documents of one are to be taken before the next.
        work: It may read ahead, but keeps the order.
        report: Where what cannot be kept is counted.
        format: Of the inputs; by default, what each ending or content shows.
        skip: How many documents are left out because they are done already.
    """
    owners: deque[str] = deque()
    failed: dict[str, HardnerError] = {}

    def read_all() -> Iterator[Document]:
        left = skip
        for source in sources:
            try:
                for document in read(source, format, report=report):
                    if left:
                        left -= 1
                        continue
                    owners.append(source)
                    yield document
            except HardnerError as error:
                failed[source] = error
                return

    def whole(source: str, documents: Iterable[Document]) -> Iterator[Document]:
        yield from documents
        # Documents of half an input must not become a file that looks finished.
        if source in failed:
            raise failed[source]

    pairs = ((owners.popleft(), document) for document in work(read_all()))
    for source, group in groupby(pairs, key=itemgetter(0)):
        yield source, whole(source, (document for _, document in group))
    for error in failed.values():
        raise error


@dataclass(frozen=True, slots=True)
class BadDocument:
    """A document that could not be read or tagged."""

    file: str
    number: int
    """Which one of the file, from 1."""
    id: str
    error: str
    text: str
    """The document's, or the line that holds it."""


def count_documents(source: Input, report: Report) -> int:
    """How many documents an input holds, bad ones counted; it is read once from end to end."""
    if source.format == "parquet":
        return parquet.count_rows(source.path)
    if _is_by_line(source):
        # What a line cannot keep is told when its shard is made.
        return sum(1 for _, line in lines(source.path) if line.strip())
    return sum(1 for _ in read(source.path, source.format, report=report))


def read_items(source: Input, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """Numbers, from 0, and what stands there: a document, or a line or row that holds one."""
    if source.format == "parquet":
        return parquet.read_rows(source.path, start, stop)
    if _is_by_line(source):
        filled = (found for found in lines(source.path) if found[1].strip())
        return islice(enumerate(filled), start, stop)
    return islice(enumerate(read(source.path, source.format, report=Report())), start, stop)


def read_documents(
    source: Input, items: Iterable[tuple[int, Any]], report: Report, bad: list[BadDocument]
) -> Iterator[tuple[int, Document]]:
    """The documents of some items, and their numbers; what is no document goes to ``bad``."""
    for number, item in items:
        try:
            document = _document(source, number, item, report)
        except HardnerError as error:
            text = item[1] if isinstance(item, tuple) else str(item.get("text") or "")
            bad.append(BadDocument(source.path, number + 1, "", str(error), text))
        else:
            if document is not None:
                yield number, document


def _is_by_line(source: Input) -> bool:
    """Whether documents are lines: the file can be cut, and a bad line harms no other."""
    by_line = FORMATS[source.format].read_line is not None
    return by_line and not head(source.path).lstrip().startswith("[")


def _document(source: Input, number: int, item: Any, report: Report) -> Document | None:
    if isinstance(item, Document):
        return item
    if source.format == "parquet":
        return parquet.document_of_row(item, source.path, number)
    line, text = item
    read_line = FORMATS[source.format].read_line
    assert read_line is not None  # as `_is_by_line` has found
    document = read_line(text, Place(source.path, line), report)
    if document is None or document.id:
        return document
    return replace(document, id=f"{stem(source.path)}-{number + 1}")
