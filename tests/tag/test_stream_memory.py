"""Memory does not grow with the number of texts (the long version is benchmarks/memory.py)."""

import tracemalloc
from collections.abc import Iterator

import pytest
import small_models as models


def texts(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"Patient {number} of group {number % 7} has asthma and takes drug{number}a daily."


@pytest.mark.parametrize("kind", ["bilstm"])
def test_memory_is_flat(kind: str) -> None:
    predictor = models.predictor(kind)
    peaks = []
    tracemalloc.start()
    try:
        for number, _ in enumerate(predictor.pipe(texts(3_000), batch_size=16), 1):
            if number % 500 == 0:
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert len(peaks) == 6
    assert max(peaks[3:]) < 1.2 * max(peaks[:3])
    assert max(peaks) < 10e6
