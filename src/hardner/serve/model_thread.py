"""The one thread that computes with the current model; texts that wait are tagged together."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from hardner.errors import HardnerError
from hardner.serve.errors import Busy, Conflict
from hardner.types import Entity

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor
    from hardner.tag.text_tagger import TextTagger

_BATCH = 200_000  # characters tagged in one go
_QUEUED = 5_000_000  # characters that may wait to be tagged
_GATHER = 0.004  # seconds that a request waits for others, which are as a rule on their way
_PART = 2_000  # characters that are worth a thread

_Outcome = TypeVar("_Outcome")
_Model = TypeVar("_Model", bound="TextTagger")
_Entities = list[list[Entity]]
_log = logging.getLogger(__name__)


def load_predictor(folder: Path | None) -> "Predictor":
    """A model that computes with one thread, as whoever serves it has several texts at once."""
    import torch  # the server starts before it is there

    from hardner.tag.predictor import Predictor

    torch.set_num_threads(1)  # for all threads that begin from now on, too
    return Predictor.load(folder)


class Loaded(NamedTuple, Generic[_Model]):
    number: int
    model: _Model


LoadedModel = Loaded["Predictor"]


class _Request(NamedTuple):
    texts: Sequence[str]
    size: int
    answer: Future[tuple[int, _Entities]]


class TaggingThread(Generic[_Model]):
    """A thread that owns a model and decides what it computes; texts that wait go together."""

    def __init__(
        self,
        helpers: int = 1,
        queued: int = _QUEUED,
        pipe: "Callable[[_Model, Sequence[str]], Iterable[Sequence[Entity]]] | None" = None,
    ) -> None:
        """Args:
        helpers: Threads among which the texts of a batch are dealt out, for a model that does not
            do that by itself.
        queued: Characters that may wait; one request always may.
        pipe: Tags texts with a model, by default by its `TextTagger.pipe`.
        """
        self._pool = ThreadPoolExecutor(1, "model")
        self._helpers = ThreadPoolExecutor(helpers, "tag") if helpers > 1 else None
        self._parts, self._queued = helpers, queued
        self._pipe = pipe or (lambda model, texts: model.pipe(texts))
        self._requests: deque[_Request] = deque()
        self._waiting = 0
        self._pace = 20_000.0  # characters a second; a guess until some have been tagged
        self._was_crowded = False
        self._lock = threading.Lock()
        self._loaded: Loaded[_Model] | None = None
        self._why = "there is no model yet"

    @property
    def is_wanted(self) -> bool:
        """Whether texts wait to be tagged, before which nothing need be computed ahead."""
        return self._waiting > 0

    @property
    def waiting(self) -> tuple[int, int]:
        """Requests that wait, and their characters."""
        return len(self._requests), self._waiting

    def use(self, number: int, load: Callable[[], _Model]) -> Future[Loaded[_Model]]:
        """Load a model; whatever is asked from now on waits for it."""

        def work() -> Loaded[_Model]:
            try:
                self._loaded = Loaded(number, load())
            except Exception as error:
                self._loaded = None
                self._why = str(error) if isinstance(error, HardnerError) else repr(error)
                raise
            return self._loaded

        return self._pool.submit(_logged, work)

    def submit(self, work: Callable[[Loaded[_Model]], _Outcome]) -> Future[_Outcome]:
        """Compute something with the model, after all that was asked before."""
        return self._pool.submit(_logged, lambda: work(self._model()))

    def tag(self, texts: Sequence[str]) -> Future[tuple[int, _Entities]]:
        """The number of the model, and the entities of each text."""
        size = sum(map(len, texts))
        answer: Future[tuple[int, _Entities]] = Future()
        with self._lock:
            if self._waiting and self._waiting + size > self._queued:
                message = "too many texts are waiting to be tagged; try again later"
                raise Busy(message, retry_after=ceil(self._waiting / self._pace))
            self._waiting += size
            self._requests.append(_Request(texts, size, answer))
        self._pool.submit(self._tag_waiting)
        return answer

    def stop(self) -> None:
        """End the thread after the work in hand."""
        self._pool.shutdown(cancel_futures=True)
        if self._helpers:
            self._helpers.shutdown()

    def _model(self) -> Loaded[_Model]:
        if self._loaded is None:
            raise Conflict(self._why)
        return self._loaded

    def _tag_waiting(self) -> None:
        """Tag as many of the waiting texts as fit into a batch; the first always does."""
        if not self._requests:
            return  # an earlier call took them along
        if self._was_crowded:  # who was answered together asks again together
            time.sleep(_GATHER)
        batch: list[_Request] = []
        size = 0
        with self._lock:
            while self._requests and (not batch or size + self._requests[0].size <= _BATCH):
                batch.append(self._requests.popleft())
                size += batch[-1].size
            self._waiting -= size
        self._was_crowded = len(batch) > 1
        batch = [one for one in batch if one.answer.set_running_or_notify_cancel()]
        try:
            number, model = self._model()
            texts = [text for one in batch for text in one.texts]
            started = time.monotonic()
            found = iter(_logged(lambda: self._tagged(model, texts)))
            self._pace += 0.2 * (size / max(time.monotonic() - started, 1e-3) - self._pace)
            for one in batch:
                one.answer.set_result((number, [next(found) for _ in one.texts]))
        except Exception as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)

    def _tagged(self, model: _Model, texts: Sequence[str]) -> _Entities:
        parts = min(self._parts, 1 + sum(map(len, texts)) // _PART)
        if self._helpers is None or parts < 2:
            return [[*entities] for entities in self._pipe(model, texts)]
        # Dealt out by length, so that all helpers have as much to do and sentences of like length.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        hands = [order[part::parts] for part in range(parts)]
        done = self._helpers.map(lambda hand: [*self._pipe(model, [texts[i] for i in hand])], hands)
        found: _Entities = [[] for _ in texts]
        for hand, every in zip(hands, done, strict=True):
            for i, entities in zip(hand, every, strict=True):
                found[i] = [*entities]
        return found


class ModelThread(TaggingThread["Predictor"]):
    """The workbench's thread: beside tagging, it predicts ahead and suggests what to label."""

    def __init__(self) -> None:
        super().__init__(helpers=os.cpu_count() or 1)


def _logged(work: Callable[[], _Outcome]) -> _Outcome:
    try:
        return work()
    except HardnerError:
        raise
    except Exception:
        _log.exception("the model failed")
        raise
