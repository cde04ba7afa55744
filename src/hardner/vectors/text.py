"""Vectors as text, one word a line: word2vec .txt, fastText .vec and, without header, GloVe."""

from collections.abc import Container, Iterator

import numpy as np
from numpy.typing import NDArray

from hardner.errors import FileError
from hardner.vectors.scanner import Scanner


def dimension_of(line: bytes) -> int:
    """How many numbers end the line; its first field is a word whatever it looks like."""
    fields = line.rstrip().split(b" ")[1:]
    for count, field in enumerate(reversed(fields)):
        if not _is_number(field):
            return count
    return len(fields)


def read_text_vectors(
    scanner: Scanner, words: Container[bytes], count: int | None, dimension: int
) -> Iterator[tuple[bytes, NDArray[np.float32]]]:
    """The rows of the given words; ``count`` is the header's, if there was one.

    Some words of the largest GloVe file hold spaces, so the numbers are counted from the end.
    """
    header = 0 if count is None else 1
    rows = 0
    for number, line in enumerate(scanner.lines(), header + 1):
        line = line.rstrip(b" \t\r")
        if not line:
            continue
        rows += 1
        extra = line.count(b" ") - dimension
        if extra == 0:
            word = line[: line.index(b" ")]
        else:
            word = line.rsplit(b" ", dimension)[0]
            inner = word.split(b" ")[1:]
            if extra < 0 or all(map(_is_number, inner)):
                got = dimension + extra
                message = f"expected a word and {dimension} numbers, got {got}"
                raise FileError(scanner.path, message, number)
        if word in words:
            yield word, _numbers(line[len(word) + 1 :].split(b" "), scanner, number)
    if count is not None and rows != count:
        message = f"the header announces {count} words, the file holds {rows}: truncated?"
        raise FileError(scanner.path, message, header + rows)


def _numbers(fields: list[bytes], scanner: Scanner, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            row = np.array(fields, dtype=np.float32)
    except ValueError:
        wrong = next(field for field in fields if not _is_number(field))
        raise FileError(
            scanner.path, f"not a number: {wrong.decode(errors='replace')!r}", line
        ) from None
    if not np.isfinite(row).all():
        raise FileError(scanner.path, "a number is not finite", line)
    return row


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
