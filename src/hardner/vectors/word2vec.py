"""word2vec's binary layout: each word, a space, and its numbers as little-endian float32."""

from collections.abc import Container, Iterator

import numpy as np
from numpy.typing import NDArray

from hardner.errors import FileError
from hardner.vectors.scanner import Scanner

FLOAT = np.dtype("<f4")


def read_word2vec(
    scanner: Scanner, words: Container[bytes], count: int, dimension: int
) -> Iterator[tuple[bytes, NDArray[np.float32]]]:
    """The rows of the given words, from where the header ends."""
    size = dimension * FLOAT.itemsize
    if scanner.size is not None and scanner.position + count * (size + 1) > scanner.size:
        message = f"truncated: {count} vectors of {dimension} do not fit in {scanner.size} bytes"
        raise FileError(scanner.path, message)
    for _ in range(count):
        word = scanner.until(b" ").lstrip(b"\n")
        if word in words:
            yield word, take_row(scanner, dimension)
        else:
            scanner.skip(size)
    if scanner.peek(2).strip():
        message = f"byte {scanner.position} follows the last of {count} vectors: damaged header?"
        raise FileError(scanner.path, message)


def take_row(scanner: Scanner, dimension: int) -> NDArray[np.float32]:
    start = scanner.position
    row = np.frombuffer(scanner.take(dimension * FLOAT.itemsize), FLOAT)
    if not np.isfinite(row).all():
        raise FileError(scanner.path, f"a number of the vector at byte {start} is not finite")
    return row
