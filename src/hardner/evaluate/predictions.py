"""What was predicted, kept for a closer look: a JSON line a sentence that holds a mention."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardner.errors import FileError
from hardner.evaluate.results import Result
from hardner.files import atomic_write, lines
from hardner.types import Sentence, Span


@dataclass(frozen=True)
class Predicted:
    """A sentence with its right spans, and those that were found."""

    sentence: Sentence
    found: tuple[Span, ...]


def write_predictions(
    folder: Path,
    results: Sequence[Result],
    sentences: Sequence[Sentence],
    predictions: Sequence[Sequence[tuple[Span, ...]]],
) -> None:
    """Write a file for each result; sentences without a mention, right or found, are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for result, found in zip(results, predictions, strict=True):
        with atomic_write(folder / file_name(result)) as file:
            for sentence, spans in zip(sentences, found, strict=True):
                if sentence.spans or spans:
                    line = {
                        "id": sentence.id,
                        "tokens": sentence.tokens,
                        "gold": sentence.spans,
                        "found": spans,
                    }
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")


def file_name(result: Result) -> str:
    """Of a result's predictions."""
    parts = (
        result.protocol,
        result.method,
        result.encoder,
        result.preset,
        result.corpus,
        str(result.size),
        str(result.sample),
        result.config,
        *([f"{result.unlabelled}-unlabelled"] if result.unlabelled else []),
    )
    return "_".join(re.sub(r"[^\w.+-]+", "-", part) for part in parts) + ".jsonl.xz"


def read_predictions(path: str | Path) -> Iterator[Predicted]:
    """The sentences of a file of predictions."""
    for number, line in lines(path):
        try:
            held = json.loads(line)
            gold, found = (tuple(Span(*span) for span in held[key]) for key in ("gold", "found"))
            sentence = Sentence(tuple(held["tokens"]), gold, held["id"])
        except (ValueError, KeyError, TypeError):
            raise FileError(path, "not a line of predictions", number) from None
        yield Predicted(sentence, found)
