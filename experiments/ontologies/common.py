"""Words that are no names, although some ontology lists them."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from hardner import files

WRITTEN = Path(__file__).with_name("common_words.txt")
"""Everyday words that were frequent among the matches in a sample of the text."""
_FREQUENT = 1e-5
"""Share of all tokens from which on a word in lower case is a word of everyday language."""


def read_common_words(path: Path = WRITTEN) -> frozenset[str]:
    """The words that were looked at."""
    return frozenset(files.read_text(path).split())


def frequent_words(sentences: Iterable[Sequence[str]]) -> frozenset[str]:
    """Words that the text often writes in lower case; capitalised, they are no names either."""
    counts: Counter[str] = Counter()
    tokens = 0
    for sentence in sentences:
        tokens += len(sentence)
        counts.update(token for token in sentence if token.islower())
    return frozenset(word for word, count in counts.items() if count > _FREQUENT * tokens)


def is_common(name: str, written: Collection[str], frequent: Collection[str]) -> bool:
    """Whether a name of one word is a word of everyday language: "time", "Time", "This"."""
    low = name.lower()
    return " " not in name and (low in written or (low != name and low in frequent))
