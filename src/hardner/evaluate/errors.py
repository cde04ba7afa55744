"""Error analysis: predictions beside the gold mentions, and the commonest errors in them."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hardner.errors import FileError
from hardner.evaluate.results import Result, json_lines
from hardner.evaluate.score import error_kind
from hardner.files import atomic_write
from hardner.types import Sentence, Span

ErrorKind = Literal["boundary", "type", "missed", "spurious"]
ERROR_KINDS: tuple[ErrorKind, ...] = ("boundary", "type", "missed", "spurious")
_Same = tuple[ErrorKind, tuple[str, ...], tuple[str, ...]]
"""What errors share that are the same: kind, gold and predicted mention with their labels."""
_Error = tuple[ErrorKind, Span | None, Span | None]
"""Kind, gold span and predicted one."""
_CONTEXT_WORDS = 6
"""Shown on each side of an error."""


@dataclass(frozen=True)
class PredictedSentence:
    """A sentence with its gold spans, and the spans that were predicted."""

    sentence: Sentence
    found: tuple[Span, ...]


def write_predictions(
    folder: Path,
    results: Sequence[Result],
    sentences: Sequence[Sentence],
    predictions: Sequence[Sequence[tuple[Span, ...]]],
) -> None:
    """Write a file for each result, a JSON line for each sentence with a gold or predicted span."""
    folder.mkdir(parents=True, exist_ok=True)
    for result, found in zip(results, predictions, strict=True):
        with atomic_write(folder / prediction_file(result)) as file:
            for sentence, spans in zip(sentences, found, strict=True):
                if sentence.spans or spans:
                    line = {"id": sentence.id, "tokens": sentence.tokens, "gold": sentence.spans}
                    file.write(json.dumps(line | {"found": spans}, ensure_ascii=False) + "\n")


def prediction_file(result: Result) -> str:
    """The name of the file with a result's predictions."""
    parts = (
        *(result.protocol, result.method, result.encoder, result.preset, result.corpus),
        *(str(result.size), str(result.sample), result.config),
        *([f"{result.unlabelled}-unlabelled"] if result.unlabelled else []),
    )
    return "_".join(re.sub(r"[^\w.+-]+", "-", part) for part in parts) + ".jsonl.xz"


def read_predictions(path: str | Path) -> Iterator[PredictedSentence]:
    """The sentences of a file of predictions."""
    for number, held in json_lines(path):
        try:
            tokens = tuple(held["tokens"])
            gold, found = (tuple(Span(*span) for span in held[key]) for key in ("gold", "found"))
            fits = all(_fits(span, len(tokens)) for span in (*gold, *found))
        except (KeyError, TypeError):
            fits = False
        if not fits or {type(token) for token in tokens} - {str}:
            raise FileError(path, "not a line of predictions", number)
        yield PredictedSentence(Sentence(tokens, gold, str(held.get("id", ""))), found)


def _fits(span: Span, length: int) -> bool:
    types = tuple(map(type, span))
    return types == (int, int, str) and 0 <= span.start < span.end <= length


@dataclass(frozen=True)
class Mistake:
    """The same error, made once or several times."""

    kind: ErrorKind
    right: tuple[str, ...]
    """The gold mention and its label; empty for a spurious one."""
    found: tuple[str, ...]
    """The predicted mention and its label; empty for a missed one."""
    count: int
    context: str
    """Of the first of them: gold mentions in square brackets, predicted ones in braces."""
    sentence: str
    """The id of the first one's sentence."""


def find_mistakes(predictions: Iterable[PredictedSentence]) -> list[Mistake]:
    """All errors, grouped by the words and labels involved; the commonest of each kind first."""
    groups: dict[_Same, list[tuple[Sentence, Span | None, Span | None]]] = {}
    for predicted in predictions:
        sentence = predicted.sentence
        for kind, right, found in error_pairs(sentence.spans, predicted.found):
            same = kind, _words_and_label(sentence, right), _words_and_label(sentence, found)
            groups.setdefault(same, []).append((sentence, right, found))
    mistakes = [
        Mistake(*same, len(group), _context(*group[0]), group[0][0].id)
        for same, group in groups.items()
    ]
    order = ERROR_KINDS.index
    return sorted(mistakes, key=lambda m: (order(m.kind), -m.count, m.right, m.found))


def error_pairs(right: Sequence[Span], found: Sequence[Span]) -> Iterator[_Error]:
    """Each wrong mention once: a gold one with the predicted one it overlaps, or either alone."""
    wrong = [span for span in found if span not in right]
    paired = []
    for span in right:
        if span not in found:
            kind, nearest = error_kind(span, found), _nearest(span, wrong)
            paired.append(nearest)
            yield "missed" if kind == "alone" else kind, span, nearest
    for span in wrong:
        kind = error_kind(span, right)
        if kind == "alone":
            yield "spurious", None, span
        elif span not in paired:
            yield kind, _nearest(span, right), span


def _overlap(one: Span, other: Span) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _nearest(span: Span, others: Sequence[Span]) -> Span | None:
    """The span that shares most words with it, preferably of the same label."""
    touching = [other for other in others if _overlap(span, other)]
    return max(
        touching, key=lambda o: (o.label == span.label, _overlap(span, o), -o.start), default=None
    )


def _words_and_label(sentence: Sentence, span: Span | None) -> tuple[str, ...]:
    if span is None:
        return ()
    return " ".join(sentence.tokens[span.start : span.end]), span.label


def _context(sentence: Sentence, right: Span | None, found: Span | None) -> str:
    spans = [span for span in (right, found) if span]
    start = max(0, min(span.start for span in spans) - _CONTEXT_WORDS)
    end = min(len(sentence), max(span.end for span in spans) + _CONTEXT_WORDS)
    words = []
    for place in range(start, end):
        word = sentence.tokens[place]
        # Braces first, so that brackets stand outside where both open or close at a word.
        for span, opening, closing in ((found, "{", "}"), (right, "[", "]")):
            if span:
                word = (opening if place == span.start else "") + word
                word += closing if place == span.end - 1 else ""
        words.append(word)
    left, more = "… " if start else "", " …" if end < len(sentence) else ""
    return left + " ".join(words) + more
