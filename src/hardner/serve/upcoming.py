"""What to label next: the hardest sentences, each with the reason."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hardner.serve import documents, engine, labels, mention_types, views
from hardner.serve.flags import current
from hardner.serve.store import Database
from hardner.serve.worker import Loaded
from hardner.text import sentences as sentences_of
from hardner.types import Document, Sentence

if TYPE_CHECKING:
    from hardner.tag.suggest import Suggestion

CANDIDATES = 100
"""Sentences that are looked at closely, by what a first look says of them."""
SPARE = 3
"""How many more are asked for than wanted, so that there is a choice of order."""


def candidates(database: Database, skip: Sequence[int]) -> list[Sentence]:
    """The open sentences that are hardest at first sight, then any that were not looked at yet."""
    rows = database.execute(
        """SELECT sentences.id FROM documents JOIN sentences ON document = documents.id
           LEFT JOIN predictions ON sentence = sentences.id AND model = ?
           WHERE NOT removed AND NOT held_out AND state = 'open'
           AND sentences.id NOT IN (SELECT value FROM json_each(?))
           ORDER BY worth DESC LIMIT ?""",
        (current(database), json.dumps([*skip]), CANDIDATES),
    )
    return documents.bare(database, [row["id"] for row in rows])


def chosen(
    loaded: Loaded,
    found: Sequence[Sentence],
    known: Sequence[Sentence],
    n: int,
    label: str | None,
) -> "list[Suggestion]":
    """The best of them, none right behind another of the same mention."""
    if not found:
        return []
    wide = engine.hardest(loaded.model, found, SPARE * n, known, label)
    return apart(wide, last=_mentions(known[-1]) if known else set())[:n]


def apart(suggested: "Sequence[Suggestion]", last: set[str]) -> "list[Suggestion]":
    """The suggestions in their order, but for those that would repeat the mention before them.

    Such a one waits until another has been in between; those that never can are left out.
    """
    waiting, order = list(suggested), []
    while waiting:
        for place, one in enumerate(waiting):
            own = mentions_of(one)
            if own.isdisjoint(last):
                order.append(waiting.pop(place))
                last = own
                break
        else:
            break
    return order


def mentions_of(suggested: "Suggestion") -> set[str]:
    """The most doubtful possible mention, as written but for case."""
    words = suggested.sentence.tokens
    return {" ".join(words[s.start : s.end]).lower() for s, _ in suggested.uncertain[:1]}


def _mentions(sentence: Sentence) -> set[str]:
    return {" ".join(sentence.tokens[s.start : s.end]).lower() for s in sentence.spans}


def shown(database: Database, suggested: "Sequence[Suggestion]") -> list[dict[str, Any]]:
    """The suggestions with their sentences as the project has them now."""
    rows = documents.sentences_of(database, [int(one.sentence.id) for one in suggested])
    held = {sentence["id"]: sentence for sentence in views.sentences(database, rows)}
    types = mention_types.numbers(database)
    return [
        {
            "sentence": held[int(one.sentence.id)],
            "hardness": one.hardness,
            "reason": one.reason,
            "uncertain": [
                {
                    "start": span.start,
                    "end": span.end,
                    "label": span.label,
                    "type": types.get(span.label),
                    "score": round(score, 4),
                }
                for span, score in one.uncertain
            ],
        }
        for one in suggested
        if int(one.sentence.id) in held
    ]


def of_texts(texts: Sequence[str]) -> list[Sentence]:
    """The sentences of texts, each named by the place of its text."""
    return [
        Sentence(sentence.tokens, (), str(place), sentence.offsets)
        for place, text in enumerate(texts)
        for sentence in sentences_of(Document(str(place), text))
    ]


def in_texts(texts: Sequence[str], suggested: "list[Suggestion]") -> list[dict[str, Any]]:
    """The suggestions in characters of their texts."""
    found = []
    for one in suggested:
        offsets, text = one.sentence.offsets, texts[int(one.sentence.id)]
        assert offsets is not None
        start, end = offsets[0][0], offsets[-1][1]
        uncertain = [
            {
                "start": offsets[span.start][0],
                "end": offsets[span.end - 1][1],
                "label": span.label,
                "text": text[offsets[span.start][0] : offsets[span.end - 1][1]],
                "score": round(score, 4),
            }
            for span, score in one.uncertain
        ]
        found.append(
            {
                "index": int(one.sentence.id),
                "start": start,
                "end": end,
                "text": text[start:end],
                "hardness": one.hardness,
                "reason": one.reason,
                "uncertain": uncertain,
            }
        )
    return found


def recent(database: Database) -> list[Sentence]:
    """The labelled sentences, that changed last at the end."""
    found = labels.learnt(database, held_out=False)
    rows = database.execute(
        "SELECT sentence, max(id) AS last FROM events WHERE sentence IS NOT NULL GROUP BY sentence"
    )
    last = {str(row["sentence"]): row["last"] for row in rows}
    return sorted(found, key=lambda sentence: last.get(sentence.id, 0))
