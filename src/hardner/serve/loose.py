"""Mentions that no run of words of one sentence can stand for: kept in characters, and shown.

They lie within a word ("HER2" in "antiHER2"), go across sentences, or have several pieces. Nothing
can be learnt from a sentence that holds one, as it would teach that there is none.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hardner.serve.database import Database, compact_json, record_event
from hardner.serve.errors import only
from hardner.text import Problem
from hardner.types import Entity

_KEPT = ("is discontinuous", "cuts a token", "crosses the end of a sentence")
TOUCHED = """EXISTS (SELECT 1 FROM loose_pieces WHERE loose_pieces.document = sentences.document
             AND loose_pieces.start < sentences.stop AND sentences.start < loose_pieces.stop)"""
"""Condition on a sentence: it holds a part of such a mention."""


def is_kept(problem: Problem) -> bool:
    """Whether a mention that does not fit the words of a sentence is kept all the same."""
    return problem.reason in _KEPT


def add_loose(
    database: Database, document: int, entities: Iterable[Entity], types: Mapping[str, int]
) -> None:
    rows = (
        (document, types[entity.label], compact_json(entity.ranges), entity.identifier)
        for entity in entities
    )
    database.executemany(
        "INSERT INTO loose_mentions (document, type, pieces, identifier) VALUES (?, ?, ?, ?)", rows
    )


def remove_loose(database: Database, number: int) -> None:
    """Take a mention out; an undo brings it back."""
    rows = database.execute(
        "SELECT document FROM loose_mentions WHERE id = ? AND NOT removed", (number,)
    )
    document = only(rows, f"mention {number}")["document"]
    write_loose(database, number, removed=True)
    before, after = ({"number": number, "removed": removed} for removed in (False, True))
    record_event(database, "loose", document=document, before=before, after=after)


def write_loose(database: Database, number: int, removed: bool) -> None:
    """Remove a mention or bring it back, without an event of its own."""
    values = (removed, number)
    database.execute("UPDATE loose_mentions SET removed = ? WHERE id = ?", values)


def show_loose_text(database: Database, number: int) -> str:
    """The words of a mention, with dots where it is interrupted."""
    (pieces, text) = database.execute(
        """SELECT pieces, text FROM loose_mentions JOIN documents ON documents.id = document
           WHERE loose_mentions.id = ?""",
        (number,),
    ).fetchone()
    return " … ".join(text[start:end] for start, end in json.loads(pieces))


def loose_entities(
    database: Database, document: int, text: str, names: Mapping[int, str]
) -> list[Entity]:
    """The loose mentions of a document, whose text this is."""
    rows = database.execute(
        """SELECT type, identifier, json_group_array(json_array(start, stop)) AS pieces
           FROM loose_pieces WHERE document = ? GROUP BY id ORDER BY id""",
        (document,),
    )
    found = []
    for row in rows:
        pieces = sorted((start, end) for start, end in json.loads(row["pieces"]))
        words = " ".join(text[start:end] for start, end in pieces)
        fragments = tuple(pieces) if len(pieces) > 1 else ()
        ends, label = (pieces[0][0], pieces[-1][1]), names[row["type"]]
        found.append(Entity(*ends, label, words, 1.0, fragments, row["identifier"]))
    return found


def show_loose(
    database: Database, sentences: Sequence[sqlite3.Row], tokens: Mapping[int, Sequence[int]]
) -> dict[int, list[dict[str, Any]]]:
    """The loose mentions of sentences as the page gets them: their letters, and why they are loose.

    Args:
        sentences: Their rows.
        tokens: The starts and ends of the words of each, from the sentence's start.
    """
    rows = database.execute(
        """SELECT sentences.id AS sentence, loose_pieces.*, sentences.start AS left,
               min(loose_pieces.stop, sentences.stop) - sentences.start AS until,
               loose_pieces.start < sentences.start OR loose_pieces.stop > sentences.stop AS over
           FROM json_each(?) CROSS JOIN sentences ON sentences.id = value
           CROSS JOIN loose_pieces ON loose_pieces.document = sentences.document
               AND loose_pieces.start < sentences.stop AND sentences.start < loose_pieces.stop
           ORDER BY loose_pieces.id, loose_pieces.start""",
        (json.dumps([row["id"] for row in sentences]),),
    )
    found: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        flat = tokens[row["sentence"]]
        first, behind = row["start"] - row["left"], row["until"]
        letters = [
            [at, max(first, start) - start, min(behind, end) - start]
            for at, (start, end) in enumerate(zip(flat[::2], flat[1::2], strict=True))
            if start < behind and first < end
        ]
        why = "in pieces" if row["pieces"] > 1 else "across" if row["over"] else "within a word"
        new = {"id": row["id"], "type": row["type"], "why": why, "letters": []}
        found[row["sentence"]].setdefault(row["id"], new)["letters"] += letters
    return {sentence: [*own.values()] for sentence, own in found.items()}


def count_loose(database: Database) -> dict[str, int]:
    """How many lie in documents that are learnt from, and in how many labelled sentences."""
    shown = "documents JOIN {0} ON {0}.document = documents.id WHERE NOT removed AND NOT held_out"
    (mentions,) = database.execute(
        f"SELECT count(DISTINCT loose_pieces.id) FROM {shown.format('loose_pieces')}"
    ).fetchone()
    if not mentions:
        return {"mentions": 0, "sentences": 0}
    (sentences,) = database.execute(
        f"SELECT count(*) FROM {shown.format('sentences')} AND state <> 'open' AND {TOUCHED}"
    ).fetchone()
    return {"mentions": mentions, "sentences": sentences}
