"""The labels of a project, in any format that can be written."""

import re
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, count, groupby
from pathlib import Path

from hardner.formats import FORMATS, Place, Report, write
from hardner.schemes import SCHEMES
from hardner.serve.database import Database
from hardner.serve.documents import HAS_LABELS, HAS_LOOSE, HAS_PARTIAL, document_text
from hardner.serve.errors import Refused
from hardner.serve.loose import loose_entities
from hardner.serve.mention_types import type_names
from hardner.serve.sentences import select_sentences, to_sentence, token_offsets
from hardner.types import Document, Entity, Sentence, Span

_ODD = re.compile(r"[\s|/\\:*?\"<>\x00-\x1f]+")


def writable_formats() -> tuple[str, ...]:
    return tuple(name for name, row in FORMATS.items() if row.write is not None)


def export_labels(
    database: Database, folder: Path, format: str, scheme: str | None, unit: str, report: Report
) -> Path:
    """Write the labels into a folder; returns the file, a zip where the format is a folder.

    What the format cannot hold is counted in the report.

    A ``unit`` is a ``document`` with a sentence that is done, or such a ``sentence`` alone.
    """
    row = FORMATS[format]
    if scheme is not None and not row.tagged:
        raise Refused(f"{format} has no tags, so no scheme")
    if scheme is not None and scheme not in SCHEMES:
        raise Refused(f"unknown scheme {scheme!r}; known are {', '.join(SCHEMES)}")
    found = _documents(database, unit == "sentence", "states" in row.holds, report)
    first = next(found, None)
    if first is None:
        raise Refused("there are no labels to export yet; label a sentence first")
    ending = row.endings[0] if row.endings else ".jsonl"
    target = folder / ("labels" if format == "brat" else f"labels{ending}")
    write(_with_plain_ids(chain([first], found)), target, format, scheme=scheme, report=report)
    if target.is_dir():
        return Path(shutil.make_archive(str(target), "zip", target))
    return target


def _documents(
    database: Database, by_sentence: bool, states: bool, report: Report
) -> Iterator[Document]:
    """What is done of the documents; where the format holds states, all of those begun.

    A document that is not done to its end is cut down to its done sentences, as no one can say
    what the others hold.
    """
    names = type_names(database)
    begun = f"{HAS_LABELS} OR {HAS_PARTIAL} OR {HAS_LOOSE}" if states else HAS_LABELS
    chosen = "state <> 'open'" if by_sentence else f"({begun})"
    rows = select_sentences(database, f"NOT removed AND {chosen} ORDER BY sentences.id")
    for number, group in groupby(rows, key=lambda row: row["document"]):
        every = list(group)
        name, held_out = every[0]["name"], every[0]["held_out"]
        text = document_text(database, number)
        loose = loose_entities(database, number, text, names)
        done = [row for row in every if row["state"] != "open"]
        if by_sentence:
            cuts = [(None, [row]) for row in done]
        elif states or len(done) == len(every):
            sentences = [_sentence(row, names, row["start"], states) for row in every]
            yield _document(name, sentences, text, held_out, loose)
            continue
        else:
            cuts = [(name, done)]
        for own, kept in cuts:
            starts = [*accumulate((len(row["text"]) + 1 for row in kept), initial=0)][:-1]
            sentences = [
                _sentence(row, names, at, states) for row, at in zip(kept, starts, strict=True)
            ]
            moved = _moved(loose, kept, starts)
            yield _document(own, sentences, "\n".join(r["text"] for r in kept), held_out, moved)
            within = [entity for entity in loose if any(_meets(row, entity) for row in kept)]
            if lost := len(within) - len(moved):
                report.add("mention across sentences left out", Place("labels", None, name), lost)


def _meets(row: sqlite3.Row, entity: Entity) -> bool:
    return any(start < row["stop"] and row["start"] < end for start, end in entity.ranges)


def _moved(
    loose: Iterable[Entity], kept: Sequence[sqlite3.Row], starts: Sequence[int]
) -> list[Entity]:
    """The mentions within one of these sentences, at its place in the text of these alone."""
    moved = []
    for row, at in zip(kept, starts, strict=True):
        by = at - row["start"]
        for one in loose:
            if row["start"] <= one.start and one.end <= row["stop"]:
                pieces = tuple((start + by, end + by) for start, end in one.fragments)
                moved.append(replace(one, start=one.start + by, end=one.end + by, fragments=pieces))
    return moved


def _sentence(row: sqlite3.Row, names: dict[int, str], shift: int, with_rejected: bool) -> Sentence:
    sentence = to_sentence(row, names)
    return replace(
        sentence,
        spans=tuple(sorted(sentence.spans)),
        id=f"{row['name']}:{row['position'] + 1}",
        offsets=tuple((start + shift, end + shift) for start, end in token_offsets(row)),
        rejected=tuple(sorted(sentence.rejected)) if with_rejected else (),
    )


def _document(
    name: str | None, sentences: list[Sentence], text: str, held_out: int, loose: Iterable[Entity]
) -> Document:
    entities, rejected = [*loose], list[Entity]()
    for sentence in sentences:
        entities += _entities(text, sentence, sentence.spans)
        rejected += _entities(text, sentence, sentence.rejected)
    entities.sort(key=lambda entity: (entity.start, entity.end, entity.label))
    return Document(
        name or sentences[0].id,
        text,
        tuple(entities),
        tuple(sentences),
        held_out=bool(held_out),
        rejected=tuple(rejected),
    )


def _entities(text: str, sentence: Sentence, spans: Iterable[Span]) -> Iterator[Entity]:
    assert sentence.offsets is not None
    for first, behind, label in spans:
        start, end = sentence.offsets[first][0], sentence.offsets[behind - 1][1]
        yield Entity(start, end, label, text[start:end])


def _with_plain_ids(found: Iterable[Document]) -> Iterator[Document]:
    """The documents with unique ids that every format can hold."""
    used: set[str] = set()
    for document in found:
        plain = _ODD.sub("_", document.id).strip("._") or "document"
        numbered = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        name = next(name for name in numbered if name not in used)
        used.add(name)
        yield replace(document, id=name)
