"""One shard from its documents to its file and receipt: the same work on every engine."""

import hashlib
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardner.formats import Report, write
from hardner.scale.attempts import Attempt
from hardner.scale.isolate import tag_in_blocks
from hardner.scale.ledger import ATTEMPTS, Receipt, hand_in
from hardner.scale.plan import Shard, TagSettings
from hardner.scale.reading import Bad, Stream
from hardner.tag.predictor import Predictor
from hardner.types import Document


@dataclass(frozen=True, slots=True)
class ShardJob:
    """What a worker needs to know beside the shard."""

    out: str
    model: str | None
    settings: TagSettings
    device: str = "cpu"
    batch_size: int | None = None

    def predictor(self) -> Predictor:
        """The model, loaded."""
        return Predictor.load(self.model, self.device)


def perform(job: ShardJob, predictor: Predictor, shard: Shard, stream: Stream) -> Receipt:
    """Tags the documents of a shard; its file is whole before its receipt is there.

    The stream is that of the shard's input and has not passed it yet.
    """
    out, settings, report = Path(job.out), job.settings, Report()
    attempt = Attempt(out / ATTEMPTS / f"{shard.name}.json")
    bad: list[Bad] = []

    def tag(block: Sequence[Document]) -> list[Document]:
        found = predictor.documents(
            block,
            batch_size=job.batch_size,
            labels=settings.labels,
            min_score=settings.min_score,
        )
        return list(found)

    found = stream.documents(shard.start, shard.stop, report, bad.append)
    made = _Counted(tag_in_blocks(tag, found, shard.source.path, attempt, bad.append))
    target = out / shard.name
    write(made, target, settings.to, report=report)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    receipt = Receipt(
        name=shard.name,
        source=shard.source.path,
        first=shard.start + 1,
        documents=made.documents,
        entities=made.entities,
        bad=tuple(bad),
        notes=dict(report.counts),
        bytes=target.stat().st_size,
        sha256=digest,
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )
    hand_in(out, receipt)
    attempt.succeeded()
    return receipt


class _Counted:
    """Documents that are counted as they pass."""

    def __init__(self, found: Iterable[Document]) -> None:
        self._found = found
        self.documents = self.entities = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self._found:
            self.documents += 1
            self.entities += len(document.entities)
            yield document
