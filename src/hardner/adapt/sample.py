"""What a model is fitted to: labelled sentences, folds of them, and sentences beside them.

Users label sentences because they hold mentions; most sentences of a text hold none. Bundled
negative sentences, written for this purpose, keep a tagger from seeing mentions everywhere.

A tagger that has seen five sentences knows their mentions by heart. Where each other's mentions
stand in their places as well, it has to look at the context.
"""

import json
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

import numpy as np

from hardner.text import tokenize
from hardner.types import Sentence, Span, seed_of

FOLDS = 3
_FILE = "assets/background.jsonl"


@dataclass(frozen=True)
class Sample:
    """The sentences that one model is fitted to."""

    sentences: tuple[Sentence, ...]
    """Labelled ones; each is labelled to its end for every head of the adapter."""
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


def parts_of(
    sample: Sample, folds: Sequence[Fold], replacements: int, types: Sequence[Collection[str]] = ()
) -> list[Sample]:
    """The samples that the models of the folds are fitted to.

    A fold takes those replaced mentions alone that are made of its own sentences: no model learns
    a mention that it is scored on.
    """
    made = replaced_of(sample, replacements, types)
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
    are about the same things more often than the text that the model is for. The label with the
    fewest sentences is spread first.
    """
    sentences, seed = sample.sentences, seed_of(*sample.seed)
    count = min(folds, len(sentences))
    room = -(-len(sentences) // count)
    order = np.random.default_rng(seed).permutation(len(sentences)).tolist()
    groups = [
        g[i : i + room] for g in _by_mention(sentences, order) for i in range(0, len(g), room)
    ]
    held = [{span.label for span in sentence.spans} for sentence in sentences]
    bearing = Counter(chain.from_iterable(held))

    def rarest(group: list[int]) -> tuple[int, str]:
        """The rarest label of a group, and how many sentences hold it."""
        labels = set().union(*(held[row] for row in group))
        return min(((bearing[label], label) for label in labels), default=(len(sentences) + 1, ""))

    parts: list[list[int]] = [[] for _ in range(count)]
    for group in sorted(groups, key=lambda g: (rarest(g), -len(g))):
        label = rarest(group)[1]
        min(parts, key=lambda p: (sum(label in held[row] for row in p), len(p))).extend(group)
    every = set(range(len(sentences)))
    return [Fold(sorted(every - set(part)), sorted(part)) for part in parts]


def can_be_judged(
    sentences: Sequence[Sentence], folds: Sequence[Fold], labels: Collection[str]
) -> bool:
    """Whether each fold leaves mentions of some labels to learn from, and one holds some out."""
    bearing = [any(span.label in labels for span in sentence.spans) for sentence in sentences]
    return sum(any(bearing[row] for row in fold.held_out) for fold in folds) > 1


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


def replaced_of(
    sample: Sample, most: int, types: Sequence[Collection[str]] = ()
) -> list[Replacement]:
    """Sentences of a sample with replaced mentions: as many for each type, by its labels.

    A rare type is seen as often as a frequent one in these.
    """
    seed = seed_of("swaps", *sample.seed)  # the word is hashed: published samples follow it
    if len(types) < 2:
        return replace_mentions(sample.sentences, most, seed)
    every = (
        replace_mentions(sample.sentences, most, seed_of(seed, *sorted(labels)), labels)
        for labels in types
    )
    return list(chain.from_iterable(every))


def replace_mentions(
    sentences: Sequence[Sentence], most: int, seed: int, labels: Collection[str] | None = None
) -> list[Replacement]:
    """Up to ``most`` sentences with mentions of another one, of random pairs of sentences.

    Of some labels, if any are named.
    """
    rng = random.Random(seed)

    def holds(sentence: Sentence) -> bool:
        return any(labels is None or span.label in labels for span in sentence.spans)

    bearing = [row for row, sentence in enumerate(sentences) if holds(sentence)]
    others = len(bearing) - 1
    pairs = range(len(bearing) * others)
    found = []
    for pair in rng.sample(pairs, min(most, len(pairs))):
        at, other = divmod(pair, others)
        context, donor = bearing[at], bearing[other + (other >= at)]  # never the same sentence
        made = with_mentions(sentences[context], sentences[donor], rng, labels)
        found.append(Replacement(made, context, donor))
    return found


def with_mentions(
    sentence: Sentence,
    donor: Sentence,
    rng: random.Random,
    labels: Collection[str] | None = None,
) -> Sentence:
    """The sentence with one of the donor's mentions of the same label in place of each of its.

    Mentions that overlap go together, by the label of the longest. Those of other ``labels``, if
    any are named, stay.
    """
    tokens: list[str] = []
    spans: list[Span] = []
    at = 0
    given = overlapping(donor.spans)
    for own in overlapping(sentence.spans):
        start, end, label = own[0].start, max(span.end for span in own), _longest(own).label
        stays = labels is not None and label not in labels
        others = [] if stays else [group for group in given if _longest(group).label == label]
        taken, source = (rng.choice(others), donor) if others else (own, sentence)
        first, last = taken[0].start, max(span.end for span in taken)
        tokens += sentence.tokens[at:start]
        shift = len(tokens) - first
        spans += [Span(s + shift, e + shift, name) for s, e, name in taken]
        tokens += source.tokens[first:last]
        at = end
    return Sentence((*tokens, *sentence.tokens[at:]), tuple(spans), sentence.id)


def overlapping(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans in groups that have no token in common, in order of their places."""
    groups: list[list[Span]] = []
    end = 0
    for span in sorted(spans):
        if not groups or span.start >= end:
            groups.append([])
        groups[-1].append(span)
        end = max(end, span.end)
    return groups


def _longest(spans: Sequence[Span]) -> Span:
    return max(spans, key=lambda span: span.end - span.start)
