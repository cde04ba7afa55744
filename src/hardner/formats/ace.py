"""ACE 2005: pairs of ``NAME.sgm`` and ``NAME.apf.xml``, alone or in a folder, read only.

Offsets count the characters of the .sgm with its tags taken out. A mention is the extent of an
entity mention; nested ones are all read.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardner.files import PathLike, open_binary, plain_name, read_text
from hardner.formats.bioc import SAFE_XML
from hardner.formats.brat import file_beside, named_path
from hardner.formats.format import Format, Place, Report
from hardner.formats.mention import make_mention, parse_offset, short
from hardner.types import Document, Entity

_ENDINGS = (".apf.xml", ".sgm")
_TAG = re.compile(r"<[^>]*>")
_OTHERS = ("relation", "event", "value", "timex2")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    path = named_path(path)
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    for base in dict.fromkeys(_base(file) for file in found if plain_name(file).endswith(_ENDINGS)):
        yield _document(base, report)


def _base(path: Path) -> Path:
    name = plain_name(path)
    return path.with_name(next(name.removesuffix(e) for e in _ENDINGS if name.endswith(e)))


def _document(base: Path, report: Report) -> Document:
    from lxml import etree

    path = file_beside(base, ".apf.xml")
    with open_binary(path) as file:
        try:
            root = etree.parse(file, etree.XMLParser(**SAFE_XML)).getroot()
        except etree.XMLSyntaxError as error:
            raise Place(path, error.lineno).error(f"not XML: {error.msg}") from None
    for kind in _OTHERS:
        if found := root.findall(f".//{kind}"):
            report.add(f"{kind} left out", Place(path, found[0].sourceline), len(found))
    raw = _TAG.sub("", read_text(file_beside(base, ".sgm")).replace("\r\n", "\n"))
    mentions = [
        (entity, charseq)
        for entity in root.iter("entity")
        for charseq in entity.iterfind("entity_mention/extent/charseq")
    ]
    text = _text_that_agrees(raw, [charseq for _, charseq in mentions], path)
    entities = tuple(_entity(entity, charseq, text, path) for entity, charseq in mentions)
    return Document(base.name, text, entities)


def _text_that_agrees(raw: str, charseqs: list[Any], path: Path) -> str:
    """The text as offsets count it: with character references as they are written, or as read."""
    odd = {
        text: [charseq for charseq in charseqs if not _agrees(charseq, text, path)]
        for text in (raw, html.unescape(raw))
    }
    text = min(odd, key=lambda text: len(odd[text]))
    if odd[text]:
        charseq = odd[text][0]
        start, end = _offsets(charseq, path)
        where = f"at {start}-{end}, where {short(text[start:end])} stands"
        message = f"mention {short(charseq.text or '')} {where}"
        raise Place(path, charseq.sourceline).error(message)
    return text


def _agrees(charseq: Any, text: str, path: Path) -> bool:
    start, end = _offsets(charseq, path)
    return html.unescape(text[start:end]) == html.unescape(charseq.text or "")


def _offsets(charseq: Any, path: Path) -> tuple[int, int]:
    place = Place(path, charseq.sourceline)
    return parse_offset(charseq.get("START"), place), parse_offset(charseq.get("END"), place) + 1


def _entity(entity: Any, charseq: Any, text: str, path: Path) -> Entity:
    place = Place(path, charseq.sourceline)
    name = entity.get("ID", "")
    return make_mention(
        place, text, [_offsets(charseq, path)], entity.get("TYPE", ""), identifier=name
    )


ACE_2005 = Format(
    "ace",
    _ENDINGS,
    "ACE 2005: a folder of .sgm and .apf.xml files, or one pair",
    _read,
    sniff=lambda start: "<!DOCTYPE source_file" in start or "<source_file" in start,
    folder=True,
)
