"""What the server passes to the process that adapts: a folder with the order and its sentences."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardner.types import Sentence, Span

MODEL_IN_USE = "current"
"""Folder of the adapted model in use, to compare the new one with; without it, the base is."""
NEW_MODEL = "model"
"""Folder that the new model is left in."""


@dataclass(frozen=True)
class AdaptationOrder:
    """What to adapt, to what, and how."""

    labelled: Sequence[Sentence]
    held_out: Sequence[Sentence]
    """To score the new model on."""
    unlabelled: Sequence[Sentence]
    """To compare the models on."""
    keep: bool
    """Whether the types of the base model stay beside the new ones."""
    force: bool
    """Whether to go on where the base model does better as it is."""
    base: Path | None
    """The folder of the model to adapt; None is the bundled one."""

    def write(self, folder: Path) -> None:
        """Write the order into a folder."""
        for name in ("labelled", "held_out", "unlabelled"):
            _write_sentences(folder / f"{name}.jsonl", getattr(self, name))
        base = None if self.base is None else str(self.base.resolve())
        order = {"keep": self.keep, "force": self.force, "base": base}
        (folder / "order.json").write_text(json.dumps(order), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> "AdaptationOrder":
        """Read the order from a folder."""
        order = json.loads((folder / "order.json").read_text("utf-8"))
        order["base"] = Path(order["base"]) if order["base"] else None
        labelled, held_out, unlabelled = (
            _read_sentences(folder / f"{name}.jsonl")
            for name in ("labelled", "held_out", "unlabelled")
        )
        return cls(labelled, held_out, unlabelled, **order)


def _write_sentences(path: Path, sentences: Iterable[Sentence]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences:
            row = {"id": sentence.id, "tokens": sentence.tokens, "spans": sentence.spans}
            file.write(json.dumps(row) + "\n")


def _read_sentences(path: Path) -> list[Sentence]:
    rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return [
        Sentence(tuple(row["tokens"]), tuple(Span(*span) for span in row["spans"]), row["id"])
        for row in rows
    ]
