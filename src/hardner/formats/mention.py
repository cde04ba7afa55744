"""What readers and writers share: mentions that agree with their text, and fit a format."""

import math
from collections.abc import Sequence
from dataclasses import replace

from hardner.formats.format import Format, Place, Report
from hardner.schemes import longest_non_overlapping
from hardner.text import sentences
from hardner.types import Document, Entity, Offset, Sentence

_SPACES = str.maketrans("\r\n\t", "   ")


def make_mention(
    place: Place,
    text: str,
    ranges: Sequence[Offset],
    label: str,
    *,
    quoted: str | None = None,
    score: float = 1.0,
    identifier: str = "",
) -> Entity:
    """The entity at these places of the text, its offsets checked.

    Args:
        place: Named where the mention does not agree with the text.
        ranges: One, or the fragments of a discontinuous mention.
        quoted: The mention's text as the file gives it; a line break may stand there as a space.
    """
    ranges = sorted(ranges)
    for start, end in ranges:
        if not 0 <= start < end <= len(text):
            raise place.error(_outside(start, end, text))
    start, end = ranges[0][0], max(end for _, end in ranges)
    joined = " ".join(text[left:right] for left, right in ranges)
    if quoted is not None and quoted not in (joined, joined.translate(_SPACES), text[start:end]):
        read = f"at {start}-{end}, but the text there is {short(joined)}"
        raise place.error(f"mention {short(quoted)} {read}")
    if not math.isfinite(score):
        raise place.error(f"the score {score} is not a number")
    fragments = tuple(ranges) if len(ranges) > 1 else ()
    return Entity(start, end, label, joined, score, fragments, identifier)


def make_sentence(
    text: str, offsets: list[Offset], entities: Sequence[Entity]
) -> tuple[Sentence, ...]:
    """The tokens at these offsets as one sentence, with the mentions that do not cut a token."""
    if not offsets:
        return ()
    tokens = tuple(text[start:end] for start, end in offsets)
    bare = (Sentence(tokens, offsets=tuple(offsets)),)
    return sentences(Document("", text, tuple(entities), bare), lambda problem: None)


def check_document(document: Document, place: Place) -> None:
    """Refuse a document whose mentions, passages or tokens do not agree with its text."""
    text = document.text
    if "\0" in text:
        raise place.error("its text holds a NUL character")
    names = [name for entity in document.entities for name in (entity.label, entity.identifier)]
    try:
        "".join((document.id, text, *names)).encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        message = f"holds U+{code:04X}, a lone surrogate (half a character), which no file can hold"
        raise place.error(message) from None
    for entity in document.entities:
        label, quoted = entity.label, entity.text
        made = make_mention(place, text, entity.ranges, label, quoted=quoted, score=entity.score)
        if (made.start, made.end) != (entity.start, entity.end):
            raise place.error(f"the fragments of {short(entity.text)} do not span it")
    for start, end, _ in document.passages:
        if not 0 <= start <= end <= len(text):
            raise place.error("passage " + _outside(start, end, text))
    for sentence in document.sentences:
        offsets = sentence.offsets
        if offsets and sentence.tokens != tuple(text[start:end] for start, end in offsets):
            raise place.error(f"the tokens of sentence {sentence.id!r} are not those of its text")


def fit_document(document: Document, format: Format, report: Report, place: Place) -> Document:
    """The document, checked and cut down to what the format holds; every loss is counted."""
    check_document(document, place)
    holds = format.holds
    if "ids" not in holds:
        report.note("document id not kept", place)
    if document.passages and "passages" not in holds:
        report.note("passages not kept", place)
    if document.sentences and "sentences" not in holds:
        report.note("sentence and token bounds not kept", place)
    unfinished = sum(not sentence.is_done for sentence in document.sentences)
    if unfinished and "states" not in holds:
        report.add("sentence not labelled to its end written as if it was", place, unfinished)
    kept = []
    for entity in document.entities:
        if entity.fragments and "fragments" not in holds:
            report.add("discontinuous mention left out", place)
            continue
        if entity.score != 1.0 and "scores" not in holds:
            report.add("score of a mention left out", place)
            entity = replace(entity, score=1.0)
        if entity.identifier and "identifiers" not in holds:
            report.add("concept identifier left out", place)
            entity = replace(entity, identifier="")
        kept.append(entity)
    if "overlaps" not in holds:
        flat = longest_non_overlapping(kept)
        if len(flat) < len(kept):
            report.add("overlapping mention left out", place, len(kept) - len(flat))
        kept = flat
    return replace(document, entities=tuple(kept))


def _outside(start: int, end: int, text: str) -> str:
    if start >= end:
        return f"{start}-{end} holds no characters"
    return f"{start}-{end} lies outside the text of {len(text)} characters"


def short(text: str, width: int = 60) -> str:
    """The text in quotes on one line, cut where it is long; for error messages."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def parse_range(start: object, end: object, place: Place) -> Offset:
    """Two offsets as a file gives them, not yet compared with its text."""
    return parse_offset(start, place), parse_offset(end, place)


def parse_offset(value: object, place: Place) -> int:
    """The integer that a file gives as an offset, as a number or as digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    raise place.error(f"{short(str(value))} is not an offset")
