"""spaCy's DocBin (.spacy): tokens that cover the text, mentions as ``ents``.

Where mentions overlap, the longest are ``ents`` and all are in the span group ``sc``. A DocBin is
one compressed block, so it is read and written as a whole.
"""

import gc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

from hardner.errors import import_extra
from hardner.files import PathLike, atomic_binary, read_bytes, stem, unpacked_limit
from hardner.formats.format import (
    Format,
    Place,
    Report,
    bounded,
    check_document,
    make_mention,
    make_sentences,
)
from hardner.text import tokenize
from hardner.types import Document, Offset

_GROUP = "sc"
_ID = "id"
_PIECE = 1 << 14
"""Bytes unpacked at a time; they become a thousand times as many at most."""
_LEAST, _RATIO = 4_000_000, 50
"""Bytes that any DocBin, and that a byte of one may become: spaCy makes fifty times as many."""
_Plain = tuple[str, str, list[tuple[int, int, str, str]], list[str], list[list[Offset]]]
"""Of a Doc: id, text, mentions (start, end, label, concept), groups not read, tokens of sentences.

Plain data, as spaCy works much of it out when it is asked for.
"""


def _read(path: PathLike, report: Report) -> Iterator[Document]:
    spacy = import_extra("spacy", "spacy")
    content = read_bytes(path)
    _check_size(content, path)
    found = bounded(_unpacked(spacy, content), Place(path), "not a spaCy DocBin")
    for number, (own, text, mentions, groups, rows) in enumerate(found, 1):
        name = own or f"{stem(path)}-{number}"
        place = Place(path, document=name)
        for group in groups:
            report.add(f"span group {group!r} left out", place)
        entities = tuple(
            make_mention(place, text, [(start, end)], label, identifier=concept)
            for start, end, label, concept in mentions
        )
        document = Document(name, text, entities, make_sentences(text, rows, entities))
        check_document(document, place)
        yield document


def _check_size(content: bytes, path: PathLike) -> None:
    """Refuse a small file that would fill the memory; what is not zlib at all is left to spaCy."""
    limit = min(unpacked_limit(path), max(_LEAST, _RATIO * len(content)))
    inflate, size = zlib.decompressobj(), 0
    with suppress(zlib.error):
        for at in range(0, len(content), _PIECE):
            size += len(inflate.decompress(content[at : at + _PIECE]))
            if size > limit:
                raise Place(path).error(f"unpacks to more than {limit:,} bytes; split it")


def _unpacked(spacy: Any, content: bytes) -> Iterator[_Plain]:
    collecting = gc.isenabled()
    try:
        for doc in spacy.tokens.DocBin().from_bytes(content).get_docs(spacy.vocab.Vocab()):
            spans = (*doc.ents, *doc.spans.get(_GROUP, ()))
            sents = doc.sents if len(doc) > 1 and doc.has_annotation("SENT_START") else ()
            words = [[token for token in sent if not token.text.isspace()] for sent in sents]
            yield (
                str(doc.user_data.get(_ID) or ""),
                doc.text,
                sorted({(s.start_char, s.end_char, s.label_, s.kb_id_) for s in spans}),
                sorted(doc.spans.keys() - {_GROUP}),
                [[(t.idx, t.idx + len(t.text)) for t in row] for row in words],
            )
    finally:
        if collecting:  # which spaCy's unpacking stops, and leaves so where it fails
            gc.enable()


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
