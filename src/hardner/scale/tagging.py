"""Tagging a stream of documents: what the inputs are, and who does the work.

That is this process, or several of this machine. Folders of shards are `hardner.scale.sharding`.
"""

import glob
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from operator import itemgetter
from pathlib import Path
from typing import Any

from hardner.errors import FileError, HardnerError
from hardner.files import is_standard, plain_name
from hardner.formats import FORMATS, Report, detect, read
from hardner.tag.predictor import Predictor
from hardner.tag.text_tagger import MinScore
from hardner.types import Document

_DOCUMENTS = 256
"""Handed to a process at once, at most."""
_CHARACTERS = 50_000
"""Of the texts handed to a process at once, but for the last."""
_GPU_FACTOR = 16
"""As many times as much for a process that computes on a GPU."""


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


def documents_by_input(
    sources: Sequence[str],
    work: Callable[[Iterable[Document]], Iterable[Document]],
    report: Report,
    format: str | None = None,
    skip: int = 0,
    encoding: str | None = None,
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
        encoding: Of the inputs, UTF-8 by default.
    """
    owners: deque[str] = deque()
    failed: dict[str, HardnerError] = {}

    def read_all() -> Iterator[Document]:
        left = skip
        for source in sources:
            try:
                for document in read(source, format, report=report, encoding=encoding):
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


@dataclass(frozen=True)
class TagJob:
    """What to find, with which model and where; of the other fields see `Predictor.documents`."""

    model: str | None = None
    device: str = "cpu"
    batch_size: int | None = None
    labels: Sequence[str] | None = None
    min_score: MinScore = None
    types: Mapping[str, str] = field(default_factory=dict)
    """Further types by what they mean, as `Predictor.with_types` takes them."""

    @cached_property
    def predictor(self) -> Predictor:
        """The model, loaded once in each process that asks for it."""
        found = Predictor.load(self.model, self.device)
        return found.with_types(self.types) if self.types else found

    @property
    def threshold_setting(self) -> float | dict[str, float]:
        """The thresholds as plans and unfinished files store them: one for all labels, or each's.

        0 stands for the model's own thresholds, which its checksum covers.
        """
        least = self.predictor.least_scores(self.min_score)
        if least == self.predictor.thresholds:
            return 0.0
        different = set(least.values())
        return least if len(different) > 1 or different == {0.0} else different.pop()

    def __getstate__(self) -> dict[str, Any]:
        # What is sent to a worker is the description; each loads the model itself.
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    def tag(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents, in order, with what is found in place of their entities."""
        return self.predictor.documents(
            documents, batch_size=self.batch_size, labels=self.labels, min_score=self.min_score
        )

    def __call__(self, documents: Sequence[Document]) -> list[Document]:
        """As a worker whose units are some documents."""
        return list(self.tag(documents))


def tag_with_workers(
    documents: Iterable[Document], job: TagJob, workers: int
) -> Iterator[Document]:
    """As `TagJob.tag`, by so many processes; the result is the same."""
    if workers <= 1:
        # Not in chunks: sentences of more documents can be sorted by length together.
        yield from job.tag(documents)
        return
    factor = _GPU_FACTOR if job.predictor.device.startswith("cuda") else 1
    for tagged in run_in_processes(job, _chunks(documents, factor), workers):
        yield from tagged


def _chunks(documents: Iterable[Document], factor: int) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text)
        if len(chunk) == factor * _DOCUMENTS or size >= factor * _CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def run_in_processes(
    worker: Callable[[Any], Any], units: Iterable[Any], workers: int
) -> Iterator[Any]:
    """What several processes make of units of work, in the order of the units."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = get_context("spawn")  # a fork of a process whose torch has threads may hang
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, context, _start, (worker, threads, stop))
    queue: deque[Future[Any]] = deque()
    try:
        for unit in units:
            queue.append(pool.submit(_work, unit))
            # Enough to keep all busy, and no more: units are read as they are needed.
            if len(queue) > 2 * workers:
                yield queue.popleft().result()
        while queue:
            yield queue.popleft().result()
    except BrokenProcessPool:
        raise HardnerError(
            "a worker process was killed, perhaps for want of memory; use fewer --workers"
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


_own: tuple[Callable[[Any], Any], Event] | None = None
"""What this process does with a unit, and whether it is to stop."""


def _start(worker: Callable[[Any], Any], threads: int, stop: Event) -> None:
    """Make a process ready; Ctrl-C is its parent's business."""
    import torch

    global _own
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    _own = worker, stop


def _work(unit: Any) -> Any:
    assert _own is not None
    call, stop = _own
    try:
        return None if stop.is_set() else call(unit)
    except HardnerError as error:
        # What has more than a message, as a FileError, does not survive the way back.
        raise HardnerError(str(error)) from None
