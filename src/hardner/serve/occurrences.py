"""Mentions by their words: what was said of them so far, and where else the same words stand."""

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hardner.serve.database import Database
from hardner.serve.readings import Mark, clashes
from hardner.serve.sentences import find_sentence, select_sentences, token_offsets

_EXAMPLES = 8
_CONTEXT = 40  # characters on each side of an example
Words = tuple[str, ...]
"""The tokens of a mention in lower case."""


class Occurrence(NamedTuple):
    """Words of a sentence that were labelled elsewhere."""

    sentence: int
    mark: Mark
    score: float
    """The share of the answers to these words, where they were labelled or rejected, that this
    type has."""


def find_occurrences(
    database: Database,
    wanted: Mapping[Words, Mapping[int, float]],
    where: str = "1",
    values: Mapping[str, Any] | None = None,
) -> Iterator[Occurrence]:
    """Where words stand without an answer; those of one type never overlap a label of it.

    Args:
        wanted: The scores of the types, by words.
        where: A condition on sentences.
        values: What stands for the names in it.
    """
    lengths: dict[str, set[int]] = defaultdict(set)
    for words in wanted:
        lengths[words[0]].add(len(words))
    chosen = f"NOT removed AND {where} ORDER BY sentences.id"
    for row in select_sentences(database, chosen, **(values or {})):
        tokens = _lowered(row)
        found = [
            (at, at + length, number, score)
            for at, token in enumerate(tokens)
            for length in sorted(lengths.get(token, ()), reverse=True)
            for number, score in wanted.get(tuple(tokens[at : at + length]), {}).items()
        ]
        if not found:
            continue
        spans: list[Mark] = [(s, e, kind) for s, e, kind in json.loads(row["spans"])]
        rejected = {tuple(mark) for mark in json.loads(row["rejected"])}
        for start, end, number, score in found:
            mark = (start, end, number)
            if mark not in rejected and not clashes(mark, spans):
                spans.append(mark)
                yield Occurrence(row["id"], mark, score)


def labelled_words(database: Database) -> dict[Words, dict[int, float]]:
    """The words of all labels, with the types they were given and the share of each."""
    answers: dict[Words, Counter[int]] = defaultdict(Counter)
    totals: Counter[Words] = Counter()
    where = "NOT removed AND (spans <> '[]' OR rejected <> '[]')"
    for row in select_sentences(database, where):
        tokens = _lowered(row)
        for column in ("spans", "rejected"):
            for start, end, number in json.loads(row[column]):
                words = tuple(tokens[start:end])
                totals[words] += 1
                answers[words][number] += column == "spans"
    return {
        words: {number: n / totals[words] for number, n in counts.items() if n}
        for words, counts in answers.items()
    }


def words_at(database: Database, sentence: int, start: int, end: int) -> Words:
    return tuple(_lowered(find_sentence(database, sentence))[start:end])


def _lowered(row: sqlite3.Row) -> list[str]:
    """The tokens of a sentence in lower case."""
    return [row["text"][start:end].lower() for start, end in token_offsets(row)]


def label_examples(database: Database, number: int) -> list[dict[str, Any]]:
    """The mentions that were labelled most often with a type, each with one place in a text."""
    counts: Counter[str] = Counter()
    places: dict[str, dict[str, Any]] = {}
    of_type = "EXISTS (SELECT 1 FROM json_each(spans) WHERE json_extract(value, '$[2]') = ?)"
    for row in select_sentences(database, f"NOT removed AND {of_type}", number):
        text, offsets = row["text"], token_offsets(row)
        for start, end, kind in json.loads(row["spans"]):
            if kind == number:
                left, right = offsets[start][0], offsets[end - 1][1]
                key = text[left:right].lower()
                counts[key] += 1
                places.setdefault(key, {"sentence": row["id"], **snippet(text, left, right)})
    return [{**places[key], "count": count} for key, count in counts.most_common(_EXAMPLES)]


def snippet(text: str, start: int, end: int) -> dict[str, str]:
    """A mention with the words around it, on one line."""
    before, after = text[:start], text[end:]
    if len(before) > _CONTEXT:
        before = before[-_CONTEXT:].partition(" ")[2]
    if len(after) > _CONTEXT:
        after = after[:_CONTEXT].rpartition(" ")[0]
    parts = {"before": before, "text": text[start:end], "after": after}
    return {name: re.sub(r"\s+", " ", part) for name, part in parts.items()}
