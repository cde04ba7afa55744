"""Which words of a file serve which words of the vocabulary: the case fall-back."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SOURCES = ("exact", "lower", "capitalised", "upper", "subwords")
"""Where a vector may come from, the first found wins: the word as written, its other case forms,
then, where the file has them, the character n-grams of the word as written."""
SUBWORDS = SOURCES.index("subwords")
MISSING = len(SOURCES)

_Ranks = NDArray[np.int8]
"""For each wanted word, the index of its source, or ``MISSING``."""


class Wanted(NamedTuple):
    """The vocabulary and, for each form a file may hold, the (rank, word index) it serves."""

    words: tuple[str, ...]
    forms: dict[bytes, list[tuple[int, int]]]


def forms(word: str) -> tuple[bytes, ...]:
    """The word in the order of ``SOURCES``, as UTF-8."""
    cases = (word, word.lower(), word.capitalize(), word.upper())
    return tuple(case.encode("utf-8", "surrogatepass") for case in cases)


def want(words: tuple[str, ...]) -> Wanted:
    table: dict[bytes, list[tuple[int, int]]] = {}
    for index, word in enumerate(words):
        for rank, form in enumerate(forms(word)):
            table.setdefault(form, []).append((rank, index))
    return Wanted(words, table)


def settle(wanted: Wanted, found: Iterable[tuple[bytes, Any]], into: NDArray[Any]) -> _Ranks:
    """Writes the best value found for each word into its row; the first of duplicates counts."""
    ranks = np.full(len(wanted.words), MISSING, np.int8)
    for form, value in found:
        for rank, index in wanted.forms.get(form, ()):
            if rank < ranks[index]:
                ranks[index], into[index] = rank, value
    return ranks
