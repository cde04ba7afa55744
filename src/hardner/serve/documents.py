"""The documents of a project: cut into sentences, added, listed, searched, changed, removed."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hardner.schemes import non_overlapping
from hardner.serve.database import Database, compact_json, record_event
from hardner.serve.errors import only
from hardner.serve.loose import add_loose, is_kept
from hardner.serve.mention_types import ensure_types, type_numbers
from hardner.serve.sentences import PARTLY
from hardner.text import Problem, sentences
from hardner.types import Document, Entity, Sentence, Span

_LONGEST = 400  # tokens of a sentence; a longer one is shown and labelled in parts
_WORD = re.compile(r"\w+")
HAS_LABELS = "EXISTS (SELECT 1 FROM sentences WHERE document = documents.id AND state <> 'open')"
"""Condition on a document: a sentence of it is labelled, or marked as holding no mention."""
HAS_PARTIAL = f"documents.id IN (SELECT document FROM sentences WHERE {PARTLY})"
"""Condition on a document: a sentence of it is partly reviewed."""
HAS_LOOSE = "documents.id IN (SELECT document FROM loose_pieces)"
"""Condition on a document: a mention of it does not fit the words of a sentence."""
# CROSS JOIN keeps SQLite to this order of the tables, in which the indexes serve.
_PREDICTED = """id IN (SELECT document FROM current_predictions CROSS JOIN sentences
                ON sentences.id = sentence WHERE {})"""
_FILTERS = {
    "all": "1",
    "labelled": HAS_LABELS,
    "unlabelled": f"NOT {HAS_LABELS}",
    "partial": HAS_PARTIAL,
    "suggested": _PREDICTED.format("suggested"),
    "disagreeing": _PREDICTED.format("disagrees"),
    "held_out": "held_out",
    "unread": """EXISTS (SELECT 1 FROM sentences WHERE document = documents.id
        AND NOT EXISTS (SELECT 1 FROM readings WHERE sentence = sentences.id
                        AND annotator = :annotator AND readings.state <> 'open'))""",
}


def prepare_document(document: Document, labelled: bool = False) -> tuple[Document, list[str]]:
    """Split a document into sentences, align its mentions to their tokens, and warn of losses.

    Of its entities, those stay that no tokens of one sentence can stand for.

    Sentences without a label hold no mention if the document is labelled, as it is with mentions;
    otherwise they are open. A sentence that says itself how far it was labelled is believed.
    """
    if any(sentence.offsets is None for sentence in document.sentences):
        document = replace(document, sentences=())
    warnings: list[str] = []

    loose: list[Entity] = []

    def apart(problem: Problem) -> None:
        if is_kept(problem):
            loose.append(problem.entity)
        else:
            warnings.append(f"{document.id}: {problem.entity.text!r} {problem.reason}; left out")

    held: list[Sentence] = []
    own = sentences(document, apart)
    if own is document.sentences:  # what their spans do not stand for is kept all the same
        bare = tuple(replace(sentence, spans=(), rejected=()) for sentence in own)
        sentences(replace(document, sentences=bare, rejected=()), apart)
    for sentence in own:
        kept = _longest_of_each_label(sentence.spans)
        if count := len(sentence.spans) - len(kept):
            warnings.append(f"{sentence.id}: {count} within another of its type; left out")
        held += _cut(replace(sentence, spans=kept))
    state = "done" if labelled or any(sentence.spans for sentence in held) else "open"
    stated = tuple(replace(one, state=one.state or state) for one in held)
    return replace(document, entities=tuple(loose), sentences=stated), warnings


def _longest_of_each_label(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans without those that overlap a longer one of their label."""
    longest = non_overlapping(sorted(spans), lambda s: s.start - s.end, lambda s: [s.label])
    return tuple(longest)


def _cut(sentence: Sentence) -> Iterator[Sentence]:
    """The sentence in parts of at most `_LONGEST` tokens, cut outside its mentions."""
    assert sentence.offsets is not None
    start = 0
    while start < len(sentence):
        end = longest = min(len(sentence), start + _LONGEST)
        while crossing := [s.start for s in sentence.spans if s.start < end < s.end]:
            end = min(crossing)
            if end <= start:  # one mention fills the part: cut it, too
                end = longest
                break
        spans = tuple(
            Span(s.start - start, min(s.end, end) - start, s.label)
            for s in sentence.spans
            if start <= s.start < end
        )
        rejected = tuple(
            Span(s.start - start, s.end - start, s.label)
            for s in sentence.rejected
            if start <= s.start and s.end <= end
        )
        tokens, offsets = sentence.tokens[start:end], sentence.offsets[start:end]
        yield Sentence(tokens, spans, sentence.id, offsets, sentence.state, rejected)
        start = end


def add_documents(
    database: Database, prepared: Sequence[Document], held_out: bool
) -> dict[str, Any]:
    """Add prepared documents, at least one, with their labels; returns what was added."""
    every = [sentence for document in prepared for sentence in document.sentences]
    labels = {s.label for one in every for s in (*one.spans, *one.rejected)}
    labels |= {entity.label for document in prepared for entity in document.entities}
    new_types = ensure_types(database, sorted(labels))
    types = type_numbers(database)
    (last,) = database.execute("SELECT coalesce(max(id), 0) FROM documents").fetchone()
    for number, document in enumerate(prepared, last + 1):
        name = document.id or f"document-{number}"
        database.execute(
            "INSERT INTO documents (id, name, text, held_out) VALUES (?, ?, ?, ?)",
            (number, name, document.text, held_out or document.held_out),
        )
        database.executemany(
            """INSERT INTO sentences
               (document, position, start, stop, tokens, state, spans, rejected)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                (number, position, *_sentence_row(sentence, types))
                for position, sentence in enumerate(document.sentences)
            ),
        )
        add_loose(database, number, document.entities, types)
    database.execute(
        """INSERT INTO readings (sentence, annotator, state, spans, rejected)
           SELECT id, ?, state, spans, rejected FROM sentences
           WHERE document > ? AND (state <> 'open' OR spans <> '[]')""",
        (database.annotator, last),
    )
    record_event(database, "add", document=last + 1, after={"documents": len(prepared)})
    return {
        "added": len(prepared),
        "first": last + 1,
        "last": last + len(prepared),
        "sentences": len(every),
        "labelled": sum(sentence.is_done for sentence in every),
        "mentions": sum(len(sentence.spans) for sentence in every)
        + sum(len(document.entities) for document in prepared),
        "types": new_types,
    }


def _sentence_row(sentence: Sentence, types: dict[str, int]) -> tuple[int | str, ...]:
    """The columns start, stop, tokens, state, spans and rejected."""
    assert sentence.offsets
    start, stop = sentence.offsets[0][0], sentence.offsets[-1][1]
    tokens = [edge - start for offset in sentence.offsets for edge in offset]
    marks, barred = (
        sorted((span.start, span.end, types[span.label]) for span in spans)
        for spans in (sentence.spans, sentence.rejected)
    )
    state = "open" if not sentence.is_done else "labelled" if marks else "none"
    lists = (compact_json(marks), compact_json(barred))
    return start, stop, compact_json(tokens), state, *lists


def full_text_query(words: str) -> str:
    """What the full-text search understands; empty where there is no word in it."""
    # Quoted, words are no operators of the full-text search; the star matches beginnings.
    return " ".join(f'"{word}"*' for word in _WORD.findall(words))


def list_documents(
    database: Database, query: str, which: str, after: int, offset: int, limit: int
) -> dict[str, Any]:
    """A page of the documents, in the order they were added, and how many there are."""
    where = f"NOT removed AND {_FILTERS[which]}"
    values: dict[str, Any] = {"after": after, "offset": offset, "limit": limit}
    if which == "unread":
        values["annotator"] = database.annotator
    if query.strip():
        values["words"] = full_text_query(query)
        if not values["words"]:
            return {"total": 0, "documents": [], "next": None}
        where += " AND id IN (SELECT rowid FROM words WHERE words MATCH :words)"
    (total,) = database.execute(f"SELECT count(*) FROM documents WHERE {where}", values).fetchone()
    rows = database.execute(
        f"""SELECT * FROM document_rows AS documents WHERE {where} AND id > :after
            ORDER BY id LIMIT :limit OFFSET :offset""",
        values,
    )
    found = [_as_json(row) for row in rows]
    following = found[-1]["id"] if len(found) == limit else None
    return {"total": total, "documents": found, "next": following}


def _as_json(row: sqlite3.Row) -> dict[str, Any]:
    shown = {**dict(row), "held_out": bool(row["held_out"])}
    del shown["removed"]
    return shown


def find_document(database: Database, number: int) -> dict[str, Any]:
    rows = database.execute("SELECT * FROM document_rows WHERE NOT removed AND id = ?", (number,))
    return _as_json(only(rows, f"document {number}"))


def document_text(database: Database, number: int) -> str:
    return str(_row(database, number)["text"])


def _row(database: Database, number: int) -> sqlite3.Row:
    rows = database.execute("SELECT * FROM documents WHERE NOT removed AND id = ?", (number,))
    found: sqlite3.Row = only(rows, f"document {number}")
    return found


def change_document(
    database: Database, number: int, after: Mapping[str, Any], kind: str = "document"
) -> int:
    """Set a document's name, or whether it is held out or removed; returns the event."""
    row = _row(database, number)
    set_document(database, number, after)
    before = {column: row[column] for column in after}
    return record_event(database, kind, document=number, before=before, after=after)


def set_document(database: Database, number: int, columns: Mapping[str, Any]) -> None:
    """Set columns of a document that is there or was removed."""
    for column, value in columns.items():
        database.execute(f"UPDATE documents SET {column} = ? WHERE id = ?", (value, number))
