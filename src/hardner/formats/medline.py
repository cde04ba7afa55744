"""PubMed's own XML (``PubmedArticleSet``), as its baseline and update files have it; read only.

A document is an article: its PMID, its title, then each section of its abstract, a line each. The
passages are ``title`` and, of a section, its label as written, else ``abstract``. Inline markup is
read as its text. Titles and abstracts in other languages, books and deletions are counted.
"""

import re
from collections.abc import Iterator
from typing import Any

from hardner.files import PathLike
from hardner.formats.format import Format, Place, Report
from hardner.formats.xml import element_text, iterate_xml
from hardner.types import Document, Passage

_ARTICLE, _BOOK, _DELETED = "PubmedArticle", "PubmedBookArticle", "DeleteCitation"
_NOT_READ = {
    "MedlineCitation/Article/VernacularTitle": "title in another language left out",
    "MedlineCitation/OtherAbstract": "other abstract (another language or source) left out",
}
_SPACES = re.compile(r"[ \t\r\n]+")


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    for element, place in iterate_xml(path, _ARTICLE, _BOOK, _DELETED):
        if element.tag == _ARTICLE:
            document = _document(element, place, report)
            if document is not None:
                yield document
        elif element.tag == _BOOK:
            report.note("book or chapter left out", place)
        else:
            report.note("deletion not carried out", place, len(element))


def _document(element: Any, place: Place, report: Report) -> Document | None:
    name = element.findtext("MedlineCitation/PMID", "").strip()
    if not name:
        raise place.error("an article without a PMID")
    place = place._replace(document=name)
    for path, reason in _NOT_READ.items():
        if (count := len(element.findall(path))) > 0:
            report.note(reason, place, count)
    text, passages = "", []
    for kind, part in _parts(element.find("MedlineCitation/Article"), place):
        text += "\n" if text else ""
        passages.append(Passage(len(text), len(text) + len(part), kind))
        text += part
    if not passages:
        report.note("article without a title or an abstract left out", place)
        return None
    return Document(name, text, passages=tuple(passages))


def _parts(article: Any, place: Place) -> Iterator[tuple[str, str]]:
    """The kind and the text of the title and of each section that the article has."""
    if article is None:
        return
    for part in article.iterfind("ArticleTitle"):
        if text := _text(part, place):
            yield "title", text
    for part in article.iterfind("Abstract/AbstractText"):
        if text := _text(part, place):
            yield part.get("Label") or "abstract", text


def _text(element: Any, place: Place) -> str:
    return _SPACES.sub(" ", element_text(element, place)).strip(" ")


MEDLINE = Format(
    "medline",
    (".xml",),
    "PubMed's own XML, as in its baseline files",
    _read,
    sniff=lambda start: "<PubmedArticleSet" in start,
)
