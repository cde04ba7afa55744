"""word2vec's two layouts: binary, and text with a word a line (also fastText .vec and GloVe)."""

from collections.abc import Container, Iterator

import numpy as np
from numpy.typing import NDArray

from hardner.vectors.scanner import Scanner

FLOAT = np.dtype("<f4")
VectorRows = Iterator[tuple[bytes, NDArray[np.float32]]]


def read_binary_vectors(
    scanner: Scanner, words: Container[bytes], count: int, dimension: int
) -> VectorRows:
    """The rows of the given words: each a word, a space, and little-endian float32."""
    size = dimension * FLOAT.itemsize
    if scanner.size is not None and scanner.position + count * (size + 1) > scanner.size:
        message = f"truncated: {count} vectors of {dimension} do not fit in {scanner.size} bytes"
        raise scanner.error(message)
    for _ in range(count):
        word = scanner.until(b" ").lstrip(b"\n")
        if word in words:
            yield word, take_row(scanner, dimension)
        else:
            scanner.skip(size)
    if scanner.peek(2).strip():
        after = f"byte {scanner.position} follows the last of {count} vectors"
        raise scanner.error(f"{after}: damaged header?")


def take_row(scanner: Scanner, dimension: int) -> NDArray[np.float32]:
    """The numbers of one vector."""
    start = scanner.position
    row = np.frombuffer(scanner.take(dimension * FLOAT.itemsize), FLOAT)
    if not np.isfinite(row).all():
        raise scanner.error(f"a number of the vector at byte {start} is not finite")
    return row


def read_text_vectors(
    scanner: Scanner, words: Container[bytes], count: int | None, dimension: int
) -> VectorRows:
    """The rows of the given words; ``count`` is the header's, None where there is no header."""
    header = 0 if count is None else 1
    rows = 0
    for number, line in enumerate(scanner.lines(), header + 1):
        line = line.rstrip(b" \t\r")
        if not line:
            continue
        rows += 1
        extra = line.count(b" ") - dimension
        # Words of the largest GloVe file may hold spaces, so numbers are counted from the end.
        word = line.rsplit(b" ", dimension)[0] if extra else line[: line.index(b" ")]
        if extra < 0 or (extra and all(map(_is_number, word.split(b" ")[1:]))):
            message = f"expected a word and {dimension} numbers, got {dimension + extra}"
            raise scanner.error(message, number)
        if word in words:
            yield word, _numbers(line[len(word) + 1 :].split(b" "), scanner, number)
    if count is not None and rows != count:
        message = f"the header announces {count} words, the file holds {rows}: truncated?"
        raise scanner.error(message, header + rows)


def dimension_of(line: bytes) -> int:
    """How many numbers end the line; its first field is a word whatever it looks like."""
    fields = line.rstrip().split(b" ")[1:]
    for count, field in enumerate(reversed(fields)):
        if not _is_number(field):
            return count
    return len(fields)


def _numbers(fields: list[bytes], scanner: Scanner, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            row = np.array(fields, dtype=np.float32)
    except ValueError:
        wrong = next(field for field in fields if not _is_number(field))
        message = f"not a number: {wrong.decode(errors='replace')!r}"
        raise scanner.error(message, line) from None
    if not np.isfinite(row).all():
        raise scanner.error("a number is not finite", line)
    return row


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
