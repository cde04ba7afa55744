"""Sentences whose mentions were swapped for others': so that what stands around them is learnt too.

A tagger that has seen five sentences knows their mentions by heart. Where the same mentions stand
in each other's places as well, it has to look at the words around them.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hardner.batch import Ints
from hardner.types import Sentence, Span


class Replacement(NamedTuple):
    """A sentence with the mentions of another."""

    sentence: Sentence
    place: int
    """Whose words stand around them."""
    giver: int
    """Whose mentions they are."""


def replace_mentions(sentences: Sequence[Sentence], most: int, seed: int) -> list[Replacement]:
    """Sentences with the mentions of others: so many, or as many as there can be."""
    rng = random.Random(seed)
    bearing = [row for row, sentence in enumerate(sentences) if sentence.spans]
    others = len(bearing) - 1
    pairs = range(len(bearing) * others)
    found = []
    for pair in rng.sample(pairs, min(most, len(pairs))):
        at, other = divmod(pair, others)
        place, giver = bearing[at], bearing[other + (other >= at)]  # never the same
        found.append(
            Replacement(with_mentions(sentences[place], sentences[giver], rng), place, giver)
        )
    return found


def with_mentions(sentence: Sentence, giver: Sentence, rng: random.Random) -> Sentence:
    """The sentence with any of the giver's mentions of the same label in place of each of its."""
    tokens: list[str] = []
    spans: list[Span] = []
    at = 0
    for start, end, label in sentence.spans:
        others = [giver.tokens[s:e] for s, e, own in giver.spans if own == label]
        words = rng.choice(others) if others else sentence.tokens[start:end]
        tokens += sentence.tokens[at:start]
        spans.append(Span(len(tokens), len(tokens) + len(words), label))
        tokens += words
        at = end
    return Sentence((*tokens, *sentence.tokens[at:]), tuple(spans), sentence.id)


def replacements_for(
    samples: Sequence[Sequence[Sentence]], most: int, seeds: Sequence[int], first: int
) -> tuple[list[Sentence], Ints | None]:
    """What is swapped within each sample, and where that lies: [M, V], -1 for none.

    Args:
        samples: Sentences with their mentions.
        most: How many of them a sample is given.
        seeds: Of each sample.
        first: The row of the first one.
    """
    if not most:
        return [], None
    sentences: list[Sentence] = []
    rows = []
    for sample, seed in zip(samples, seeds, strict=True):
        made = [swap.sentence for swap in replace_mentions(sample, most, seed)]
        rows.append(range(first + len(sentences), first + len(sentences) + len(made)))
        sentences += made
    return sentences, pad_rows(rows)


def pad_rows(rows: Sequence[Sequence[int]]) -> Ints:
    """Rows of different lengths as an array, -1 for none."""
    found = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, own in zip(found, rows, strict=True):
        row[: len(own)] = own
    return found
