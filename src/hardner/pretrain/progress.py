"""How training goes, for whoever listens."""

import time
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

TELL = 0.5
"""Seconds between two words to the listener."""


class PretrainingProgress(NamedTuple):
    """What a listener is told about twice a second."""

    doing: str
    """What comes before training, in words; nothing once it has begun."""
    step: int = 0
    """How many are done, of words where vectors are learnt."""
    steps: int = 0
    """How many there are."""
    loss: float | None = None
    """The mean over the steps since the last time; none at the start, and of word vectors."""
    speed: float = 0.0
    """Pieces or words a second since the last time; 0 at the start."""
    milestone: bool = False
    """Worth a line in a log; loss and speed are then since the last such."""


PretrainingCallback = Callable[[PretrainingProgress], None]


class Meter:
    """The mean loss and the speed since it was last read, without waiting for a GPU till then."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._total: Tensor | float = 0.0
        self._steps, self._size, self._clock = 0, 0, time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether it is time to tell."""
        return time.perf_counter() - self._clock > TELL

    def add(self, size: int, loss: Tensor | float = 0.0) -> None:
        """Take in a step over so much; its loss stays on its device."""
        self._total = self._total + loss
        self._steps += 1
        self._size += size

    def read(self) -> tuple[float, float]:
        """The mean loss, and the speed; what comes is counted anew."""
        loss = float(self._total) / self._steps
        speed = self._size / (time.perf_counter() - self._clock)
        self._clear()
        return loss, speed
