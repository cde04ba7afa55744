"""The sentences that a model is fitted to, and their folds for cross-validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardner.adapt.augmentation import replace_mentions
from hardner.seeds import seed_of
from hardner.types import Sentence

FOLDS = 3


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
        found.append(Sample(sentences, (*sample.seed, "fold", number), (), replaced))
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
