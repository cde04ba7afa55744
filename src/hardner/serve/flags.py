"""What the current model finds in the sentences, and how that compares with the labels."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hardner.serve import mention_types
from hardner.serve.store import Database
from hardner.types import Span


class Found(NamedTuple):
    """What a model says of a sentence."""

    sentence: int
    spans: Sequence[tuple[Span, float]]
    hardness: float
    worth: float
    """The hardness, made comparable between lengths."""


def keep(database: Database, model: int, found: Iterable[Found]) -> None:
    """Stores what a model found, unless it is no longer the current one."""
    if current(database) != model:
        return
    held = list(found)
    database.executemany(
        """INSERT INTO predictions VALUES (?, ?, ?, ?, ?, 0, 0)
           ON CONFLICT (sentence) DO UPDATE SET model = excluded.model, spans = excluded.spans,
               hardness = excluded.hardness, worth = excluded.worth""",
        ((one.sentence, model, _dump(one.spans), one.hardness, one.worth) for one in held),
    )
    refresh(database, [one.sentence for one in held])


def _dump(spans: Sequence[tuple[Span, float]]) -> str:
    rows = [[span.start, span.end, span.label, round(score, 4)] for span, score in spans]
    return json.dumps(rows, separators=(",", ":"))


def current(database: Database) -> int | None:
    """The number of the model in use."""
    row = database.execute("SELECT id FROM models WHERE current").fetchone()
    return row["id"] if row else None


def refresh(database: Database, sentences: Sequence[int]) -> None:
    """Compares the labels of these sentences and what the model finds in them anew."""
    _compare(database, "sentence IN (SELECT value FROM json_each(?))", json.dumps([*sentences]))


def refresh_type(database: Database, *names: str) -> None:
    """The same of all sentences that a new, changed or removed type may matter to."""
    for name in names:
        _compare(database, "(instr(predictions.spans, ?) OR state <> 'open')", json.dumps(name))


def _compare(database: Database, which: str, value: str) -> None:
    rows = database.execute(
        f"""SELECT sentence, state, sentences.spans, rejected, predictions.spans AS found, labels
            FROM predictions CROSS JOIN sentences ON sentences.id = sentence
            CROSS JOIN models ON models.id = +model WHERE models.current AND {which}""",
        (value,),
    ).fetchall()
    types = mention_types.numbers(database)
    flags = []
    for row in rows:
        found = set(marks(row["found"], types))
        if row["state"] == "open":
            rejected = {tuple(mark) for mark in json.loads(row["rejected"])}
            flags.append((bool(found - rejected), False, row["sentence"]))
        else:
            known = {types[label] for label in json.loads(row["labels"]) if label in types}
            right = {tuple(mark) for mark in json.loads(row["spans"]) if mark[2] in known}
            flags.append((False, found != right, row["sentence"]))
    database.executemany(
        "UPDATE predictions SET suggested = ?, disagrees = ? WHERE sentence = ?", flags
    )


def marks(found: str, types: dict[str, int]) -> list[tuple[int, int, int]]:
    """What was found, as far as it is of a type of the project."""
    return [(start, end, types[n]) for start, end, n, _ in json.loads(found) if n in types]
