"""spaCy's DocBin (.spacy): tokens that cover the text, mentions as ``ents``.

Where mentions overlap, the longest are ``ents`` and all are in the span group ``sc``. A DocBin is
one compressed block, so it is read and written as a whole.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from hardner.errors import import_extra
from hardner.files import PathLike, atomic_binary, open_binary, stem
from hardner.formats.format import Format, Place, Report
from hardner.formats.mention import make_mention, make_sentence
from hardner.text import tokenize
from hardner.types import Document, Offset, Sentence

_GROUP = "sc"
_ID = "id"


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    spacy = import_extra("spacy", "spacy")
    with open_binary(path) as file:
        content = file.read()
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(content).get_docs(spacy.vocab.Vocab()))
    except (ValueError, TypeError, LookupError) as error:
        message = str(error).partition("\n")[0]
        raise Place(path).error(f"not a spaCy DocBin: {message}") from None
    for number, doc in enumerate(docs, 1):
        name = str(doc.user_data.get(_ID) or f"{stem(path)}-{number}")
        yield _document(doc, name, Place(path, document=name), report)


def _document(doc: Any, name: str, place: Place, report: Report) -> Document:
    for group in sorted(doc.spans.keys() - {_GROUP}):
        report.add(f"span group {group!r} left out", place)
    entities = set()
    for span in (*doc.ents, *doc.spans.get(_GROUP, ())):
        extent, concept = (span.start_char, span.end_char), span.kb_id_
        entities.add(make_mention(place, doc.text, [extent], span.label_, identifier=concept))
    ordered = sorted(entities, key=lambda e: (e.start, e.end, e.label, e.identifier))
    sentences: list[Sentence] = []
    for sent in doc.sents if len(doc) > 1 and doc.has_annotation("SENT_START") else ():
        offsets = [(t.idx, t.idx + len(t.text)) for t in sent if not t.text.isspace()]
        inside = [e for e in ordered if sent.start_char <= e.start and e.end <= sent.end_char]
        sentences += make_sentence(doc.text, offsets, inside)
    return Document(name, doc.text, tuple(ordered), tuple(sentences))


def _write(documents: Iterable[Document], path: PathLike, report: Report) -> None:
    spacy = import_extra("spacy", "spacy")
    docs = spacy.tokens.DocBin(store_user_data=True)
    vocab = spacy.vocab.Vocab()
    with atomic_binary(path) as file:
        for document in documents:
            docs.add(_doc(document, spacy, vocab, report, Place(path, document=document.id)))
        file.write(docs.to_bytes())


def _doc(document: Document, spacy: Any, vocab: Any, report: Report, place: Place) -> Any:
    offsets = [offset for sentence in document.sentences for offset in sentence.offsets or ()]
    firsts = {sentence.offsets[0][0] for sentence in document.sentences if sentence.offsets}
    if any(left[1] > right[0] for left, right in pairwise(offsets)):
        report.note("sentence and token bounds not kept", place)
        offsets, firsts = [], set()
    words, spaces, starts = _covering(document.text, offsets or tokenize(document.text), firsts)
    doc = spacy.tokens.Doc(vocab, words, spaces, sent_starts=starts if firsts else None)
    doc.user_data[_ID] = document.id
    distinct = dict.fromkeys(document.entities)
    if repeated := len(document.entities) - len(distinct):
        report.add("mention left out that repeats another", place, repeated)
    spans = []
    for entity in distinct:
        span = doc.char_span(entity.start, entity.end, entity.label, kb_id=entity.identifier)
        if span is None:
            report.add("mention left out that cuts a token", place)
        else:
            spans.append(span)
    doc.set_ents(spacy.util.filter_spans(spans))
    if len(doc.ents) < len(spans):
        doc.spans[_GROUP] = spans
    return doc


def _covering(
    text: str, offsets: list[Offset], firsts: set[int]
) -> tuple[list[str], list[bool], list[bool]]:
    """Words, whether a space follows each, and whether a sentence starts with it."""
    words: list[str] = []
    spaces: list[bool] = []
    starts: list[bool] = []
    at = 0
    for start, end in (*offsets, (len(text), len(text))):
        gap = text[at:start]
        if words and gap.startswith(" "):
            spaces[-1], gap = True, gap[1:]
        for word, first in ((gap, not words), (text[start:end], start in firsts)):
            if word:
                words.append(word)
                spaces.append(False)
                starts.append(first)
        at = end
    return words, spaces, starts


DOCBIN = Format(
    "docbin",
    (".spacy",),
    "DocBin of spaCy (needs hardner[spacy])",
    _read,
    _write,
    holds=frozenset({"ids", "sentences", "identifiers", "overlaps"}),
)
