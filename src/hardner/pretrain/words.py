"""Text as the numbers of its words."""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError
from hardner.text import tokenize

END, RARE_WORD = -1, -2
"""Stands around each line, so that no window reaches across; a word that is left out."""
_BLOCK = 1 << 20
"""Words renumbered together, so that nothing as long as the text is made on the way."""
_REMEMBERED = 1_000_000
"""Stretches between spaces whose words are kept at hand."""


class NumberedWords(NamedTuple):
    """A text as rows of its vocabulary."""

    words: tuple[str, ...]
    """By falling frequency."""
    counts: NDArray[np.int64]
    ids: NDArray[np.int32]
    """Line after line, with an `END` before the first, between two and behind the last."""


def read_words(lines: Iterable[str], least: int) -> NumberedWords:
    """Count and number the words of a text; those seen fewer than ``least`` times are left out."""
    numbers: dict[str, int] = {}
    ids = _numbered(lines, numbers)
    blocks = np.array_split(ids, len(ids) // _BLOCK + 1)
    counts = np.zeros(len(numbers), np.int64)
    for block in blocks:
        counts += np.bincount(block + 1, minlength=len(numbers) + 1)[1:]
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= least]
    if not len(kept):
        raise HardnerError(f"no word occurs {least} times; give more text or a lower limit")
    place = np.full(len(numbers) + 1, RARE_WORD, np.int32)
    place[kept + 1], place[END + 1] = np.arange(len(kept)), END
    for block in blocks:
        block[:] = place[block + 1]
    words = list(numbers)
    return NumberedWords(tuple(words[i] for i in kept), counts[kept], ids[ids != RARE_WORD])


def _numbered(lines: Iterable[str], numbers: dict[str, int]) -> NDArray[np.int32]:
    """Every word's number; new words get the next."""
    known: dict[str, tuple[int, ...]] = {}
    ids = array("i", [END])
    for line in lines:
        for stretch in line.split():
            found = known.get(stretch)
            if found is None:
                if len(known) == _REMEMBERED:
                    known.clear()
                words = (stretch[start:end] for start, end in tokenize(stretch))
                found = tuple(numbers.setdefault(word, len(numbers)) for word in words)
                known[stretch] = found
            ids.extend(found)
        ids.append(END)
    return np.frombuffer(ids, np.int32)
