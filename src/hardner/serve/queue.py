"""What to label next: the hardest sentences of the project or of texts, each with the reason."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hardner.serve.database import Database
from hardner.serve.labels import labelled_sentences
from hardner.serve.mention_types import type_numbers
from hardner.serve.model_thread import LoadedModel
from hardner.serve.models import current_model_number
from hardner.serve.sentences import find_sentences, show_sentences, to_sentence
from hardner.text import sentences
from hardner.types import Document, Sentence, Span

if TYPE_CHECKING:
    from hardner.tag.suggest import Suggestion

_CANDIDATES = 100  # sentences looked at closely, chosen by their stored predictions
_SURE = 0.95  # the score from which on a mention is not in doubt
_SPARE = 3  # how many times more are asked for than wanted, to have a choice of order

Ranking = Callable[[LoadedModel], "list[Suggestion]"]
"""Work for the model thread."""


def rank_open_sentences(database: Database, n: int, skip: Sequence[int]) -> Ranking:
    """How to choose the sentences of the project to label next."""
    # Sentences without a prediction yet have no worth, so they come last.
    rows = database.execute(
        """SELECT sentences.id FROM documents JOIN sentences ON document = documents.id
           LEFT JOIN predictions ON sentence = sentences.id AND model = ?
           WHERE NOT removed AND NOT held_out AND state = 'open'
           AND sentences.id NOT IN (SELECT value FROM json_each(?))
           ORDER BY worth DESC LIMIT ?""",
        (current_model_number(database), json.dumps([*skip]), _CANDIDATES),
    )
    found = find_sentences(database, [row["id"] for row in rows])
    candidates = [to_sentence(row) for row in found]
    known, types = _latest_last(database), tuple(type_numbers(database))
    return lambda loaded: _rank(loaded, candidates, known, n, types)


def rank_text_sentences(texts: Sequence[str], n: int) -> Ranking:
    """How to choose the sentences of texts to label next; each is named by its text's index."""
    candidates = [
        Sentence(sentence.tokens, (), str(index), sentence.offsets)
        for index, text in enumerate(texts)
        for sentence in sentences(Document(str(index), text))
    ]
    return lambda loaded: _rank(loaded, candidates, (), n, ())


def _latest_last(database: Database) -> list[Sentence]:
    """The labelled sentences, the one that was labelled last at the end."""
    rows = database.execute(
        "SELECT sentence, max(id) AS last FROM events WHERE sentence IS NOT NULL GROUP BY sentence"
    )
    last = {str(row["sentence"]): row["last"] for row in rows}
    found = labelled_sentences(database, held_out=False)
    return sorted(found, key=lambda sentence: last.get(sentence.id, 0))


def _rank(
    loaded: LoadedModel,
    candidates: Sequence[Sentence],
    known: Sequence[Sentence],
    n: int,
    types: Sequence[str],
) -> "list[Suggestion]":
    if not candidates:
        return []
    from hardner.tag.suggest import suggest_sentences  # torch: the server starts before it is there

    found = suggest_sentences(loaded.model, candidates, _SPARE * n, label=types, known=known)
    last = _mentions(known[-1], known[-1].spans) if known else set()
    chosen = spread_mentions(found, last)[:n]
    return spread_mentions(sorted(chosen, key=lambda one: -one.hardness), last)


def spread_mentions(suggested: "Sequence[Suggestion]", last: set[str]) -> "list[Suggestion]":
    """The suggestions in their order, but never one mention twice in a row.

    A suggestion that would repeat a mention waits until another has been in between; those that
    never can are left out.
    """
    waiting, order = list(suggested), []
    while waiting:
        for place, one in enumerate(waiting):
            own = _mentions(one.sentence, [span for span, _ in one.uncertain[:1]])
            if own.isdisjoint(last):
                order.append(waiting.pop(place))
                last = own
                break
        else:
            break
    return order


def _mentions(sentence: Sentence, spans: Sequence[Span]) -> set[str]:
    return {" ".join(sentence.tokens[span.start : span.end]).lower() for span in spans}


def show_suggestions(database: Database, suggested: "Sequence[Suggestion]") -> list[dict[str, Any]]:
    """Suggestions of the project's sentences, as the page gets them."""
    rows = find_sentences(database, [int(one.sentence.id) for one in suggested])
    held = {sentence["id"]: sentence for sentence in show_sentences(database, rows)}
    types = type_numbers(database)
    return [
        {"sentence": held[number], "hardness": one.hardness, **_doubts(one, types)}
        for one in suggested
        if (number := int(one.sentence.id)) in held  # its document may have been removed meanwhile
    ]


def _doubts(one: "Suggestion", types: Mapping[str, int]) -> dict[str, Any]:
    """What the model is unsure of, each mention once, in the types of the project.

    What it has of other types only may still be a mention: of the project's type if there is one,
    else of an unknown one.
    """
    only = next(iter(types)) if len(types) == 1 else None
    own = [(span, score) for span, score in one.uncertain if span.label in types]
    doubts: dict[str, dict[str, Any]] = {}
    for span, score in own or one.uncertain:
        if score < _SURE:
            label = span.label if span.label in types else only
            (words,) = _mentions(one.sentence, [span])
            doubt = {**span._asdict(), "label": label, "type": types.get(label or "")}
            doubts.setdefault(words, {**doubt, "score": round(score, 4)})
    named = [
        f"‘{' '.join(one.sentence.tokens[doubt['start'] : doubt['end']])}’ "
        f"({doubt['label'] or 'a mention'} {doubt['score']:.0%})"
        for doubt in [*doubts.values()][:2]
    ]
    about = " and ".join(named) or "many words, a little about each"
    return {"reason": f"unsure about {about}", "uncertain": [*doubts.values()]}


def show_text_suggestions(
    texts: Sequence[str], suggested: "Sequence[Suggestion]"
) -> list[dict[str, Any]]:
    """Suggestions of sentences of texts, in characters of these."""
    found = []
    for one in suggested:
        index, sentence = int(one.sentence.id), one.sentence
        text = texts[index]
        uncertain = [
            {**_in_text(text, sentence, *span[:2]), "label": span.label, "score": round(score, 4)}
            for span, score in one.uncertain
        ]
        about = {"hardness": one.hardness, "reason": one.reason, "uncertain": uncertain}
        found.append({"index": index, **_in_text(text, sentence, 0, len(sentence)), **about})
    return found


def _in_text(text: str, sentence: Sentence, first: int, end: int) -> dict[str, Any]:
    assert sentence.offsets is not None
    start, stop = sentence.offsets[first][0], sentence.offsets[end - 1][1]
    return {"start": start, "end": stop, "text": text[start:stop]}
