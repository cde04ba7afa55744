"""Documents tagged by several processes at once, each with a model of its own; order is kept."""

import os
import signal
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from hardner.errors import HardnerError
from hardner.tag.predictor import Predictor
from hardner.types import Document

DOCUMENTS = 256
"""Handed to a process at once, at most."""
CHARACTERS = 50_000
"""Of the texts handed to a process at once, but for the last."""
TIMES = 16
"""As much for a process that computes on a GPU."""


@dataclass(frozen=True)
class TagOptions:
    """What to find, and how; the fields are those of `Predictor.documents`."""

    batch_size: int | None = None
    labels: Collection[str] | None = None
    min_score: float = 0.0


def tag_with_workers(
    documents: Iterable[Document],
    model: str | Path | None,
    workers: int,
    wish: TagOptions,
    device: str = "cpu",
) -> Iterator[Document]:
    """As `Predictor.documents`, by so many processes; the result is the same."""
    threads = max(1, (os.cpu_count() or 1) // workers)
    context = get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, context, _start, (model, device, threads, wish, stop))
    flying: deque[Future[list[Document]]] = deque()
    try:
        for chunk in _chunks(documents, TIMES if device.startswith("cuda") else 1):
            flying.append(pool.submit(_tag, chunk))
            if len(flying) > 2 * workers:
                yield from flying.popleft().result()
        while flying:
            yield from flying.popleft().result()
    except BrokenProcessPool:
        raise HardnerError(
            "a worker process was killed, perhaps for want of memory; use fewer --workers"
        ) from None
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _chunks(documents: Iterable[Document], times: int) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text)
        if len(chunk) == times * DOCUMENTS or size >= times * CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


_own: tuple[Predictor, TagOptions, Event] | None = None
"""What this process tags with, and whether it is to stop."""


def _start(
    model: str | Path | None, device: str, threads: int, wish: TagOptions, stop: Event
) -> None:
    """Make a process ready; Ctrl-C is its parent's business."""
    global _own
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    _own = Predictor.load(model, device), wish, stop


def _tag(documents: list[Document]) -> list[Document]:
    assert _own is not None
    predictor, wish, stop = _own
    found = predictor.documents(
        documents, batch_size=wish.batch_size, labels=wish.labels, min_score=wish.min_score
    )
    return [] if stop.is_set() else list(found)
