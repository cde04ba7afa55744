"""ACE 2005: pairs of ``NAME.sgm`` and ``NAME.apf.xml``, alone or in a folder, read only.

Offsets count the characters of the .sgm with its tags taken out. A mention is the extent of an
entity mention; nested ones are all read.
"""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

from hardner.files import PathLike, read_text
from hardner.formats.brat import bases, file_beside
from hardner.formats.format import Format, Place, Report, boundary, make_mention, parse_range, short
from hardner.formats.xml import parse_xml
from hardner.types import Document

_ENDINGS = (".apf.xml", ".sgm")
_TAG = re.compile(r"<[^>]*>")
_OTHERS = ("relation", "event", "value", "timex2")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    for base in bases(path, *_ENDINGS):
        yield _document(base, report)


def _document(base: Path, report: Report) -> Document:
    path = file_beside(base, ".apf.xml")
    root = parse_xml(path)
    for kind in _OTHERS:
        if found := root.findall(f".//{kind}"):
            report.add(f"{kind} left out", Place(path, found[0].sourceline), len(found))
    mentions = []
    for entity in root.iter("entity"):
        for charseq in entity.iterfind("entity_mention/extent/charseq"):
            place = Place(path, charseq.sourceline)
            start, last = parse_range(charseq.get("START"), charseq.get("END"), place)
            label, name = entity.get("TYPE", ""), entity.get("ID", "")
            mentions.append(_Mention(place, start, last + 1, charseq.text or "", label, name))
    source = file_beside(base, ".sgm")
    raw = _without_tags(read_text(source))
    text = _text_that_agrees((raw, _unescaped(raw, Place(source))), mentions)
    entities = (
        make_mention(m.place, text, [(m.start, m.end)], m.label, identifier=m.name)
        for m in mentions
    )
    return Document(base.name, text, tuple(entities))


def _without_tags(source: str) -> str:
    source = source.replace("\r\n", "\n")
    end = source.rfind(">") + 1  # behind it no tag is closed, and each < would be searched for one
    return _TAG.sub("", source[:end]) + source[end:]


class _Mention(NamedTuple):
    place: Place
    start: int
    end: int
    quoted: str
    label: str
    name: str


def _unescaped(text: str, place: Place) -> str:
    with boundary(place, "not SGML"):  # of a reference of thousands of digits
        return unescape(text)


def _text_that_agrees(texts: tuple[str, str], mentions: list[_Mention]) -> str:
    """The text as offsets count it: with character references as they are written, or as read."""
    odd = {text: [m for m in mentions if not _agrees(text, m)] for text in texts}
    text = min(odd, key=lambda text: len(odd[text]))
    if odd[text]:
        place, start, end, quoted, *_ = odd[text][0]
        read = f"at {start}-{end}, but the text there is {short(text[start:end])}"
        raise place.error(f"mention {short(quoted)} {read}")
    return text


def _agrees(text: str, mention: _Mention) -> bool:
    found, quoted = text[mention.start : mention.end], mention.quoted
    return _unescaped(found, mention.place) == _unescaped(quoted, mention.place)


ACE_2005 = Format(
    "ace",
    _ENDINGS,
    "ACE 2005: a folder of .sgm and .apf.xml files, or one pair",
    _read,
    sniff=lambda start: "<!DOCTYPE source_file" in start or "<source_file" in start,
    folder=True,
)
