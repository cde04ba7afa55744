"""A dictionary of names, and the longest matches of it in tokenised text."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from terms import Term

from hardner.text import tokenize

_LONGEST = 8
"""Tokens of a name, at most."""
_SHORT = 5
"""Letters of a name below which its case counts: "CAT" is a gene, a cat is none."""
_TOO_MANY_KINDS = 3
"""A name of so many kinds says nothing."""
_WORD = re.compile(r"[^\W\d_]{3}")


class Match(NamedTuple):
    """A name in a sentence: tokens ``start`` to ``end``, half-open."""

    start: int
    end: int
    name: int


class Dictionary:
    """Names of terms; a name stands for all terms that have it."""

    def __init__(
        self, terms: Iterable[Term], skip: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Args: ``skip`` says which names to leave out, tokens with a space between."""
        senses: dict[str, list[Term]] = defaultdict(list)
        for term in terms:
            for place, name in enumerate(map(_as_written, term.names)):
                # Made-up abbreviations stand for other things as well: SEM is no syndrome.
                doubtful = place and term.kind != "gene" and _is_acronym(name)
                if _is_usable(name) and not doubtful and not skip(name):
                    senses[_key(name)].append(term)
        self.names: list[str] = []
        self.terms: list[tuple[str, ...]] = []
        """Ids of the terms of each name."""
        self._numbers: dict[str, int] = {}
        self._longest: dict[str, int] = {}
        for key, found in sorted(senses.items()):
            if len({term.kind for term in found}) < _TOO_MANY_KINDS:
                self._numbers[key] = len(self.names)
                self.names.append(key)
                self.terms.append(tuple(dict.fromkeys(term.id for term in found)))
                first, tokens = key.split(" ", 1)[0], key.count(" ") + 1
                self._longest[first] = max(tokens, self._longest.get(first, 0))

    def find(self, tokens: Sequence[str]) -> list[Match]:
        """The longest names from left to right; none overlaps another."""
        lower = [token.lower() for token in tokens]
        found, free = [], 0
        for start, first in enumerate(lower):
            if start < free:
                continue
            most = max(self._longest.get(first, 0), self._longest.get(tokens[start], 0))
            for length in range(min(most, len(tokens) - start), 0, -1):
                number = self._number(tokens, lower, start, start + length)
                if number is not None:
                    free = start + length
                    found.append(Match(start, free, number))
                    break
        return found

    def _number(
        self, tokens: Sequence[str], lower: Sequence[str], start: int, end: int
    ) -> int | None:
        number = self._numbers.get(" ".join(tokens[start:end]))  # names whose case counts
        if number is None:
            folded = " ".join(lower[start:end])
            number = self._numbers.get(folded)
            if number is None and folded.endswith("s"):  # plural of the last word
                number = self._numbers.get(folded[:-1])
        return number


def _as_written(name: str) -> str:
    """Tokens with a space between, as in text."""
    return " ".join(name[start:end] for start, end in tokenize(name.replace("_", " ")))


def _key(name: str) -> str:
    """Lower case, unless it is so short or so much in capitals that its case says what it is."""
    letters = [c for c in name if c.isalpha()]
    capitals = sum(c.isupper() for c in letters)
    return name if len(letters) < _SHORT or 2 * capitals > len(letters) else name.lower()


def _is_usable(name: str) -> bool:
    tokens = name.split(" ")
    if len(tokens) > _LONGEST or len(name) < 3:
        return False
    if len(tokens) == 1 and len(name) < _SHORT and name.islower():  # "cat", "age", "red"
        return False
    return _WORD.search(name) is not None or (any(c.isdigit() for c in name) and name[0].isalpha())


def _is_acronym(name: str) -> bool:
    return len(name) < _SHORT and name.isupper() and name.isalpha()
