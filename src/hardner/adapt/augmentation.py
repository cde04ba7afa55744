"""Sentences that a fit learns beside the labelled ones: negatives, and replaced mentions.

Users label sentences because they hold mentions; most sentences of a text hold none. Bundled
negative sentences, written for this purpose, keep a tagger from seeing mentions everywhere.

A tagger that has seen five sentences knows their mentions by heart. Where each other's mentions
stand in their places as well, it has to look at the context.
"""

import json
import random
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from hardner.text import tokenize
from hardner.types import Sentence, Span

_FILE = "assets/background.jsonl"


@lru_cache(maxsize=1)
def negative_sentences() -> tuple[Sentence, ...]:
    """The bundled sentences without a mention of any type: names in them are left out."""
    lines = files("hardner").joinpath(_FILE).read_text("utf-8").splitlines()
    bare = (_without_names(json.loads(line)) for line in lines)
    return tuple(sentence for sentence in bare if sentence.tokens)


def _without_names(document: dict[str, object]) -> Sentence:
    text, names = str(document["text"]), document["entities"]
    assert isinstance(names, list)
    spans = [(int(name["start"]), int(name["end"])) for name in names]
    tokens = [
        text[start:end]
        for start, end in tokenize(text)
        if not any(left < end and start < right for left, right in spans)
    ]
    return Sentence(tuple(tokens), id=str(document["id"]))


class Replacement(NamedTuple):
    """A sentence with the mentions of another."""

    sentence: Sentence
    context: int
    """The row of the sentence whose words stand around the mentions."""
    donor: int
    """The row of the sentence whose mentions they are."""


def replace_mentions(sentences: Sequence[Sentence], most: int, seed: int) -> list[Replacement]:
    """Up to ``most`` sentences with mentions of another one, of random pairs of sentences."""
    rng = random.Random(seed)
    bearing = [row for row, sentence in enumerate(sentences) if sentence.spans]
    others = len(bearing) - 1
    pairs = range(len(bearing) * others)
    found = []
    for pair in rng.sample(pairs, min(most, len(pairs))):
        at, other = divmod(pair, others)
        context, donor = bearing[at], bearing[other + (other >= at)]  # never the same sentence
        made = with_mentions(sentences[context], sentences[donor], rng)
        found.append(Replacement(made, context, donor))
    return found


def with_mentions(sentence: Sentence, donor: Sentence, rng: random.Random) -> Sentence:
    """The sentence with one of the donor's mentions of the same label in place of each of its."""
    tokens: list[str] = []
    spans: list[Span] = []
    at = 0
    for start, end, label in sentence.spans:
        others = [donor.tokens[s:e] for s, e, own in donor.spans if own == label]
        words = rng.choice(others) if others else sentence.tokens[start:end]
        tokens += sentence.tokens[at:start]
        spans.append(Span(len(tokens), len(tokens) + len(words), label))
        tokens += words
        at = end
    return Sentence((*tokens, *sentence.tokens[at:]), tuple(spans), sentence.id)
