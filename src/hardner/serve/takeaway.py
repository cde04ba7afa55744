"""What users take away: their labels in any format that can be written."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, groupby
from pathlib import Path

from hardner.formats import FORMATS, Report, write
from hardner.schemes import SCHEMES
from hardner.serve import documents, mention_types
from hardner.serve.errors import Refused
from hardner.serve.store import Database
from hardner.types import Document, Entity, Offset, Sentence, Span

_ODD = re.compile(r"[\s|/\\:*?\"<>\x00-\x1f]+")
WRITABLE = tuple(name for name, row in FORMATS.items() if row.write is not None)


def labelled(database: Database, unit: str) -> Iterator[Document]:
    """The documents that have labels, or each labelled sentence as a document."""
    names = mention_types.names(database)
    chosen = "state <> 'open'" if unit == "sentence" else documents.LABELLED
    rows = database.execute(
        f"""SELECT {documents.SENTENCE}, name, documents.text AS whole
            FROM documents JOIN sentences ON document = documents.id
            WHERE NOT removed AND {chosen} ORDER BY sentences.id"""
    )
    if unit == "sentence":
        for row in rows:
            yield _sentence(row, names)
        return
    for _, group in groupby(rows, key=lambda row: row["document"]):
        yield _document(list(group), names)


def _sentence(row: sqlite3.Row, names: dict[int, str]) -> Document:
    offsets = _offsets(row, 0)
    spans = _spans(row, names)
    name = f"{row['name']}:{row['position'] + 1}"
    sentence = Sentence(_words(row["text"], offsets), spans, name, offsets)
    return Document(name, row["text"], _entities(row["text"], sentence), (sentence,))


def _document(rows: list[sqlite3.Row], names: dict[int, str]) -> Document:
    text = rows[0]["whole"]
    sentences = []
    for row in rows:
        offsets = _offsets(row, row["start"])
        name = f"{row['name']}:{row['position'] + 1}"
        sentences.append(Sentence(_words(text, offsets), _spans(row, names), name, offsets))
    entities = (entity for sentence in sentences for entity in _entities(text, sentence))
    return Document(rows[0]["name"], text, tuple(entities), tuple(sentences))


def _offsets(row: sqlite3.Row, shift: int) -> tuple[Offset, ...]:
    flat = [edge + shift for edge in json.loads(row["tokens"])]
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _words(text: str, offsets: tuple[Offset, ...]) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in offsets)


def _spans(row: sqlite3.Row, names: dict[int, str]) -> tuple[Span, ...]:
    return tuple(sorted(Span(s, e, names[t]) for s, e, t in json.loads(row["spans"])))


def _entities(text: str, sentence: Sentence) -> tuple[Entity, ...]:
    assert sentence.offsets is not None
    found = []
    for first, behind, label in sentence.spans:
        start, end = sentence.offsets[first][0], sentence.offsets[behind - 1][1]
        found.append(Entity(start, end, label, text[start:end]))
    return tuple(found)


def _named(found: Iterable[Document]) -> Iterator[Document]:
    """The documents with ids that every format can hold, each once."""
    used: set[str] = set()
    for document in found:
        plain = _ODD.sub("_", document.id).strip("._") or "document"
        numbered = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        name = next(name for name in numbered if name not in used)
        used.add(name)
        yield replace(document, id=name)


def export(database: Database, folder: Path, format: str, scheme: str | None, unit: str) -> Path:
    """Writes the labels into a folder; returns the file, a zip where the format is a folder."""
    row = FORMATS[format]
    if scheme is not None and not row.tagged:
        raise Refused(f"{format} has no tags, so no scheme")
    if scheme is not None and scheme not in SCHEMES:
        raise Refused(f"unknown scheme {scheme!r}; known are {', '.join(SCHEMES)}")
    found = labelled(database, unit)
    first = next(found, None)
    if first is None:
        raise Refused("there is no label to take away yet; label a sentence first")

    every = _named(chain([first], found))
    ending = row.endings[0] if row.endings else ".jsonl"
    target = folder / ("labels" if format == "brat" else f"labels{ending}")
    write(every, target, format, scheme=scheme, report=Report())
    if target.is_dir():
        return Path(shutil.make_archive(str(target), "zip", target))
    return target
