"""The one thread that computes with the current model; texts that wait are tagged together."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hardner.errors import HardnerError
from hardner.serve.errors import Busy, Conflict
from hardner.types import Entity

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor

_BATCH = 200_000  # characters tagged in one go
_QUEUED = 5_000_000  # characters that may wait to be tagged

_Outcome = TypeVar("_Outcome")
_Entities = list[list[Entity]]
_log = logging.getLogger(__name__)


def load_predictor(folder: Path | None) -> "Predictor":
    from hardner.tag.predictor import Predictor  # torch: the server starts before it is there

    return Predictor.load(folder)


class LoadedModel(NamedTuple):
    number: int
    model: "Predictor"


class _Request(NamedTuple):
    texts: Sequence[str]
    size: int
    answer: Future[tuple[int, _Entities]]


class ModelThread:
    """A thread that owns a model, so that no two computations run at once."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "model")
        self._requests: deque[_Request] = deque()
        self._waiting = 0
        self._lock = threading.Lock()
        self._loaded: LoadedModel | None = None
        self._why = "there is no model yet"

    @property
    def is_wanted(self) -> bool:
        """Whether texts wait to be tagged, before which nothing need be computed ahead."""
        return self._waiting > 0

    def use(self, number: int, load: Callable[[], "Predictor"]) -> Future[LoadedModel]:
        """Load a model; whatever is asked from now on waits for it."""

        def work() -> LoadedModel:
            try:
                self._loaded = LoadedModel(number, load())
            except Exception as error:
                self._loaded = None
                self._why = str(error) if isinstance(error, HardnerError) else repr(error)
                raise
            return self._loaded

        return self._pool.submit(_logged, work)

    def submit(self, work: Callable[[LoadedModel], _Outcome]) -> Future[_Outcome]:
        """Compute something with the model, after all that was asked before."""
        return self._pool.submit(_logged, lambda: work(self._model()))

    def tag(self, texts: Sequence[str]) -> Future[tuple[int, _Entities]]:
        """The number of the model, and the entities of each text."""
        size = sum(map(len, texts))
        answer: Future[tuple[int, _Entities]] = Future()
        with self._lock:
            if self._waiting and self._waiting + size > _QUEUED:
                raise Busy("too many texts are waiting to be tagged; try again later")
            self._waiting += size
            self._requests.append(_Request(texts, size, answer))
        self._pool.submit(self._tag_waiting)
        return answer

    def stop(self) -> None:
        """End the thread after the work in hand."""
        self._pool.shutdown(cancel_futures=True)

    def _model(self) -> LoadedModel:
        if self._loaded is None:
            raise Conflict(self._why)
        return self._loaded

    def _tag_waiting(self) -> None:
        """Tag as many of the waiting texts as fit into a batch; the first always does."""
        batch: list[_Request] = []
        size = 0
        with self._lock:
            while self._requests and (not batch or size + self._requests[0].size <= _BATCH):
                batch.append(self._requests.popleft())
                size += batch[-1].size
            self._waiting -= size
        batch = [one for one in batch if one.answer.set_running_or_notify_cancel()]
        if not batch:
            return  # an earlier call took them along
        try:
            number, model = self._model()
            texts = [text for one in batch for text in one.texts]
            found = iter(_logged(lambda: list(model.pipe(texts))))
            for one in batch:
                one.answer.set_result((number, [next(found) for _ in one.texts]))
        except Exception as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)


def _logged(work: Callable[[], _Outcome]) -> _Outcome:
    try:
        return work()
    except HardnerError:
        raise
    except Exception:
        _log.exception("the model failed")
        raise
