"""The commonest wrong mentions: where the ends were wrong, what was missed, what was made up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hardner.evaluate.predictions import Predicted
from hardner.evaluate.score import Breakdown, breakdown, error_kind
from hardner.types import Sentence, Span

ErrorKind = Literal["boundary", "type", "missed", "spurious"]
KINDS: tuple[ErrorKind, ...] = ("boundary", "type", "missed", "spurious")
_CONTEXT_WORDS = 6
"""Of the context, on each side."""


@dataclass(frozen=True)
class Mistake:
    """Mentions that were wrong in the same way."""

    kind: ErrorKind
    right: tuple[str, ...]
    """The right mention and its label; empty where there is none."""
    found: tuple[str, ...]
    """The found mention and its label; empty where nothing was found."""
    count: int
    context: str
    """Of the first of them: right mentions in square brackets, found ones in braces."""
    sentence: str
    """The id of its sentence."""


def totals(predictions: Iterable[Predicted]) -> Breakdown:
    """The counts behind the mistakes."""
    held = list(predictions)
    found = breakdown([p.sentence.spans for p in held], [p.found for p in held])
    return sum(found.values(), Breakdown())


def mistakes(predictions: Iterable[Predicted]) -> list[Mistake]:
    """All of them, the commonest of each kind first."""
    seen: dict[tuple[ErrorKind, tuple[str, ...], tuple[str, ...]], Mistake] = {}
    for predicted in predictions:
        for kind, right, found in _pairs(predicted):
            sentence = predicted.sentence
            place = (kind, _named(sentence, right), _named(sentence, found))
            before = seen.get(place)
            context = before.context if before else _context(sentence, right, found)
            first = before.sentence if before else sentence.id
            count = before.count + 1 if before else 1
            seen[place] = Mistake(*place, count, context, first)
    return sorted(seen.values(), key=lambda m: (KINDS.index(m.kind), -m.count, m.right, m.found))


def _pairs(predicted: Predicted) -> Iterable[tuple[ErrorKind, Span | None, Span | None]]:
    """Each wrong mention once: a right one with the found one it overlaps, or either alone."""
    right, found = predicted.sentence.spans, predicted.found
    wrong = [span for span in found if span not in right]
    lost = [span for span in right if span not in found]
    for span in lost:
        kind = error_kind(span, found)
        if kind == "alone":
            yield "missed", span, None
        else:
            yield kind, span, _nearest(span, wrong)
    for span in wrong:
        kind = error_kind(span, right)
        if kind == "alone":
            yield "spurious", None, span
        elif not any(_overlap(span, other) and _nearest(other, wrong) == span for other in lost):
            yield kind, _nearest(span, right), span


def _overlap(one: Span, other: Span) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _nearest(span: Span, others: Sequence[Span]) -> Span | None:
    """The one that shares most words with it, of its own label if there is one."""
    touching = [other for other in others if _overlap(span, other)]
    return max(
        touching, key=lambda o: (o.label == span.label, _overlap(span, o), -o.start), default=None
    )


def _named(sentence: Sentence, span: Span | None) -> tuple[str, ...]:
    if span is None:
        return ()
    return " ".join(sentence.tokens[span.start : span.end]), span.label


def _context(sentence: Sentence, right: Span | None, found: Span | None) -> str:
    spans = [span for span in (right, found) if span]
    start = max(0, min(span.start for span in spans) - _CONTEXT_WORDS)
    end = min(len(sentence), max(span.end for span in spans) + _CONTEXT_WORDS)
    words = []
    for place in range(start, end):
        word = sentence.tokens[place]
        for span, opening, closing in ((found, "{", "}"), (right, "[", "]")):
            if span:
                word = (opening if place == span.start else "") + word
                word += closing if place == span.end - 1 else ""
        words.append(word)
    left, more = "… " if start else "", " …" if end < len(sentence) else ""
    return left + " ".join(words) + more
