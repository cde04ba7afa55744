"""One unit of work of a folder of shards: read some documents of an input, tag and write them."""

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from hardner.errors import FileError, HardnerError
from hardner.files import file_errors, head, lines, sha256, stem
from hardner.formats import FORMATS, Place, Report, parquet, read, write
from hardner.scale.plan import Input, Shard
from hardner.scale.receipts import (
    BadDocument,
    Receipt,
    ShardAttempts,
    missing_shards,
    write_receipt,
)
from hardner.scale.tagging import TagJob
from hardner.types import Document

_BLOCK = 1024
"""Documents that are tagged together; where one of them fails, they are tagged one by one."""
_SYSTEMATIC = 8
"""So many failures in a block, if they are more than half of it, are no fault of the documents."""


def count_documents(source: Input) -> tuple[str, int, dict[str, int]]:
    """An input's path, its documents, bad ones too, and what could not be kept in reading it."""
    report = Report()
    with file_errors(source.path):
        if source.format == "parquet":
            count = parquet.count_rows(source.path)
        elif _is_by_line(source):
            # What a line cannot keep is told when its shard is made.
            count = sum(1 for _, line in lines(source.path) if line.strip())
        else:
            count = sum(1 for _ in read(source.path, source.format, report=report))
    return source.path, count, dict(report.counts)


class ShardsMade(NamedTuple):
    """What became of a group of shards."""

    shards: int
    documents: int
    failed: str
    """Why the others could not be read; empty where there are none."""


@dataclass(frozen=True)
class ShardWorker:
    """Makes groups of shards of one input."""

    job: TagJob
    out: Path
    to: str

    def __call__(self, group: Sequence[Shard]) -> ShardsMade:
        # A worker before this one may have died in the middle of the group.
        missing = missing_shards(self.out, group)
        if not missing:
            return ShardsMade(len(group), 0, "")
        source, made, documents = group[0].source, len(group) - len(missing), 0
        try:
            at = missing[0].start
            items = _read_items(source, at, missing[-1].stop)
            for shard in missing:
                own = islice(items, shard.start - at, shard.stop - at)
                documents += self._make(shard, own)
                made, at = made + 1, shard.stop
        except FileError as error:
            if not error.path.is_relative_to(source.path):
                raise
            return ShardsMade(made, documents, str(error))
        return ShardsMade(made, documents, "")

    def _make(self, shard: Shard, items: Iterator[tuple[int, Any]]) -> int:
        """Tags the documents of a shard; its file is whole before its receipt is there."""
        report, attempts = Report(), ShardAttempts(self.out, shard)
        bad: list[BadDocument] = []
        found = _read_documents(shard.source, items, report, bad)
        documents = list(self._tagged(found, shard.source.path, attempts, bad))
        target = self.out / shard.name
        write(documents, target, self.to, report=report)
        receipt = Receipt(
            name=shard.name,
            source=shard.source.path,
            first=shard.start + 1,
            documents=len(documents),
            entities=sum(len(document.entities) for document in documents),
            bad=tuple(bad),
            notes=dict(report.counts),
            bytes=target.stat().st_size,
            sha256=sha256(target),
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
        write_receipt(self.out, receipt)
        attempts.finish()
        return len(documents)

    def _tagged(
        self,
        found: Iterator[tuple[int, Document]],
        path: str,
        attempts: ShardAttempts,
        bad: list[BadDocument],
    ) -> Iterator[Document]:
        """The documents, in order, but for those that cannot be tagged, which go to ``bad``."""
        while block := list(islice(found, 1 if attempts.one_by_one else _BLOCK)):
            if attempts.one_by_one:
                number, document = block[0]
                if attempts.blames(number):
                    reason = "ended each process that tried to tag it"
                    bad.append(BadDocument(path, number + 1, document.id, reason, document.text))
                    continue
                attempts.begin(number)
            try:
                made = list(self.job.tag([document for _, document in block]))
            except Exception:  # whatever it is, the other documents of the block are not to blame
                made = self._one_by_one(block, path, bad)
            yield from made

    def _one_by_one(
        self, block: Sequence[tuple[int, Document]], path: str, bad: list[BadDocument]
    ) -> list[Document]:
        made: list[Document] = []
        failed: list[BadDocument] = []
        for number, document in block:
            try:
                made += self.job.tag([document])
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                failed.append(BadDocument(path, number + 1, document.id, reason, document.text))
        if len(failed) >= _SYSTEMATIC and 2 * len(failed) > len(block):
            many = f"{len(failed)} of {len(block)} documents cannot be tagged"
            raise HardnerError(f"{path}: {many}, the first with {failed[0].error}")
        bad += failed
        return made


def _read_items(source: Input, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """Numbers, from 0, and what stands there: a document, or a line or row that holds one."""
    if source.format == "parquet":
        return parquet.read_rows(source.path, start, stop)
    if _is_by_line(source):
        filled = (found for found in lines(source.path) if found[1].strip())
        return islice(enumerate(filled), start, stop)
    return islice(enumerate(read(source.path, source.format, report=Report())), start, stop)


def _read_documents(
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
