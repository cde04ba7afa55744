"""What a format is: a row of the table, with what it can hold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hardner.types import Document

Reader = Callable[..., Iterator[Document]]
"""``(path, report)`` -> documents; a tagged format also takes ``scheme``."""
Writer = Callable[..., None]
"""``(documents, path, report)``; a tagged format also takes ``scheme``."""

HOLDABLE = ("ids", "passages", "sentences", "scores", "identifiers", "overlaps", "fragments")
"""What not every format can hold beside a text and its labelled mentions."""


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write annotated text down."""

    name: str
    endings: tuple[str, ...]
    """Of file names, in lower case; those of compressed files may follow."""
    about: str
    read: Reader | None = None
    """None where the format is written only."""
    write: Writer | None = None
    """None where the format is read only."""
    sniff: Callable[[str], bool] = field(default=lambda head: False)
    """Whether a file that starts so is surely of this format."""
    holds: frozenset[str] = frozenset()
    """Those of :data:`HOLDABLE` that outlive writing and reading."""
    tagged: bool = False
    """Whether mentions are tags of tokens, in some scheme."""
    folder: bool = False
    """Whether it may be a folder of files."""
