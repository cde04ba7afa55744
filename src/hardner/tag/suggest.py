"""Which sentences to label next: those that the model finds hard, each for a reason of its own."""

import heapq
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from hardner.errors import HardnerError
from hardner.tag.predictor import Predictor
from hardner.tag.uncertainty import Uncertainty
from hardner.types import Sentence, Span

_CHUNK = 2_048
"""Sentences that are read at once."""
MOST_WORDS = 200
"""Words; what is longer is no sentence, and nobody wants to label it."""
_LEAST_CHANCE = 0.02
"""The probability of any mention below which a sentence is not considered."""
_LEAST_SHOWN = 0.1
"""The probability from which on a token is shown as part of a possible mention."""
_DISCOUNT = 0.3
"""Uncertainty about a word is multiplied by it for each sentence that shows the word already."""
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A sentence worth labelling."""

    sentence: Sentence
    """As it was given."""
    hardness: float
    """The loss that the model expects of itself on the sentence, in nats."""
    reason: str
    uncertain: tuple[tuple[Span, float], ...]
    """Possible mentions with their probabilities, the most uncertain first: the score of one that
    is tagged, else the mean over its tokens."""


class Candidate(NamedTuple):
    """A sentence that may be suggested."""

    value: float
    """Its hardness, made comparable between lengths."""
    place: int
    """Where it stood among the sentences; of two equals the first is taken."""
    sentence: Sentence
    uncertainty: Uncertainty

    @property
    def order(self) -> tuple[float, int]:
        """Best first."""
        return -self.value, self.place


def suggest_sentences(
    model: Predictor,
    sentences: Iterable[Sentence],
    n: int = 10,
    *,
    label: str | Collection[str] | None = None,
    known: Iterable[Sentence] = (),
) -> list[Suggestion]:
    """The sentences to label next, best first.

    Sentences are ranked by hardness, spread over the words that the model is unsure of.
    Uncertainty about a word counts less with each sentence, chosen or known, that shows it, so that
    neither one entity nor one phrase fills the list. Sentences that differ only in numbers and case
    count as one. Sentences are read as a stream; memory does not grow with their number.

    Args:
        model: Whose uncertainty counts.
        sentences: To choose from.
        n: How many at most; fewer where no other has any chance of a mention.
        label: What is to be learnt, one or several. Only the heads that know one are asked; all of
            them where none does, as what several heads half take for a mention may be one of a new
            type.
        known: Sentences that are labelled already; they are not suggested again.
    """
    if n < 1:
        raise HardnerError(f"cannot suggest {n} sentences: ask for at least 1")
    shown: Counter[str] = Counter()
    held = Shortlist(max(1_000, 20 * n))
    for sentence in known:
        shown.update(words_of(sentence))
        held.refuse(sentence)
    wanted = {label} if isinstance(label, str) else set(label or ())
    labels = wanted.intersection(model.labels) or None
    place = 0
    for chunk in _chunks(sentences):
        every = model.uncertainties(chunk, labels=labels)
        for sentence, uncertainty in zip(chunk, every, strict=True):
            held.add(place, sentence, uncertainty)
            place += 1
    chosen = diversify(held.best(), n, shown)
    tagged = model.spans([candidate.sentence for candidate in chosen], labels=labels)
    return [_suggestion(*pair) for pair in zip(chosen, tagged, strict=True)]


def _chunks(sentences: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    stream = (s for s in sentences if 0 < len(s) <= MOST_WORDS)
    while chunk := list(islice(stream, _CHUNK)):
        yield chunk


class Shortlist:
    """The candidates of the highest value, few of them for the same possible mention."""

    def __init__(self, most: int) -> None:
        """Args: ``most`` says how many are kept."""
        self._most = most
        self._held: dict[str, Candidate] = {}
        self._refused: set[str] = set()

    def refuse(self, sentence: Sentence) -> None:
        """Never take a sentence, nor one that is the same but for numbers and case."""
        self._refused.add(_key(sentence))

    def add(self, place: int, sentence: Sentence, uncertainty: Uncertainty) -> None:
        """Take a sentence, unless it can hold no mention."""
        key = _key(sentence)
        if uncertainty.chance < _LEAST_CHANCE or key in self._refused:
            return
        # Hardness grows with length, its mean per word falls; the square root lies between.
        new = Candidate(uncertainty.hardness / len(sentence) ** 0.5, place, sentence, uncertainty)
        self._held[key] = min(new, self._held.get(key, new), key=lambda c: c.order)
        # Sorted once for so many additions, not for each.
        if len(self._held) > 2 * self._most:
            self._held = self._kept()

    def best(self) -> list[Candidate]:
        """What is left, best first."""
        return list(self._kept().values())

    def _kept(self) -> dict[str, Candidate]:
        """The best, at most a hundredth of them for the same most uncertain mention."""
        used: Counter[tuple[str, ...]] = Counter()
        kept: dict[str, Candidate] = {}
        for key, candidate in sorted(self._held.items(), key=lambda item: item[1].order):
            surface = _surface(candidate)
            used[surface] += 1
            if used[surface] <= max(1, self._most // 100) and len(kept) < self._most:
                kept[key] = candidate
        return kept


def diversify(candidates: Sequence[Candidate], n: int, shown: Counter[str]) -> list[Candidate]:
    """The best of the candidates, one after the other, each in view of those before it.

    Args:
        shown: How many sentences have shown each word already; left as it is.
    """
    shown = shown.copy()
    chosen: list[Candidate] = []
    # What a candidate adds only ever falls, so that one whose sum is up to date and still the
    # largest is the best: the others need not be summed up anew.
    heap = [(-c.value, c.place, -1, i) for i, c in enumerate(candidates)]
    heapq.heapify(heap)
    while heap and len(chosen) < n:
        _, place, when, i = heapq.heappop(heap)
        if when == len(chosen):
            chosen.append(candidates[i])
            shown.update(words_of(candidates[i].sentence))
        else:
            heapq.heappush(heap, (-_adds(candidates[i], shown), place, len(chosen), i))
    return chosen


def _adds(candidate: Candidate, shown: Counter[str]) -> float:
    """The candidate's value, without the share of words that have been shown already."""
    uncertainty = candidate.uncertainty.tokens
    words = [token.lower() for token in candidate.sentence.tokens]
    fresh = np.array([_DISCOUNT ** shown[word] for word in words])
    return candidate.value * float(uncertainty @ fresh) / max(float(uncertainty.sum()), 1e-9)


def words_of(sentence: Sentence) -> set[str]:
    return {token.lower() for token in sentence.tokens}


def _key(sentence: Sentence) -> str:
    """A key that sentences share where they differ in numbers and case only."""
    return _DIGITS.sub("0", " ".join(sentence.tokens).lower())


def _surface(candidate: Candidate) -> tuple[str, ...]:
    """The most uncertain possible mention, in lower case."""
    found = uncertain(candidate.sentence, candidate.uncertainty)
    return tuple(
        t.lower() for s, _ in found[:1] for t in candidate.sentence.tokens[s.start : s.end]
    )


def uncertain(
    sentence: Sentence, uncertainty: Uncertainty, most: int = 3
) -> tuple[tuple[Span, float], ...]:
    """The runs of tokens that may be a mention, with mean probability, most uncertain first."""
    noticed = np.concatenate(([False], uncertainty.inside >= _LEAST_SHOWN, [False]))
    edges = np.flatnonzero(noticed[1:] != noticed[:-1]).tolist()
    runs = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        label = uncertainty.labels[start + int(uncertainty.inside[start:end].argmax())]
        share = float(uncertainty.inside[start:end].mean())
        runs.append((-float(uncertainty.tokens[start:end].sum()), Span(start, end, label), share))
    return tuple((span, share) for _, span, share in sorted(runs)[:most])


def _suggestion(candidate: Candidate, tagged: Sequence[tuple[Span, float]]) -> Suggestion:
    """A suggestion; possible mentions that are tagged stand there as they are tagged."""
    found: dict[Span, float] = {}
    for run, share in uncertain(candidate.sentence, candidate.uncertainty):
        met = [(s, score) for s, score in tagged if s.start < run.end and run.start < s.end]
        found |= met or {run: share}
    parts = [
        f"‘{' '.join(candidate.sentence.tokens[span.start : span.end])}’ ({span.label} {share:.0%})"
        for span, share in list(found.items())[:2]
    ]
    reason = f"unsure about {' and '.join(parts) or 'many words, a little about each'}"
    mentions = tuple(found.items())
    return Suggestion(candidate.sentence, candidate.uncertainty.hardness, reason, mentions)
