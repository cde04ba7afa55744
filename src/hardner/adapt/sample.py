"""What a model is fitted to: labelled sentences, folds of them, and sentences beside them.

Users label sentences because they hold mentions; most sentences of a text hold none. Bundled
negative sentences, written for this purpose, keep a tagger from seeing mentions everywhere.

A tagger that has seen five sentences knows their mentions by heart. Where each other's mentions
stand in their places as well, it has to look at the context.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from hardner.seeds import seed_of
from hardner.text import tokenize
from hardner.types import Sentence, Span

FOLDS = 3
_FILE = "assets/background.jsonl"


@dataclass(frozen=True)
class Sample:
    """The sentences that one model is fitted to."""

    sentences: tuple[Sentence, ...]
    """Labelled ones, all with labels of the adapter's tag set."""
    seed: tuple[int | str, ...] = (0,)
    """Coordinates of its random choices: the new head, the order of sentences, replacements."""
    unlabelled: tuple[Sentence, ...] = ()
    """Sentences for self-training; labels that they have are ignored."""
    replaced: tuple[Sentence, ...] | None = None
    """Copies with replaced mentions to learn as well; None: made of the sentences."""
    partial: tuple[Sentence, ...] = ()
    """Sentences that were labelled in part: every fit learns from them, none is judged on them, and
    their mentions are not replaced."""


class Fold(NamedTuple):
    """Rows of sentences that a model is fitted to, and of those it is scored on."""

    train: list[int]
    held_out: list[int]


def parts_of(sample: Sample, folds: Sequence[Fold], replacements: int) -> list[Sample]:
    """The samples that the models of the folds are fitted to.

    A fold takes those replaced mentions alone that are made of its own sentences: no model learns
    a mention that it is scored on.
    """
    made = replace_mentions(sample.sentences, replacements, seed_of("swaps", *sample.seed))
    found = []
    for number, fold in enumerate(folds):
        rows = set(fold.train)
        replaced = tuple(r.sentence for r in made if {r.context, r.donor} <= rows)
        sentences = tuple(sample.sentences[row] for row in fold.train)
        seed = (*sample.seed, "fold", number)
        found.append(Sample(sentences, seed, (), replaced, sample.partial))
    return found


def folds_of(sample: Sample, folds: int = FOLDS) -> list[Fold]:
    """Each fold held out from the others; sentences with mentions are spread over all of them.

    Sentences that share a mention stay in one fold as far as it can hold them: a user's sentences
    are about the same things more often than the text that the model is for.
    """
    sentences, seed = sample.sentences, seed_of(*sample.seed)
    count = min(folds, len(sentences))
    room = -(-len(sentences) // count)
    order = np.random.default_rng(seed).permutation(len(sentences)).tolist()
    groups = [
        g[i : i + room] for g in _by_mention(sentences, order) for i in range(0, len(g), room)
    ]
    parts: list[list[int]] = [[] for _ in range(count)]
    for group in sorted(groups, key=lambda g: (not sentences[g[0]].spans, -len(g))):
        min(parts, key=len).extend(group)
    every = set(range(len(sentences)))
    return [Fold(sorted(every - set(part)), sorted(part)) for part in parts]


def can_be_judged(sentences: Sequence[Sentence], folds: Sequence[Fold]) -> bool:
    """Whether every fold leaves mentions to learn from, and one of them holds some out."""
    return sum(any(sentences[row].spans for row in fold.held_out) for fold in folds) > 1


def _by_mention(sentences: Sequence[Sentence], rows: Sequence[int]) -> list[list[int]]:
    """The rows in groups, no two of which have a mention in common."""
    groups: list[tuple[list[int], set[str]]] = []
    for row in rows:
        tokens, spans = sentences[row].tokens, sentences[row].spans
        texts = {" ".join(tokens[span.start : span.end]).casefold() for span in spans}
        joined, apart = [row], []
        for group in groups:
            if texts & group[1]:
                joined, texts = group[0] + joined, texts | group[1]
            else:
                apart.append(group)
        groups = [*apart, (joined, texts)]
    return [group for group, _ in groups]


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
