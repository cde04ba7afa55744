"""How a run tells its caller what it is doing."""

import time
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

SECONDS = 0.5
"""Between two reports."""


class RunProgress(NamedTuple):
    """What a callback gets about twice a second."""

    stage: str = ""
    """What comes before training, such as "reading the text"; empty once training has begun."""
    done: int = 0  # steps or iterations, or words where vectors are trained
    total: int = 0
    loss: float | None = None
    """Mean over the steps since the last report; None before the first, and for word vectors."""
    devel: float | None = None  # the last loss on devel data, where the run has any
    speed: float = 0.0
    """Subwords or words a second since the last report; 0 where it is not measured."""
    milestone: bool = False
    """Worth a line in a log: the devel loss is new, or ``loss`` and ``speed`` are the means since
    the last milestone."""


ProgressCallback = Callable[[RunProgress], None]


class Meter:
    """Mean loss and speed since it was last read."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._total: Tensor | float = 0.0
        self._steps, self._size, self._clock = 0, 0, time.perf_counter()

    @property
    def due(self) -> bool:
        return time.perf_counter() - self._clock > SECONDS

    def add(self, size: int, loss: Tensor | float = 0.0) -> None:
        """Count a step over ``size`` subwords or words."""
        # The sum stays on the GPU: looking at each loss would wait for it.
        self._total = self._total + loss
        self._steps += 1
        self._size += size

    @property
    def counted(self) -> tuple[float, int]:
        """The sum of the losses, and how many they are."""
        return float(self._total), self._steps

    def go_on(self, total: float, steps: int) -> None:
        """Begin with what an earlier session has counted."""
        self._total, self._steps = total, steps

    def read(self) -> tuple[float, float]:
        """The mean loss and the speed; starts anew."""
        loss = float(self._total) / self._steps
        speed = self._size / (time.perf_counter() - self._clock)
        self._clear()
        return loss, speed
