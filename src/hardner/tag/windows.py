"""Texts and sentences as pieces of bounded length, every token the business of exactly one piece.

A sentence that is too long for one piece is cut between tokens into pieces that overlap. A piece
answers for mentions that begin in its own part; the rest of it is context.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from hardner.text import split, tokenize
from hardner.types import Document, Offset

_LONGEST = 512
"""Tokens of a piece."""
_SHORT = _LONGEST
"""Characters of a sentence that is one piece for sure: it has no more tokens than characters."""
_CONTEXT = 64
"""Tokens on either side that a piece of a longer sentence reads beside its own."""
READ = 1_000
"""Characters of a token that a network is shown: a longer one is no word."""
STRETCH = 1 << 16
"""Characters of a sentence that are tokenised at once."""

_SPACE = re.compile(r"\s")


class Window(NamedTuple):
    """Tokens to be tagged together."""

    tokens: tuple[str, ...]
    offsets: Sequence[Offset]
    """Of the tokens, in whatever units mentions are wanted in."""
    own: Offset
    """A mention that begins here is this piece's, in the same units."""
    cut: bool
    """Whether it is a part of a longer sentence."""


def windows_of_text(document: Document) -> Iterator[Window]:
    """The sentences found in a document's text, in characters; a passage's edge is an edge."""
    edges = {0, len(document.text)}
    for passage in document.passages:
        edges |= {passage.start, passage.end}
    for left, right in pairwise(sorted(edges)):
        part = document.text[left:right]
        for start, end in split(part):
            if end - start > _SHORT:
                yield from _pieces(_tokens(part, start, end, left))
            else:
                offsets = tuple(tokenize(part[start:end], left + start))
                tokens = tuple([document.text[a:b] for a, b in offsets])
                yield Window(tokens, offsets, (offsets[0][0], offsets[-1][1]), cut=False)


def windows_of_tokens(tokens: Sequence[str], first: int = 0) -> Iterator[Window]:
    """A sentence whose tokens are given, in tokens; ``first`` is the number of its first one."""
    places = ((i, i + 1) for i in range(first, first + len(tokens)))
    return _pieces(zip(tokens, places, strict=True))


def _tokens(text: str, start: int, end: int, shift: int) -> Iterator[tuple[str, Offset]]:
    """The tokens of a part of the text, found a stretch at a time; space always parts tokens."""
    while start < end:
        space = _SPACE.search(text, min(end, start + STRETCH), end)
        stop = space.start() if space else end
        for left, right in tokenize(text[start:stop], start):
            yield text[left:right], (left + shift, right + shift)
        start = stop


def _pieces(tokens: Iterable[tuple[str, Offset]]) -> Iterator[Window]:
    held: list[tuple[str, Offset]] = []
    first = True
    for token in tokens:
        if len(held) == _LONGEST:
            yield _piece(held, 0 if first else _CONTEXT, _LONGEST - _CONTEXT, cut=True)
            held, first = held[_LONGEST - 2 * _CONTEXT :], False
        held.append(token)
    if held:
        yield _piece(held, 0 if first else _CONTEXT, len(held), cut=not first)


def _piece(held: Sequence[tuple[str, Offset]], left: int, right: int, cut: bool) -> Window:
    offsets = tuple(offset for _, offset in held)
    own = offsets[left][0], offsets[right - 1][1]
    return Window(tuple(token[:READ] for token, _ in held), offsets, own, cut)
