"""The one thread that computes with the current model.

Texts that wait to be tagged are tagged together; what a user waits for goes before what is done
ahead of time.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple, TypeVar

from hardner.errors import HardnerError
from hardner.serve.engine import Model
from hardner.serve.errors import Busy, Conflict
from hardner.types import Entity

TOGETHER = 200_000
"""Characters that are tagged in one go."""
WAITING = 5_000_000
"""Characters that may wait to be tagged."""
NOW, SOON, LATER = 0, 1, 2
"""How urgent a piece of work is."""

Outcome = TypeVar("Outcome")
Found = list[list[Entity]]

log = logging.getLogger(__name__)


class Loaded(NamedTuple):
    """A model at work, and its number in the project."""

    number: int
    model: Model


class _Asked(NamedTuple):
    texts: Sequence[str]
    size: int
    answer: "Future[tuple[int, Found]]"


class Worker:
    """A thread with a model."""

    def __init__(self) -> None:
        self._work: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]]
        self._work = queue.PriorityQueue()
        self._order = count()
        self._texts: deque[_Asked] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._why = "there is no model yet"
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def use(self, number: int, load: Callable[[], Model]) -> "Future[Loaded]":
        """Load a model; what is asked from now on waits for it."""

        def done() -> Loaded:
            try:
                self._loaded = Loaded(number, load())
            except Exception as error:
                self._loaded = None
                self._why = str(error) if isinstance(error, HardnerError) else repr(error)
                raise
            return self._loaded

        return self._submit(NOW, done)

    def ask(self, work: Callable[[Loaded], Outcome], urgency: int = SOON) -> "Future[Outcome]":
        """Have something computed with the model."""
        return self._submit(urgency, lambda: work(self._model()))

    def tag(self, texts: Sequence[str]) -> "Future[tuple[int, Found]]":
        """The number of the model, and the entities that it finds in each text."""
        size = sum(map(len, texts))
        answer: Future[tuple[int, Found]] = Future()
        with self._lock:
            if self._waiting and self._waiting + size > WAITING:
                raise Busy("too many texts are waiting to be tagged; try again later")
            self._waiting += size
            self._texts.append(_Asked(texts, size, answer))
        self._put(SOON, self._tag_some)
        return answer

    def stop(self) -> None:
        """End the thread after the work in hand."""
        self._put(NOW - 1, None)
        self._thread.join(timeout=10)

    def _put(self, urgency: int, work: Callable[[], None] | None) -> None:
        self._work.put((urgency, next(self._order), work))

    def _submit(self, urgency: int, work: Callable[[], Outcome]) -> "Future[Outcome]":
        answer: Future[Outcome] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                _settle(answer, work)

        self._put(urgency, run)
        return answer

    def _run(self) -> None:
        while (work := self._work.get()[2]) is not None:
            work()

    def _model(self) -> Loaded:
        if self._loaded is None:
            raise Conflict(self._why)
        return self._loaded

    def _tag_some(self) -> None:
        """Tag as many of the waiting texts as fit; the first always does."""
        asked: list[_Asked] = []
        size = 0
        with self._lock:
            while self._texts and (not asked or size + self._texts[0].size <= TOGETHER):
                asked.append(self._texts.popleft())
                size += asked[-1].size
            self._waiting -= size
        wanted = [one for one in asked if one.answer.set_running_or_notify_cancel()]
        if not wanted:
            return
        try:
            number, model = self._model()
            found = iter(list(model.pipe([text for one in wanted for text in one.texts])))
            for one in wanted:
                one.answer.set_result((number, [next(found) for _ in one.texts]))
        except Exception as error:
            if not isinstance(error, HardnerError):
                log.exception("tagging failed")
            for one in wanted:
                if not one.answer.done():
                    one.answer.set_exception(error)


def _settle(answer: "Future[Any]", work: Callable[[], Any]) -> None:
    try:
        answer.set_result(work())
    except Exception as error:
        if not isinstance(error, HardnerError):
            log.exception("the model failed")
        answer.set_exception(error)
