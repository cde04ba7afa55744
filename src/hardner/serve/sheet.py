"""Sentences as JSON lines: what the server and the process that adapts pass each other."""

import json
from collections.abc import Iterable
from pathlib import Path

from hardner.types import Sentence, Span


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """A sentence a line."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences:
            row = {"id": sentence.id, "tokens": sentence.tokens, "spans": sentence.spans}
            file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[Sentence]:
    """What `write` wrote."""
    held = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return [
        Sentence(tuple(row["tokens"]), tuple(Span(*span) for span in row["spans"]), row["id"])
        for row in held
    ]
