"""How far annotators agree on the sentences that two of them have read to their end."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from hardner.serve.database import Database
from hardner.serve.mention_types import type_numbers
from hardner.serve.readings import Mark, Reading, annotator_names, as_reading


class _Pair(NamedTuple):
    """A sentence as two have read it."""

    tokens: int
    one: Reading
    other: Reading


def kappa(one: Sequence[Hashable], other: Sequence[Hashable]) -> float | None:
    """Cohen's kappa: (observed - expected agreement) / (1 - expected), None where that is 0 / 0."""
    if not one:
        return None
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / len(one)
    chosen = set(one) | set(other)
    expected = sum(one.count(c) * other.count(c) for c in chosen) / len(one) ** 2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def agreement(database: Database) -> list[dict[str, Any]]:
    """Of each pair of annotators: F1 and kappa for each type and over all.

    F1 is that of mentions with the same ends and type, for which it does not matter who is taken
    as right. Kappa compares tokens: inside a mention of the type or not, and over all types, of
    which types.
    """
    names, found = annotator_names(database), []
    for (one, other), pairs in sorted(_pairs(database).items()):
        marked = {mark[2] for pair in pairs for r in pair[1:] for mark in r.spans}
        types = [_compare(pairs, {t}) | {"type": t} for t in sorted(marked)]
        about = {"one": names[one], "other": names[other], "sentences": len(pairs)}
        found.append({**about, **_compare(pairs, marked), "types": types})
    return found


def _pairs(database: Database) -> dict[tuple[int, int], list[_Pair]]:
    rows = database.execute(
        """SELECT readings.*, json_array_length(tokens) / 2 AS length FROM readings
           JOIN sentences ON sentences.id = sentence JOIN documents ON documents.id = document
           WHERE NOT removed AND readings.state <> 'open' AND sentence IN (
               SELECT sentence FROM readings WHERE state <> 'open'
               GROUP BY sentence HAVING count(*) > 1)
           ORDER BY sentence, annotator"""
    )
    types = frozenset(type_numbers(database).values())
    read: dict[int, list[tuple[int, Reading]]] = defaultdict(list)
    for row in rows:
        if (reading := as_reading(row, types)).state != "open":
            read[row["sentence"]].append((row["length"], reading))
    pairs: dict[tuple[int, int], list[_Pair]] = defaultdict(list)
    for readings in read.values():
        for (tokens, one), (_, other) in combinations(readings, 2):
            pairs[one.annotator, other.annotator].append(_Pair(tokens, one, other))
    return pairs


def _compare(pairs: Sequence[_Pair], types: set[int]) -> dict[str, Any]:
    both = marks = 0
    ours: list[frozenset[int]] = []
    theirs: list[frozenset[int]] = []
    for tokens, one, other in pairs:
        a, b = ({mark for mark in side.spans if mark[2] in types} for side in (one, other))
        both, marks = both + len(a & b), marks + len(a) + len(b)
        ours += _inside(tokens, a)
        theirs += _inside(tokens, b)
    f1 = 2 * both / marks if marks else None
    return {"both": both, "differ": marks - 2 * both, "f1": f1, "kappa": kappa(ours, theirs)}


def _inside(tokens: int, marks: Collection[Mark]) -> Iterator[frozenset[int]]:
    """Of each token, the types of the mentions that it is part of."""
    for at in range(tokens):
        yield frozenset(kind for start, stop, kind in marks if start <= at < stop)


def list_people(database: Database) -> list[dict[str, Any]]:
    """The annotators, how much each has read and labelled, and when they were last at it."""
    rows = database.execute(
        """SELECT annotators.id, name,
                  (SELECT count(*) FROM readings JOIN sentences ON sentences.id = sentence
                   JOIN documents ON documents.id = document
                   WHERE annotator = annotators.id AND readings.state <> 'open' AND NOT removed)
                      AS sentences,
                  (SELECT coalesce(sum(json_array_length(readings.spans)), 0) FROM readings
                   JOIN sentences ON sentences.id = sentence
                   JOIN documents ON documents.id = document
                   WHERE annotator = annotators.id AND NOT removed) AS mentions,
                  (SELECT at FROM events WHERE annotator = annotators.id ORDER BY id DESC LIMIT 1)
                      AS last
           FROM annotators ORDER BY annotators.id"""
    )
    return [dict(row) for row in rows]
