"""Which words of a file serve which words of the vocabulary, with other cases as a fall-back."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

VECTOR_SOURCES = ("exact", "lower", "capitalised", "upper", "subwords")
"""Where a vector may come from, the first found wins: the word as written, its other cases, then,
where the file has them, the character n-grams of the word as written."""
SUBWORDS, MISSING = VECTOR_SOURCES.index("subwords"), len(VECTOR_SOURCES)
SourceRanks = NDArray[np.int8]
"""For each word of the vocabulary, the index of its source, or ``MISSING``."""


def case_forms(word: str) -> tuple[bytes, ...]:
    """The word in the order of ``VECTOR_SOURCES``, as UTF-8."""
    cases = (word, word.lower(), word.capitalize(), word.upper())
    return tuple(case.encode("utf-8", "surrogatepass") for case in cases)


class Lookup:
    """A vocabulary, to be found in a file."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.forms: dict[bytes, list[tuple[int, int]]] = {}
        """For each form that a file may hold: the words it serves, as (rank, index)."""
        for index, word in enumerate(words):
            for rank, form in enumerate(case_forms(word)):
                self.forms.setdefault(form, []).append((rank, index))

    def keep_best(self, found: Iterable[tuple[bytes, Any]], into: NDArray[Any]) -> SourceRanks:
        """Write the best value found for each word into its row; of duplicates the first counts."""
        ranks = np.full(len(self.words), MISSING, np.int8)
        for form, value in found:
            for rank, index in self.forms.get(form, ()):
                if rank < ranks[index]:
                    ranks[index], into[index] = rank, value
        return ranks
