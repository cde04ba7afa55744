"""What the server passes to the process that adapts: a folder with the order and its sentences."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hardner.types import Sentence, Span

_FILE = "order.json"
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
        (folder / _FILE).write_text(json.dumps(asdict(self), default=str), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> "AdaptationOrder":
        """Read the order from a folder."""
        order = json.loads((folder / _FILE).read_text("utf-8"))
        for name in ("labelled", "held_out", "unlabelled"):
            order[name] = [
                Sentence(tuple(row["tokens"]), tuple(Span(*s) for s in row["spans"]), row["id"])
                for row in order[name]
            ]
        order["base"] = Path(order["base"]) if order["base"] else None
        return cls(**order)
