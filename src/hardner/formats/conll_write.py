"""Writing CoNLL: tab-separated, ``-DOCSTART-`` lines from the first longer document on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hardner.errors import HardnerError
from hardner.files import PathLike, atomic_write
from hardner.formats.conll import DOCSTART
from hardner.formats.mention import short
from hardner.formats.report import Place, Report
from hardner.schemes import spans_to_tags
from hardner.text import Problem, sentences
from hardner.types import Document, Sentence, Span

_UNFIT = re.compile(r"[\t\r\n]")


def write(
    documents: Iterable[Document], path: PathLike, report: Report, scheme: str = "IOB2"
) -> None:
    grouped = False
    with atomic_write(path) as file:
        for document in documents:
            place = Place(path, document=document.id)
            found = _sentences(document, report, place)
            grouped |= len(found) > 1
            if grouped:
                file.write(f"{DOCSTART}\tO\n\n")
            for sentence in found:
                file.write(_lines(sentence, scheme, report, place))


def _sentences(document: Document, report: Report, place: Place) -> Sequence[Sentence]:
    """The document's sentences, their spans made anew from its mentions where it has any."""
    own = document.sentences
    if document.entities and all(sentence.offsets is not None for sentence in own):
        document = replace(document, sentences=tuple(replace(s, spans=()) for s in own))

    def left_out(problem: Problem) -> None:
        report.add(f"mention left out that {problem.reason}", place)

    found = [sentence for sentence in sentences(document, left_out) if sentence.tokens]
    if not found:
        report.note("document without tokens left out", place)
    return found


def _lines(sentence: Sentence, scheme: str, report: Report, place: Place) -> str:
    for token in sentence.tokens:
        if (
            not token.strip(" ")
            or token.startswith(DOCSTART)
            or not set(token).isdisjoint("\t\r\n")
        ):
            raise place.error(f"the token {short(token)} cannot stand in a CoNLL file")
    spans = [_plain(span, report, place) for span in sentence.spans]
    if scheme == "IO":
        spans = _merged(spans, report, place)
    try:
        tags = spans_to_tags(spans, len(sentence.tokens), scheme)
    except HardnerError as error:
        raise place.error(str(error)) from None
    rows = zip(sentence.tokens, tags, strict=True)
    return "".join(f"{token}\t{tag}\n" for token, tag in rows) + "\n"


def _plain(span: Span, report: Report, place: Place) -> Span:
    label = "_".join(span.label.split()) if _UNFIT.search(span.label) else span.label
    if label.rstrip(" ") != span.label:
        report.add(f"label {short(span.label)} rewritten without white space", place)
        return span._replace(label=label.rstrip(" "))
    return span


def _merged(spans: Sequence[Span], report: Report, place: Place) -> list[Span]:
    """What the scheme IO makes of mentions of one label that touch."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and merged[-1].end == span.start and merged[-1].label == span.label:
            report.add("mention merged with the one before it, as IO does", place)
            merged[-1] = merged[-1]._replace(end=span.end)
        else:
            merged.append(span)
    return merged
