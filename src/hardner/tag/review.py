"""Which mentions to ask about: the likeliest false alarms, those first that settle most others.

A mention that is found with probability p is wrong with 1 - p. What the mentions of one wording
(in any case) are wrong by adds up: that wording is asked about first, by its least sure mention.
With each question its sum counts less, so that the next is about another one.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hardner.tag.predictor import Predictor
from hardner.types import Progress, Sentence, Span

_AT_ONCE = 512
"""Sentences tagged between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Question:
    """A mention that was found, to be answered by yes or no."""

    sentence: Sentence
    span: Span
    score: float
    others: int
    """Further mentions that were found of the same wording."""


def wording(sentence: Sentence, span: Span) -> str:
    """The words of a mention, in lower case."""
    return " ".join(sentence.tokens[span.start : span.end]).casefold()


def questions(
    model: Predictor,
    sentences: Sequence[Sentence],
    labels: Collection[str] | None = None,
    on_progress: Progress | None = None,
) -> list[Question]:
    """All mentions that a model finds in sentences, the one to ask about first in front.

    Args:
        model: It finds the mentions, and its scores say how sure it is.
        sentences: Each text counts once; labels that they have are ignored.
        labels: Ask about these alone.
        on_progress: Called with the sentences that are tagged, and those in all.
    """
    once = list({sentence.tokens: sentence for sentence in sentences}.values())
    found: list[list[tuple[Span, float]]] = []
    for start in range(0, len(once), _AT_ONCE):
        found += model.spans(once[start : start + _AT_ONCE], labels=labels)
        if on_progress:
            on_progress(len(found), len(once))
    held: defaultdict[str, list[tuple[float, int, Span]]] = defaultdict(list)
    for place, (sentence, spans) in enumerate(zip(once, found, strict=True)):
        for span, score in spans:
            held[f"{span.label} {wording(sentence, span)}"].append((score, place, span))
    return [
        Question(once[place], span, score, others)
        for score, place, span, others in _in_order(held.values())
    ]


def _in_order(
    wordings: Iterable[list[tuple[float, int, Span]]],
) -> Iterator[tuple[float, int, Span, int]]:
    # Of each wording: minus what its next question is worth, how often it was asked about, itself.
    heap = []
    for number, mentions in enumerate(wordings):
        mentions.sort()
        wrong = sum(1 - score for score, _, _ in mentions)
        heap.append((-wrong, number, 0, wrong, mentions))
    heapq.heapify(heap)
    while heap:
        _, number, asked, wrong, mentions = heapq.heappop(heap)
        score, place, span = mentions[asked]
        yield score, place, span, len(mentions) - 1
        asked += 1
        if asked < len(mentions):
            heapq.heappush(heap, (-wrong / (1 + asked), number, asked, wrong, mentions))


def answered(question: Question, is_mention: bool) -> Sentence:
    """The sentence of a question, of which the answer is all that is known."""
    spans = (question.span,) if is_mention else ()
    rejected = () if is_mention else (question.span,)
    sentence = question.sentence
    return Sentence(sentence.tokens, spans, sentence.id, sentence.offsets, "partial", rejected)
