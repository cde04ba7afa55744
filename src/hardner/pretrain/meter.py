"""How fast training goes and how well, without waiting for a GPU at each step."""

import time

from torch import Tensor


class Meter:
    """The mean loss and the speed since it was last read."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._total: Tensor | float = 0.0
        self._steps, self._clock = 0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since it was last read."""
        return time.perf_counter() - self._clock

    def add(self, loss: Tensor) -> None:
        """Take a step in; its loss stays on its device."""
        self._total = self._total + loss
        self._steps += 1

    def read(self) -> tuple[float, float]:
        """The mean loss, and steps a second; what comes is counted anew."""
        loss = float(self._total) / self._steps
        speed = self._steps / self.seconds
        self._clear()
        return loss, speed
