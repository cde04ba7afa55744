"""The job of tagging, and who does it: this process, several processes, or a Ray cluster."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any, Literal, Protocol

from hardner.errors import HardnerError
from hardner.tag.predictor import Predictor
from hardner.types import Document

Backend = Literal["local", "ray"]
_DOCUMENTS = 256
"""Handed to a process at once, at most."""
_CHARACTERS = 50_000
"""Of the texts handed to a process at once, but for the last."""
_GPU_FACTOR = 16
"""As many times as much for a process that computes on a GPU."""


@dataclass(frozen=True)
class TagJob:
    """What to find, with which model and where; of the other fields see `Predictor.documents`."""

    model: str | None = None
    device: str = "cpu"
    batch_size: int | None = None
    labels: Sequence[str] | None = None
    min_score: float = 0.0

    @cached_property
    def predictor(self) -> Predictor:
        """The model, loaded once in each process that asks for it."""
        return Predictor.load(self.model, self.device)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    def tag(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents, in order, with what is found in place of their entities."""
        return self.predictor.documents(
            documents, batch_size=self.batch_size, labels=self.labels, min_score=self.min_score
        )


class DocumentTagger:
    """A worker whose units are some documents."""

    def __init__(self, job: TagJob) -> None:
        self._job = job

    def __call__(self, documents: list[Document]) -> list[Document]:
        return list(self._job.tag(documents))


def tag_with_workers(
    documents: Iterable[Document], job: TagJob, workers: int
) -> Iterator[Document]:
    """As `TagJob.tag`, by so many processes; the result is the same."""
    if workers <= 1:
        yield from job.tag(documents)
        return
    factor = _GPU_FACTOR if job.predictor.device.startswith("cuda") else 1
    for tagged in run_in_processes(_chunks(documents, factor), DocumentTagger, (job,), workers):
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


class RunUnits(Protocol):
    """A way to have units of work done: ``worker(*arguments)(unit)`` for each, in any order."""

    def __call__(
        self, units: Iterable[Any], worker: type, arguments: tuple[Any, ...] = ()
    ) -> Iterator[Any]: ...


@contextmanager
def running(
    backend: Backend, device: str, workers: int, address: str | None
) -> Iterator[tuple[RunUnits, str]]:
    """A way to run units, and the device that there is for it.

    Args:
        backend: Where.
        device: What is wished for.
        workers: How many processes at most; 0 for one here, and all that a cluster has room for.
        address: Of a Ray cluster; by default one on this machine.
    """
    if backend == "local":
        yield (partial(run_in_processes, workers=workers) if workers > 1 else run_here), device
        return
    from hardner.scale.cluster import cluster, run_on_ray

    with cluster(address) as ray:
        if device == "auto":
            device = "cuda" if ray.cluster_resources().get("GPU") else "cpu"
        yield partial(run_on_ray, ray, workers=workers, gpu=device != "cpu"), device


def run_here(units: Iterable[Any], worker: type, arguments: tuple[Any, ...] = ()) -> Iterator[Any]:
    """In this process, one after the other."""
    return map(worker(*arguments), units)


def run_in_processes(
    units: Iterable[Any], worker: type, arguments: tuple[Any, ...] = (), workers: int = 2
) -> Iterator[Any]:
    """By several processes of this machine; results are in the order of the units."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, context, _start, (worker, arguments, threads, stop))
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


def _start(worker: type, arguments: tuple[Any, ...], threads: int, stop: Event) -> None:
    """Make a process ready; Ctrl-C is its parent's business."""
    import torch

    global _own
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    _own = worker(*arguments), stop


def _work(unit: Any) -> Any:
    assert _own is not None
    call, stop = _own
    try:
        return None if stop.is_set() else call(unit)
    except HardnerError as error:
        # What has more than a message, as a FileError, does not survive the way back.
        raise HardnerError(str(error)) from None
