"""How often a shard was begun, so that a document that ends its worker is found and put aside.

The first two attempts go ahead as usual. From the third on, documents are tagged one by one, and
each is written down before; one that was the last of two attempts is to blame.
"""

import json
from pathlib import Path

from hardner.files import atomic_write, read_text

HASTY = 2
"""Attempts before documents go one by one."""
DEATHS = 2
"""Of workers, before a document is blamed."""


class Attempt:
    """One more attempt at a shard."""

    def __init__(self, path: Path) -> None:
        self._path = path
        held = json.loads(read_text(path)) if path.exists() else {}
        self._begun = int(held.get("begun", 0)) + 1
        self._deaths: dict[str, int] = dict(held.get("deaths", {}))
        if (last := held.get("at")) is not None:
            self._deaths[last] = self._deaths.get(last, 0) + 1
        self._write(None)

    @property
    def careful(self) -> bool:
        """Whether documents go one by one."""
        return self._begun > HASTY

    def blames(self, number: int) -> bool:
        """Whether a document has ended its worker before."""
        return self._deaths.get(str(number), 0) >= DEATHS

    def at(self, number: int) -> None:
        """A document is about to be tagged."""
        self._write(str(number))

    def succeeded(self) -> None:
        """The shard is there."""
        self._path.unlink(missing_ok=True)

    def _write(self, at: str | None) -> None:
        with atomic_write(self._path) as file:
            file.write(json.dumps({"begun": self._begun, "deaths": self._deaths, "at": at}))
