"""Review: candidates for mentions one by one, by what is asked for, and many accepted at once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hardner.serve.database import Database
from hardner.serve.labels import SentenceLabels, set_many
from hardner.serve.mention_types import find_type, type_numbers
from hardner.serve.models import current_model
from hardner.serve.occurrences import (
    find_occurrences,
    labelled_words,
    snippet,
    words_at,
)
from hardner.serve.readings import Mark, as_read, clashes
from hardner.serve.sentences import (
    PARTLY,
    find_sentences,
    show_sentences,
    token_offsets,
)

STATES_TO_REVIEW = {
    "any": "1",
    "open": "(state = 'open' AND spans = '[]' AND rejected = '[]')",
    "partial": PARTLY,
    "done": "state <> 'open'",
}
"""Conditions on the sentence of a candidate."""


class ReviewCandidate(NamedTuple):
    """What may be a mention, or no longer be one."""

    sentence: int
    mark: Mark
    score: float | None = None
    kind: str = "missing"
    """``missing`` where the labels lack it, ``extra`` where the model does not find a label."""


@dataclass(frozen=True)
class ReviewQuestion:
    """Which candidates are to be looked at, and in which order."""

    source: str
    types: frozenset[int] = frozenset()
    """Empty for all."""
    low: float = 0.0
    high: float = 1.0
    state: str = "any"
    words: str = ""
    """A query of the full-text search that their document has to match."""
    order: str = "surest"

    @property
    def where(self) -> str:
        """The condition on sentences."""
        query = "document IN (SELECT rowid FROM words WHERE words MATCH :words)"
        return f"{STATES_TO_REVIEW[self.state]} AND {query if self.words else '1'}"


def find_candidates(
    database: Database, asked: ReviewQuestion, skip: frozenset[tuple[int, Mark]] = frozenset()
) -> list[ReviewCandidate]:
    """All candidates in the order that is asked for, but those to be skipped."""
    found = [
        one
        for one in SOURCES[asked.source](database, asked)
        if (not asked.types or one.mark[2] in asked.types)
        and (one.score is None or asked.low <= one.score <= asked.high)
        and (one.sentence, one.mark) not in skip
    ]
    return sorted(found, key=ORDERS[asked.order])


ORDERS: dict[str, Callable[[ReviewCandidate], Any]] = {
    "surest": lambda one: (-(one.score or 0.0), one.sentence, one.mark),
    "least sure": lambda one: (abs((one.score or 0.5) - 0.5), one.sentence, one.mark),
    "as in the text": lambda one: (one.sentence, one.mark),
}


def _predicted(
    database: Database, asked: ReviewQuestion, which: str
) -> Iterator[tuple[Any, list[Any]]]:
    """Sentences with predictions in the project's types: ``[start, end, type, score]``."""
    types = type_numbers(database)
    rows = database.execute(
        f"""SELECT sentences.id, state, spans, rejected, found
            FROM (SELECT sentence, spans AS found, suggested, disagrees FROM current_predictions)
            CROSS JOIN sentences ON sentences.id = sentence
            CROSS JOIN documents ON documents.id = document
            WHERE NOT removed AND {which} AND {asked.where}""",
        {"words": asked.words},
    )
    for row in rows:
        own = json.loads(row["found"])
        yield row, [(s, e, types[label], score) for s, e, label, score in own if label in types]


def _suggestions(database: Database, asked: ReviewQuestion) -> Iterator[ReviewCandidate]:
    """What the model finds and nobody has answered; done and held-out sentences are not asked."""
    for row, found in _predicted(database, asked, "suggested AND NOT held_out"):
        answered = {tuple(m) for m in json.loads(row["spans"]) + json.loads(row["rejected"])}
        for start, end, number, score in found:
            if (start, end, number) not in answered:
                yield ReviewCandidate(row["id"], (start, end, number), score)


def _model_differences(database: Database, asked: ReviewQuestion) -> Iterator[ReviewCandidate]:
    """Where model and labels of done sentences differ, in the types that the model knows."""
    model = current_model(database)
    known = {n for name, n in type_numbers(database).items() if model and name in model["labels"]}
    for row, found in _predicted(database, asked, "disagrees"):
        labels = {tuple(mark) for mark in json.loads(row["spans"])}
        rejected = {tuple(mark) for mark in json.loads(row["rejected"])}
        for start, end, number, score in found:
            if (mark := (start, end, number)) not in labels | rejected:
                yield ReviewCandidate(row["id"], mark, score)
        marks = {(start, end, number) for start, end, number, _ in found}
        for start, end, number in sorted(labels - marks):
            if number in known:
                yield ReviewCandidate(row["id"], (start, end, number), None, "extra")


def _matches(database: Database, asked: ReviewQuestion) -> Iterator[ReviewCandidate]:
    """The words of labels where they stand without an answer."""
    wanted = labelled_words(database)
    if asked.types:
        wanted = {
            words: {n: score for n, score in shares.items() if n in asked.types}
            for words, shares in wanted.items()
        }
    where = f"NOT held_out AND {asked.where}"
    for one in find_occurrences(database, wanted, where, {"words": asked.words}):
        yield ReviewCandidate(*one)


SOURCES: dict[str, Callable[[Database, ReviewQuestion], Iterator[ReviewCandidate]]] = {
    "suggestions": _suggestions,
    "differences": _model_differences,
    "matches": _matches,
}
"""Where candidates come from; differences between annotators would be one more."""


def show_candidates(database: Database, found: Sequence[ReviewCandidate]) -> dict[str, Any]:
    """Candidates with their sentences and the texts around these."""
    rows = find_sentences(database, list(dict.fromkeys(one.sentence for one in found)))
    return {
        "candidates": [_as_json(one) for one in found],
        "sentences": show_sentences(database, rows),
        "around": _neighbours(database, [row["id"] for row in rows]),
    }


def list_candidates(database: Database, found: Sequence[ReviewCandidate]) -> list[dict[str, Any]]:
    """Candidates as lines of a list."""
    rows = {row["id"]: row for row in find_sentences(database, [one.sentence for one in found])}
    shown = []
    for one in found:
        row = rows[one.sentence]
        offsets = token_offsets(row)
        start, end = offsets[one.mark[0]][0], offsets[one.mark[1] - 1][1]
        shown.append({**_as_json(one), "name": row["name"], **snippet(row["text"], start, end)})
    return shown


def _as_json(one: ReviewCandidate) -> dict[str, Any]:
    start, end, number = one.mark
    place = {"sentence": one.sentence, "start": start, "end": end, "type": number}
    return {**place, "score": one.score, "kind": one.kind}


def _neighbours(database: Database, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The name of the document of each sentence, and the texts before and after it."""
    around = "substr(documents.text, {0}.start + 1, {0}.stop - {0}.start)"
    beside = "{0}.document = own.document AND {0}.position = own.position"
    rows = database.execute(
        f"""SELECT own.id, name, {around.format("one")} AS before, {around.format("two")} AS after
            FROM json_each(?) CROSS JOIN sentences AS own ON own.id = value
            JOIN documents ON documents.id = own.document
            LEFT JOIN sentences AS one ON {beside.format("one")} - 1
            LEFT JOIN sentences AS two ON {beside.format("two")} + 1""",
        (json.dumps([*numbers]),),
    )
    return {
        row["id"]: {name: row[name] or "" for name in ("name", "before", "after")} for row in rows
    }


def find_same_words(
    database: Database, sentence: int, start: int, end: int, number: int
) -> list[ReviewCandidate]:
    """Where else in the project the words of a span stand, to be labelled as it."""
    find_type(database, number)
    words = words_at(database, sentence, start, end)
    wanted = {words: {number: 1.0}} if words else {}
    return [ReviewCandidate(*one) for one in find_occurrences(database, wanted)]


def accept_all(database: Database, wanted: Mapping[int, Sequence[Mark]]) -> dict[str, int]:
    """Label spans of many sentences as one change; those that an answer stands against are not.

    A sentence that was not done is partly reviewed then, as nobody has looked at the rest of it.
    """
    rows = as_read(database, find_sentences(database, [*wanted]))
    changed, accepted = {}, 0
    for row in rows:
        labels, new = SentenceLabels.of_row(row), list[Mark]()
        for mark in wanted[row["id"]]:
            if not clashes(mark, [*labels.spans, *new]):
                new.append(mark)
        if new:
            accepted += len(new)
            changed[row["id"]] = SentenceLabels(
                tuple(sorted((*labels.spans, *new))),
                none=False,
                rejected=tuple(mark for mark in labels.rejected if mark not in new),
                partial=labels.state == "open",
            )
    set_many(database, changed)
    return {"accepted": accepted, "left": sum(map(len, wanted.values())) - accepted}
