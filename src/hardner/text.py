"""Raw text -> tokens and sentences with exact character offsets.

Every non-space character lies in exactly one token, and every token in exactly one sentence.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from hardner.errors import HardnerError
from hardner.types import Document, Entity, Offset, Sentence, Span

# A run of letters and digits, with the accents that combine with them, or one other character.
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_TOKEN = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*+|\S")


def tokenize(text: str, start: int = 0) -> list[Offset]:
    """The offsets of the tokens of a text; ``start`` is the offset of its first character."""
    if start:
        return [(match.start() + start, match.end() + start) for match in _TOKEN.finditer(text)]
    return [match.span() for match in _TOKEN.finditer(text)]


def tokens_between(text: str, start: int, end: int) -> Iterator[Offset]:
    """The offsets of the tokens of a part of a text, found one after the other."""
    return (match.span() for match in _TOKEN.finditer(text, start, end))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations, without the last stop, by what may follow within the sentence.
_BEFORE_ANYTHING = _words(
    """approx aff ca cf dr e.g eq eqs exp fig figs i.e jr mr mrs ms prof ref refs resp sect ssp st
    subsp supp suppl tab var viz vs"""
)
_BEFORE_NAMES = _words(  # any word but one that opens sentences
    """acad am assoc biochem biol chem genet hum j med mol nat natl neurosci phys proc sci u.k u.s
    u.s.a univ"""
)
_BEFORE_SYMBOLS = _words(  # anything but a capitalised word
    """a.m al b.i.d b.w bw co corp d.f dept ed eds etc gen i.c.v i.d i.m i.p i.v inc ltd nov p.m
    p.o q.d s.c s.d s.e s.e.m sp spp t.i.d"""
)
_BEFORE_NUMBERS = _words("ch chap chr no nos nr p pp vol")

_OPENERS = _words(
    """A After All Although An And As At Because Both But By Despite Each Finally For From Further
    Furthermore Hence Here How However If In It Its Moreover Most No Of On One Our Several Since
    Some Such Taken That The Their Then There Therefore These They This Those Three Thus To Two
    Under Upon Using We What When Whereas Whether While With"""
)
_LOWER_OPENERS = _words("alpha beta gamma delta kappa cis trans van von")
# Before a letter that is an initial ("by J. Smith") and not the end of a name ("vitamin D. Milk").
_BEFORE_INITIALS = _words("and by for from in of or the to with")

_STOP = re.compile(
    r"""(?<![.!?…])(?P<stop>[.!?…]++)                              # a run of stops, seen once
        (?P<close>["'”’»)\]}]*+)
        (?P<cite>\[\d[\d,;\ –-]{0,30}+\]|\d{1,3}+(?:[,–-]\d{1,3}+)*+(?=\s[A-Z]))?+
        (?:\s++|(?=A\s|[A-Z][a-z]++[\s,]))
      | \n\s*+""",
    re.VERBOSE,
)
_NEXT = re.compile(r"(?P<open>[\"'“‘«(\[{]*+)(?P<word>[^\W_]*+)(?P<tie>[-)\].]?)")
_INITIALS = re.compile(r"(?:[A-Z]\.-?)*[A-Z]")
_LIST_MARK = re.compile(r"\s*[(\[]?(?:\d{1,2}|[ivx]{1,4}|[IVX]{1,4}|[A-Za-z])[)\]]?")
_BRACKET = re.compile(r"[()\[\]]")
_WRAPPED = re.compile(r"[^\s.!?:;][^\S\n]*+\n[^\S\n]*+[a-z]")
_LONGEST_BRACKET = 200
_LONGEST_HEADING = 60


def split(text: str) -> list[Offset]:
    """The offsets of the sentences of a text, without the white space around them.

    A blank line always ends a sentence, and so does a line break, except in text whose lines are
    wrapped (some line goes on in lower case), where only a short line, a heading, ends with one.
    """
    offsets: list[Offset] = []
    start = 0
    for end in _breaks(text):
        piece = text[start:end]
        if solid := piece.strip():
            left = start + piece.index(solid[0])
            offsets.append((left, left + len(solid)))
        start = end
    return offsets


def _breaks(text: str) -> Iterator[int]:
    wrapped = _WRAPPED.search(text) is not None
    bracketed = _bracketed(text)
    start, opens_line = 0, True
    for match in _STOP.finditer(text):
        lines = match[0].count("\n")
        if lines > 1 or (lines and not wrapped):
            ends = True
        elif match["stop"]:
            ends = not bracketed(match.end("close")) and _ends_sentence(text, start, match)
        else:
            ends = opens_line and _is_heading(text, start, match)
        if ends:
            start, opens_line = match.end(), lines > 0
            yield start
    yield len(text)


def _is_heading(text: str, start: int, match: re.Match[str]) -> bool:
    line = text[start : min(match.start(), start + _LONGEST_HEADING + 1)]
    continued = text[match.end() : match.end() + 1].islower() or line.endswith(tuple(",;-–("))
    return len(line) <= _LONGEST_HEADING and "\n" not in line and not continued


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    at, end = match.span()
    *_, left, before = ("", "", *text[max(start, at - 40) : at].split())
    if before[:1] + match["close"][:1] in ("()", "[]"):  # "Melissa officinalis (L.) Raf"
        return False
    before = before.lstrip("([{\"'“‘")
    following = _NEXT.match(text, end)
    assert following is not None
    opening, word, tie = following.groups()
    if word[:1].islower() and not _may_open(word, opening, tie):
        return False
    if not (opening or word) and text[end : end + 1] in ",;:)]}=<>/%+-–":
        return False
    if match["stop"] != ".":
        return True
    if match["cite"]:  # "in cells.3,4 The", but "pH 7.4 The"
        return (
            before[-2:].isalpha()
            and before.islower()
            and not _is_abbreviation(before, left, match["cite"])
        )
    if text[end - 1] == "." and not _is_plain(before):  # "cells.The", but "J.Smith"
        return False
    if at - start < 10 and _LIST_MARK.fullmatch(text, start, at):
        return False
    if opening or (len(word) == 1 and tie == "."):  # a bracket or an initial opens no sentence here
        word = ""
    return not _is_abbreviation(before, left, word)


def _is_plain(word: str) -> bool:
    """Whether a word with a stop and no space after it is not part of a name or an address."""
    return word[-1:] in (")", "]", "%") or (
        len(word) > 1 and not word[-1].isupper() and not any(mark in word for mark in "./@_:")
    )


def _may_open(word: str, opening: str, tie: str) -> bool:
    """Whether a word in lower case may open a sentence: p53, mRNA, c-Myc, beta-catenin, (b)."""
    if len(word) == 1 or set(word) <= set("ivx"):
        return opening[-1:] + tie in ("()", "[]", "-")
    return not (word.islower() and word.isalpha()) or word in _LOWER_OPENERS


def _is_abbreviation(before: str, left: str, word: str) -> bool:
    """Whether the full stop after ``before`` marks an abbreviation rather than a sentence's end.

    ``left`` is the word before it, ``word`` the one that follows the stop.
    """
    low = before.lower() if "." in before or not before.isupper() else before
    if word in _OPENERS:
        return low in _BEFORE_ANYTHING
    if low in _BEFORE_NUMBERS and word[:1].isdigit():
        return True
    if _INITIALS.fullmatch(before):
        lower = left[:1].islower() or "-" in left
        ends_name = lower and left[-1:].islower() and left not in _BEFORE_INITIALS
        return not (ends_name and word[:1].isupper() and len(word) > 1)
    if low in _BEFORE_SYMBOLS:
        return not (word[:1].isupper() and word[1:].islower())
    return low in _BEFORE_ANYTHING or low in _BEFORE_NAMES


def _bracketed(text: str) -> Callable[[int], bool]:
    """A function that says whether a place lies within a pair of brackets that is not too wide."""
    opened: list[int] = []
    pairs: list[Offset] = []
    for match in _BRACKET.finditer(text):
        place = match.start()
        if match[0] in "([":
            opened.append(place)
        elif opened and place - (left := opened.pop()) <= _LONGEST_BRACKET:
            while pairs and pairs[-1][0] > left:
                pairs.pop()
            pairs.append((left, place))

    def inside(place: int) -> bool:
        index = bisect_left(pairs, (place, 0)) - 1
        return index >= 0 and place <= pairs[index][1]

    return inside


class Problem(NamedTuple):
    """A mention that no span over the tokens can stand for, and why."""

    entity: Entity
    reason: str


def sentences(
    document: Document, report: Callable[[Problem], None] | None = None
) -> tuple[Sentence, ...]:
    """The document's own sentences, else those found within its passages, with its mentions.

    A mention that no sentence can hold goes to ``report``; without one it is an error. A rejected
    one that none can hold says nothing.
    """
    own = document.sentences
    bare = all(not s.spans and not s.rejected and s.offsets is not None for s in own)
    if own and not (bare and (document.entities or document.rejected)):
        return own
    begun = "partial" if document.rejected else ""
    rows = [s.offsets or () for s in own] or [
        tuple(tokenize(document.text[start:end], start))
        for start, end in sentence_offsets(document)
    ]
    firsts = [0, *accumulate(len(row) for row in rows)]
    offsets = [offset for row in rows for offset in row]
    starts = {start: index for index, (start, _) in enumerate(offsets)}
    ends = {end: index for index, (_, end) in enumerate(offsets, 1)}
    held: list[set[Span]] = [set() for _ in rows]
    barred: list[set[Span]] = [set() for _ in rows]
    every = [(entity, held) for entity in document.entities]
    for entity, kind in every + [(entity, barred) for entity in document.rejected]:
        text, problem = entity.text, ""
        # White space at the edges of a mention does not count.
        start = starts.get(entity.start + len(text) - len(text.lstrip()))
        end = ends.get(entity.end - len(text) + len(text.rstrip()))
        if len(entity.fragments) > 1:
            problem = "is discontinuous"
        elif entity.start >= entity.end or text.isspace():
            problem = "is empty"
        elif start is None or end is None:
            problem = "cuts a token"
        else:
            row = bisect_right(firsts, start) - 1
            span = Span(start - firsts[row], end - firsts[row], entity.label)
            if end > firsts[row + 1]:
                problem = "crosses the end of a sentence"
            elif span in kind[row]:
                problem = "repeats another"
            else:
                kind[row].add(span)
        if kind is barred:
            continue
        if problem and report is None:
            raise HardnerError(f"{document.id}: {text!r} at {entity.start} {problem}")
        if problem and report is not None:
            report(Problem(entity, problem))
    return tuple(
        Sentence(
            tokens=tuple(document.text[start:end] for start, end in row),
            spans=tuple(sorted(spans)),
            id=own[index].id if own else f"{document.id}:{index}",
            offsets=row,
            state=own[index].state if own else begun,
            rejected=tuple(sorted(not_spans)),
        )
        for index, (row, spans, not_spans) in enumerate(zip(rows, held, barred, strict=True))
    )


def sentence_offsets(document: Document) -> Iterator[Offset]:
    """The offsets of the sentences in a document's text; none crosses the edge of a passage."""
    edges = {0, len(document.text)}
    for passage in document.passages:
        edges |= {passage.start, passage.end}
    for left, right in pairwise(sorted(edges)):
        for start, end in split(document.text[left:right]):
            yield left + start, left + end
