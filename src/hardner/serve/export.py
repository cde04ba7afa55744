"""The labels of a project, in any format that can be written."""

import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, groupby
from pathlib import Path

from hardner.formats import FORMATS, Report, write
from hardner.schemes import SCHEMES
from hardner.serve.database import Database
from hardner.serve.documents import HAS_LABELS
from hardner.serve.errors import Refused
from hardner.serve.mention_types import type_names
from hardner.serve.sentences import SENTENCE_COLUMNS, to_sentence, token_offsets
from hardner.types import Document, Entity

_ODD = re.compile(r"[\s|/\\:*?\"<>\x00-\x1f]+")


def writable_formats() -> tuple[str, ...]:
    """The names of the formats in which labels can be exported."""
    return tuple(name for name, row in FORMATS.items() if row.write is not None)


def export_labels(
    database: Database, folder: Path, format: str, scheme: str | None, unit: str
) -> Path:
    """Write the labels into a folder; returns the file, a zip where the format is a folder.

    Args:
        database: The project.
        folder: An empty folder.
        format: One of `writable_formats`.
        scheme: The tag scheme, for formats that have tags; None is the format's own.
        unit: ``document`` for documents with a label, ``sentence`` for labelled sentences alone.
    """
    row = FORMATS[format]
    if scheme is not None and not row.tagged:
        raise Refused(f"{format} has no tags, so no scheme")
    if scheme is not None and scheme not in SCHEMES:
        raise Refused(f"unknown scheme {scheme!r}; known are {', '.join(SCHEMES)}")
    found = _documents(database, by_sentence=unit == "sentence")
    first = next(found, None)
    if first is None:
        raise Refused("there is no label to take away yet; label a sentence first")
    ending = row.endings[0] if row.endings else ".jsonl"
    target = folder / ("labels" if format == "brat" else f"labels{ending}")
    write(_with_plain_ids(chain([first], found)), target, format, scheme=scheme, report=Report())
    if target.is_dir():
        return Path(shutil.make_archive(str(target), "zip", target))
    return target


def _documents(database: Database, by_sentence: bool) -> Iterator[Document]:
    names = type_names(database)
    rows = database.execute(
        f"""SELECT {SENTENCE_COLUMNS}, name, documents.text AS whole
            FROM documents JOIN sentences ON document = documents.id
            WHERE NOT removed AND {"state <> 'open'" if by_sentence else HAS_LABELS}
            ORDER BY sentences.id"""
    )
    for _, group in groupby(rows, key=lambda row: row["id" if by_sentence else "document"]):
        yield _document(list(group), names, by_sentence)


def _document(rows: list[sqlite3.Row], names: dict[int, str], by_sentence: bool) -> Document:
    text = rows[0]["text" if by_sentence else "whole"]
    sentences, entities = [], []
    for row in rows:
        shift = 0 if by_sentence else row["start"]
        offsets = tuple((start + shift, end + shift) for start, end in token_offsets(row))
        sentence = to_sentence(row, names)
        spans = tuple(sorted(sentence.spans))
        id = f"{row['name']}:{row['position'] + 1}"
        sentences.append(replace(sentence, spans=spans, id=id, offsets=offsets))
        for first, behind, label in spans:
            start, end = offsets[first][0], offsets[behind - 1][1]
            entities.append(Entity(start, end, label, text[start:end]))
    id = sentences[0].id if by_sentence else rows[0]["name"]
    return Document(id, text, tuple(entities), tuple(sentences))


def _with_plain_ids(found: Iterable[Document]) -> Iterator[Document]:
    """The documents with unique ids that every format can hold."""
    used: set[str] = set()
    for document in found:
        plain = _ODD.sub("_", document.id).strip("._") or "document"
        numbered = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        name = next(name for name in numbered if name not in used)
        used.add(name)
        yield replace(document, id=name)
