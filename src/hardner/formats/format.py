"""What a format is, and what a reader or writer reports on the way."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from hardner.errors import FileError, HardnerError
from hardner.files import PathLike, shown_path
from hardner.schemes import longest_non_overlapping
from hardner.text import sentences
from hardner.types import Document, Entity, Offset, Sentence

_FLAT = str.maketrans("\r\n\t", "   ")
HOLDABLE = (
    *("ids", "passages", "sentences", "states", "scores", "identifiers", "overlaps", "fragments"),
    "rejected",
)
"""What only some formats can hold beside a text and its labelled mentions."""


class Place(NamedTuple):
    """A place in a file, given by line or by document, for error messages."""

    path: PathLike
    line: int | None = None
    document: str | None = None

    def error(self, message: str) -> FileError:
        """An error that names the place, to be raised by the caller."""
        if self.document is not None:
            message = f"document {self.document!r}: {message}"
        return FileError(shown_path(self.path), message.replace("\n", " "), self.line)


_T = TypeVar("_T")
_END = object()


@contextmanager
def boundary(place: Place, what: str) -> Iterator[None]:
    """Around a call of another library, which may raise anything where a file is damaged.

    Our own code, where it would hide mistakes, never runs inside of it.
    """
    try:
        yield
    except HardnerError:  # of the file that the library reads from
        raise
    except Exception as error:
        line = getattr(error, "lineno", None) or place.line  # lxml's have one
        reason = str(getattr(error, "msg", error)).partition("\n")[0] or type(error).__name__
        raise place._replace(line=line).error(f"{what}: {reason}") from None


def bounded(items: Iterable[_T], place: Place, what: str) -> Iterator[_T]:
    """Items that another library makes, each within :func:`boundary`."""
    iterator = iter(items)
    while True:
        with boundary(place, what):
            item = next(iterator, _END)
        if item is _END:
            return
        yield item  # type: ignore[misc]


class Report:
    """What a conversion left out or repaired: counts by reason, each with its first place.

    Args:
        strict: Raise an error at the first annotation that is lost or repaired.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self._first: dict[str, Place] = {}

    def add(self, reason: str, place: Place, count: int = 1) -> None:
        """Count an annotation that was left out or repaired."""
        if self.strict:
            raise place.error(reason)
        self.note(reason, place, count)

    def note(self, reason: str, place: Place, count: int = 1) -> None:
        """Count something beside the annotations: ids, layout, bookkeeping of a tool."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self._first.setdefault(reason, place)

    def lines(self) -> list[str]:
        """One line for each reason."""
        return [
            str(self._first[reason].error(reason)) + (f", and {count - 1:,} more" * (count > 1))
            for reason, count in self.counts.items()
        ]


@contextmanager
def reporting(strict: bool, report: Report | None) -> Iterator[Report]:
    """The caller's report; without one, a new one whose lines become Python warnings."""
    if report is not None:
        report.strict |= strict
        yield report
        return
    own = Report(strict)
    yield own
    for line in own.lines():
        warnings.warn(line, stacklevel=2)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format for annotated text: its reader, its writer and what it can hold."""

    name: str
    """As ``--from`` and ``--to`` take it."""
    endings: tuple[str, ...]
    """Of file names, in lower case, without those of compressed files."""
    about: str
    """One line for ``hardner convert --formats``."""
    read: Callable[..., Iterator[Document]] | None = None
    """``read(path, report)`` yields the documents; None where the format is written only."""
    write: Callable[..., None] | None = None
    """``write(documents, path, report)``; None where the format is read only."""
    sniff: Callable[[str], object] = lambda start: False
    """Whether a file that starts with this text is certainly of the format."""
    holds: frozenset[str] = frozenset()
    """Those of :data:`HOLDABLE` that survive writing and reading."""
    tagged: bool = False
    """Whether it marks mentions by tags of tokens; ``read`` and ``write`` then take ``scheme``."""
    folder: bool = False
    """Whether a folder of files can be read as one corpus."""
    read_line: Callable[[str, Place, Report], Document | None] | None = None
    """Of formats with a document a line: the document of one, None where it is left out."""


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
        _check_range(start, end, text, place)
    start, end = ranges[0][0], max(end for _, end in ranges)
    joined = " ".join(text[left:right] for left, right in ranges)
    if quoted is not None and quoted not in (joined, on_one_line(joined), text[start:end]):
        read = f"at {start}-{end}, but the text there is {short(joined)}"
        raise place.error(f"mention {short(quoted)} {read}")
    if not math.isfinite(score):
        raise place.error(f"the score {score} is not a number")
    fragments = tuple(ranges) if len(ranges) > 1 else ()
    return Entity(start, end, label, joined, score, fragments, identifier)


def make_sentences(
    text: str, rows: Iterable[list[Offset]], entities: Sequence[Entity]
) -> tuple[Sentence, ...]:
    """A sentence for each row of tokens, with the mentions that do not cut a token."""
    bare = tuple(
        Sentence(tuple(text[start:end] for start, end in row), offsets=tuple(row))
        for row in rows
        if row
    )
    return sentences(Document("", text, tuple(entities), bare), lambda _: None) if bare else ()


def check_document(document: Document, place: Place) -> None:
    """Refuse a document whose mentions, passages or tokens do not agree with its text."""
    text = document.text
    strings = "".join(_strings(document))
    if "\0" in strings:
        raise place.error("holds a NUL character, which no text file can hold")
    try:
        strings.encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        message = f"holds U+{code:04X}, a lone surrogate (half a character), which no file can hold"
        raise place.error(message) from None
    for entity in (*document.entities, *document.rejected):
        label, quoted = entity.label, entity.text
        made = make_mention(place, text, entity.ranges, label, quoted=quoted, score=entity.score)
        if (made.start, made.end) != (entity.start, entity.end):
            raise place.error(f"the fragments of {short(entity.text)} do not span it")
    for start, end, _ in document.passages:
        if not 0 <= start <= end <= len(text):
            raise place.error(f"passage {start}-{end} lies outside the text of {len(text)}")
    for sentence in document.sentences:
        offsets = sentence.offsets or ()
        for start, end in offsets:
            _check_range(start, end, text, place)
        if offsets and sentence.tokens != tuple(text[start:end] for start, end in offsets):
            raise place.error(f"the tokens of sentence {sentence.id!r} are not those of its text")
        for span in (*sentence.spans, *sentence.rejected):
            if not 0 <= span.start < span.end <= len(sentence.tokens):
                raise place.error(f"{span} lies outside its {len(sentence.tokens)} tokens")


def _strings(document: Document) -> Iterator[str]:
    """Every string of the document that is not a part of another."""
    yield from (document.id, document.text)
    for entity in (*document.entities, *document.rejected):
        yield from (entity.label, entity.identifier)
    for passage in document.passages:
        yield passage.kind
    for sentence in document.sentences:
        labelled = (*sentence.spans, *sentence.rejected)
        yield from (sentence.id, *sentence.tokens, *(span.label for span in labelled))


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
    if "rejected" not in holds:
        noted = sum(len(sentence.rejected) for sentence in document.sentences)
        if noted := max(noted, len(document.rejected)):
            report.add("rejected mention left out", place, noted)
        document = replace(document, rejected=())
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


def _check_range(start: int, end: int, text: str, place: Place) -> None:
    if start >= end:
        raise place.error(f"{start}-{end} holds no characters")
    if not 0 <= start < end <= len(text):
        raise place.error(f"{start}-{end} lies outside the text of {len(text)} characters")


def on_one_line(text: str) -> str:
    """The text on one line, with as many characters."""
    return text.translate(_FLAT)


def short(text: str, width: int = 60) -> str:
    """The text in quotes on one line, cut where it is long; for error messages."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def parse_range(start: object, end: object, place: Place) -> Offset:
    """Two offsets as a file gives them, not yet compared with its text."""
    return parse_offset(start, place), parse_offset(end, place)


def parse_offset(value: object, place: Place) -> int:
    """The integer that a file gives as an offset, as a number or as digits."""
    digits = value.strip() if isinstance(value, str) else ""
    if digits.isascii() and digits.isdecimal() and len(digits) < 16:
        return int(digits)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return value
    raise place.error(f"{short(str(value))} is not an offset")
