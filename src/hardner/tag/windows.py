"""Documents and sentences cut into windows for a network, and its mentions put back together.

A sentence that is too long for one window is cut between tokens into windows that overlap. A window
answers for the mentions that begin in its own part; the rest of it is context. The windows of many
documents are tagged together in a bounded buffer, and the documents come out in order.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from hardner.errors import HardnerError
from hardner.features import Ints
from hardner.schemes import TagSet, non_overlapping, tags_to_spans
from hardner.text import sentence_offsets, tokens_between
from hardner.types import Document, Entity, Offset, Span

Tokens = Sequence[str]
"""Of a sentence."""
SCORE_DIGITS = 4
"""Decimals of a score; further ones may depend on the machine."""
LONGEST_WINDOW = 512
"""Tokens of a window."""
_SHORT = LONGEST_WINDOW
"""Characters of a sentence that fits one window for sure: it has no more tokens than characters."""
_CONTEXT = 64
"""Tokens on either side that a window of a longer sentence reads beside its own."""
_READ = 1_000
"""Characters of a token that a network is shown: a longer one is no word."""
_BATCHES = 16
"""Batches of windows in the buffer, among which those of like length are brought together."""
_WINDOWS = 1 << 14
"""In the buffer, at most, however large a batch is."""
_TOKENS = 64
"""In the buffer, at most, for each window that it has room for, but for the last window."""


class Window(NamedTuple):
    """Tokens to be tagged together."""

    tokens: tuple[str, ...]
    offsets: Sequence[Offset]
    """Of the tokens, in whatever units mentions are wanted in."""
    own: Offset
    """A mention that begins here is this window's, in the same units."""
    cut: bool
    """Whether it is a part of a longer sentence."""


class ScoredMention(NamedTuple):
    """A mention that one of a tagger's heads has found, in tokens or characters."""

    start: int
    end: int
    label: str
    score: float
    head: int


class TagRun(NamedTuple):
    """A span of a sentence of a batch, and the tags that spell it."""

    head: int
    row: int
    span: Span
    tags: tuple[int, ...]


def document_of(text: str) -> Document:
    """A text to be tagged."""
    if not isinstance(text, str):
        raise HardnerError(f"a text to tag is a string, got {type(text).__name__}")
    return Document("", text)


def windows_of(document: Document) -> Iterator[Window]:
    """The windows of a document: of its tokens if it came with sentences, else of its text."""
    if not document.sentences:
        return windows_of_text(document)
    firsts = accumulate((len(sentence) for sentence in document.sentences), initial=0)
    return chain.from_iterable(
        windows_of_tokens(sentence.tokens, first)
        for sentence, first in zip(document.sentences, firsts, strict=False)
    )


def windows_of_text(document: Document) -> Iterator[Window]:
    """The sentences found in a document's text, in characters; a passage's edge is an edge."""
    text = document.text
    for start, end in sentence_offsets(document):
        found = tokens_between(text, start, end)
        if end - start > _SHORT:
            yield from _cut((text[a:b], (a, b)) for a, b in found)
        else:
            offsets = tuple(found)
            tokens = tuple([text[a:b] for a, b in offsets])
            yield Window(tokens, offsets, (offsets[0][0], offsets[-1][1]), cut=False)


def windows_of_tokens(tokens: Sequence[str], first: int = 0) -> Iterator[Window]:
    """A sentence whose tokens are given, in tokens; ``first`` is the number of its first one."""
    places = ((i, i + 1) for i in range(first, first + len(tokens)))
    return _cut(zip(tokens, places, strict=True))


def _cut(tokens: Iterable[tuple[str, Offset]]) -> Iterator[Window]:
    held: list[tuple[str, Offset]] = []
    first = True
    for token in tokens:
        # Only now is it known that the sentence goes on behind what is held.
        if len(held) == LONGEST_WINDOW:
            yield _window(held, 0 if first else _CONTEXT, LONGEST_WINDOW - _CONTEXT, cut=True)
            held, first = held[LONGEST_WINDOW - 2 * _CONTEXT :], False
        held.append(token)
    if held:
        yield _window(held, 0 if first else _CONTEXT, len(held), cut=not first)


def _window(held: Sequence[tuple[str, Offset]], left: int, right: int, cut: bool) -> Window:
    offsets = tuple(offset for _, offset in held)
    own = offsets[left][0], offsets[right - 1][1]
    return Window(tuple(token[:_READ] for token, _ in held), offsets, own, cut)


def tag_runs(tags: Ints, tag_sets: Sequence[TagSet]) -> list[TagRun]:
    """The spans that tags [D, B, T] spell, ``tag_sets`` being those of the D heads."""
    head, row, token = np.nonzero(tags > 0)
    if not len(head):
        return []
    # Tags other than O, in order: a run ends where the head, the row or the next token is another.
    parted = (np.diff(head) != 0) | (np.diff(row) != 0) | (np.diff(token) != 1)
    edges = [0, *(np.flatnonzero(parted) + 1).tolist(), len(head)]
    values = tags[head, row, token].tolist()
    heads, rows, tokens = head.tolist(), row.tolist(), token.tolist()
    found = []
    for left, right in pairwise(edges):
        here = tuple(values[left:right])
        first = tokens[left]
        for start, end, label in _spelt(here, tag_sets[heads[left]]):
            span = Span(first + start, first + end, label)
            found.append(TagRun(heads[left], rows[left], span, here[start:end]))
    return found


@lru_cache(maxsize=1 << 14)
def _spelt(tags: tuple[int, ...], tag_set: TagSet) -> tuple[Span, ...]:
    names = tag_set.tags
    return tags_to_spans([names[tag] for tag in tags], tag_set.scheme)[0]


def best_mentions(mentions: Iterable[ScoredMention]) -> list[ScoredMention]:
    """The most probable mentions of which no two of a head, or of a label, overlap; sorted."""
    kept = non_overlapping(mentions, lambda m: (-m.score, m), lambda m: (m.head, m.label))
    return sorted(kept)


_Item = TypeVar("_Item")
_TagWindows = Callable[[Sequence[Window]], Iterable[Iterable[ScoredMention]]]


def buffer_size(batch_size: int) -> int:
    """Windows that the buffer holds where batches are of this size."""
    return min(_BATCHES * batch_size, _WINDOWS)


def tag_in_order(
    items: Iterable[tuple[_Item, Iterable[Window]]], tag: _TagWindows, room: int
) -> Iterator[tuple[_Item, list[ScoredMention]]]:
    """Each item with its mentions, sorted.

    Args:
        items: Read no further ahead than the buffer holds.
        tag: Finds the mentions of some windows, in tokens.
        room: Windows, and items, that the buffer holds.
    """
    waiting: list[tuple[_Item, _Found]] = []
    buffer: list[tuple[_Found, Window]] = []
    tokens = 0

    def empty() -> None:
        nonlocal tokens
        for (found, window), mentions in zip(buffer, tag([w for _, w in buffer]), strict=True):
            found.add(window, mentions)
        buffer.clear()
        tokens = 0

    for item, windows in items:
        found = _Found()
        for window in windows:
            if len(buffer) >= room or tokens >= room * _TOKENS:
                empty()
                yield from _all(waiting)
            buffer.append((found, window))
            tokens += len(window.tokens)
        waiting.append((item, found))
        if len(waiting) >= room:
            empty()
            yield from _all(waiting)
    empty()
    yield from _all(waiting)


class _Found:
    """The mentions of one item, as its windows come back."""

    def __init__(self) -> None:
        self.mentions: list[ScoredMention] = []
        self.cut = False

    def add(self, window: Window, mentions: Iterable[ScoredMention]) -> None:
        (left, right), offsets = window.own, window.offsets
        for mention in mentions:
            start, end = offsets[mention.start][0], offsets[mention.end - 1][1]
            if left <= start < right:
                self.mentions.append(ScoredMention(start, end, *mention[2:]))
        self.cut |= window.cut


def _all(waiting: list[tuple[_Item, _Found]]) -> Iterator[tuple[_Item, list[ScoredMention]]]:
    for item, found in waiting:
        # Two windows of one sentence may each have found the same mention, with other ends.
        yield item, best_mentions(found.mentions) if found.cut else sorted(found.mentions)
    waiting.clear()


def attach_mentions(document: Document, mentions: Iterable[ScoredMention]) -> Document:
    """The document with mentions, in the units of `windows_of`, in place of its entities."""
    if not document.sentences:
        return replace(document, entities=tuple(_entity(document.text, m) for m in mentions))
    firsts = [*accumulate((len(sentence) for sentence in document.sentences), initial=0)]
    spans: list[list[Span]] = [[] for _ in document.sentences]
    entities = []
    for mention in mentions:
        row = bisect_right(firsts, mention.start) - 1
        sentence, first = document.sentences[row], firsts[row]
        spans[row].append(Span(mention.start - first, mention.end - first, mention.label))
        if sentence.offsets is not None:
            left = sentence.offsets[mention.start - first][0]
            right = sentence.offsets[mention.end - first - 1][1]
            entities.append(_entity(document.text, mention._replace(start=left, end=right)))
    entities.sort(key=lambda e: (e.start, e.end, e.label))
    sentences = (
        replace(sentence, spans=tuple(own))
        for sentence, own in zip(document.sentences, spans, strict=True)
    )
    return replace(document, entities=tuple(entities), sentences=tuple(sentences))


def _entity(text: str, mention: ScoredMention) -> Entity:
    start, end, label, score, _ = mention
    return Entity(start, end, label, text[start:end], score)
