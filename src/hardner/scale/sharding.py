"""Tag files, folders and patterns into a folder of shards, here or on Ray."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from hardner.errors import FileError, HardnerError
from hardner.files import file_errors, sha256
from hardner.formats import Report, write
from hardner.scale.inputs import (
    BadDocument,
    Input,
    count_documents,
    list_inputs,
    read_documents,
    read_items,
)
from hardner.scale.plan import (
    Shard,
    ShardPlan,
    TagSettings,
    group_shards,
    model_checksum,
    read_plan,
    refuse_other_settings,
    write_plan,
)
from hardner.scale.receipts import (
    Receipt,
    ShardAttempts,
    Summary,
    make_receipt_folders,
    missing_shards,
    write_manifest,
    write_receipt,
)
from hardner.scale.tagging import Backend, RunUnits, TagJob, run_here, running
from hardner.types import Document

_FORMATS = ("jsonl", "parquet")
_SMALL = 64 << 20
"""Bytes of input that are counted before a worker would have started."""
_BLOCK = 1024
"""Documents that are tagged together; where one of them fails, they are tagged one by one."""
_SYSTEMATIC = 8
"""So many failures in a block, if they are more than half of it, are no fault of the documents."""


class ShardProgress(NamedTuple):
    """How far it is."""

    shards: int
    total: int
    documents: int
    """In the shards of this run."""


def tag_files(
    given: Sequence[str | Path],
    out: str | Path,
    job: TagJob,
    *,
    engine: Backend = "local",
    address: str | None = None,
    workers: int = 0,
    format: str | None = None,
    to: str = "jsonl",
    shard: int = 2000,
    on_progress: Callable[[ShardProgress], None] = lambda _: None,
) -> Summary:
    """Tags documents into shards with a manifest; called again, it does what is missing.

    Args:
        given: Files, folders and patterns.
        out: A new folder, or one that was begun with the same settings.
        job: What to find, and with which model.
        engine: Where the work is done; the output is the same.
        address: Of a Ray cluster, all of whose nodes see the inputs, the model and ``out`` under
            the same paths; by default one on this machine.
        workers: Processes at most; 0 for one here, and all that a cluster has room for.
        format: Of the inputs; by default, what each ending or content shows.
        to: ``jsonl`` or ``parquet``.
        shard: Documents of a shard, at most.
        on_progress: Called whenever a shard is done.
    """
    if to not in _FORMATS:
        raise HardnerError(f"shards are {' or '.join(_FORMATS)}, not {to}")
    if "-" in map(str, given):
        raise HardnerError("standard input cannot be cut into shards; name files or folders")
    folder = Path(out).resolve()
    begun = read_plan(folder)
    paths = dict.fromkeys(Path(path).resolve() for path in list_inputs(given, format, folder))
    settings = TagSettings(
        model=model_checksum(job.model),
        labels=None if job.labels is None else tuple(sorted(set(job.labels))),
        min_score=job.min_score,
        to=to,
        shard=shard,
        inputs=tuple(Input.of(path, format) for path in paths),
    )
    here = job if engine == "local" else replace(job, device="cpu")
    here.predictor.check_labels(job.labels)
    if begun is not None:
        refuse_other_settings(folder, begun.settings, settings)
    with running(engine, job.device, workers, address) as (run, device):
        plan = begun or _planned(settings, folder, run)
        if engine != "local":
            model = None if job.model is None else str(Path(job.model).resolve())
            job = replace(job, model=model, device=device)
        _make_shards(plan, job, folder, run, on_progress)
    return write_manifest(folder, plan)


def _planned(settings: TagSettings, folder: Path, run: RunUnits) -> ShardPlan:
    """Counts the documents of all inputs; nothing is written where one cannot be read."""
    small = sum(source.bytes for source in settings.inputs) < _SMALL
    counts: dict[str, int] = {}
    notes: Counter[str] = Counter()
    for path, count, own in (run_here if small else run)(settings.inputs, _CountWorker):
        counts[path] = count
        notes.update(own)
    found = tuple(counts[source.path] for source in settings.inputs)
    plan = ShardPlan(settings, found, dict(notes))
    write_plan(plan, folder)
    return plan


def _make_shards(
    plan: ShardPlan,
    job: TagJob,
    out: Path,
    run: RunUnits,
    on_progress: Callable[[ShardProgress], None],
) -> None:
    """Makes the shards that are not there; inputs that cannot be read do not stop the others."""
    make_receipt_folders(out)
    shards = plan.shards()
    missing = missing_shards(out, shards)
    done, documents = len(shards) - len(missing), 0
    on_progress(ShardProgress(done, len(shards), documents))
    failed: list[str] = []
    arguments = job, out, plan.settings.to
    for made in run(group_shards(missing), _ShardWorker, arguments) if missing else ():
        done, documents = done + made.shards, documents + made.documents
        on_progress(ShardProgress(done, len(shards), documents))
        failed += [made.failed] if made.failed else []
    if failed:
        many = (
            f"{len(shards) - done} of {len(shards)} shards could not be made, the others are done"
        )
        raise HardnerError(f"{min(failed)} ({many}; mend it and run the same command again)")


class _CountWorker:
    """Counts the documents of an input, and what could not be kept in reading it."""

    def __call__(self, source: Input) -> tuple[str, int, dict[str, int]]:
        report = Report()
        with file_errors(source.path):
            return source.path, count_documents(source, report), dict(report.counts)


class _Made(NamedTuple):
    """What became of a group of shards."""

    shards: int
    documents: int
    failed: str
    """Why the others could not be read; empty where there are none."""


class _ShardWorker:
    """Makes groups of shards of one input."""

    def __init__(self, job: TagJob, out: Path, to: str) -> None:
        self._job, self._out, self._to = job, out, to

    def __call__(self, group: Sequence[Shard]) -> _Made:
        # A worker before this one may have died in the middle of the group.
        missing = missing_shards(self._out, group)
        if not missing:
            return _Made(len(group), 0, "")
        source, made, documents = group[0].source, len(group) - len(missing), 0
        try:
            at = missing[0].start
            items = read_items(source, at, missing[-1].stop)
            for shard in missing:
                own = islice(items, shard.start - at, shard.stop - at)
                documents += self._make(shard, own)
                made, at = made + 1, shard.stop
        except FileError as error:
            if not error.path.is_relative_to(source.path):
                raise
            return _Made(made, documents, str(error))
        return _Made(made, documents, "")

    def _make(self, shard: Shard, items: Iterator[tuple[int, Any]]) -> int:
        """Tags the documents of a shard; its file is whole before its receipt is there."""
        report, attempts = Report(), ShardAttempts(self._out, shard)
        bad: list[BadDocument] = []
        documents = entities = 0

        def counted() -> Iterator[Document]:
            nonlocal documents, entities
            found = read_documents(shard.source, items, report, bad)
            for document in self._tagged(found, shard.source.path, attempts, bad):
                documents += 1
                entities += len(document.entities)
                yield document

        target = self._out / shard.name
        write(counted(), target, self._to, report=report)
        receipt = Receipt(
            name=shard.name,
            source=shard.source.path,
            first=shard.start + 1,
            documents=documents,
            entities=entities,
            bad=tuple(bad),
            notes=dict(report.counts),
            bytes=target.stat().st_size,
            sha256=sha256(target),
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
        write_receipt(self._out, receipt)
        attempts.finish()
        return documents

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
                made = list(self._job.tag([document for _, document in block]))
            except Exception:
                made = self._one_by_one(block, path, bad)
            yield from made

    def _one_by_one(
        self, block: Sequence[tuple[int, Document]], path: str, bad: list[BadDocument]
    ) -> list[Document]:
        made: list[Document] = []
        failed: list[BadDocument] = []
        for number, document in block:
            try:
                made += self._job.tag([document])
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                failed.append(BadDocument(path, number + 1, document.id, reason, document.text))
        if len(failed) >= _SYSTEMATIC and 2 * len(failed) > len(block):
            many = f"{len(failed)} of {len(block)} documents cannot be tagged"
            raise HardnerError(f"{path}: {many}, the first with {failed[0].error}")
        bad += failed
        return made
