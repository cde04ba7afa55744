"""The data types of the project: documents, sentences, mentions, corpora, episodes, and seeds.

Token indices and character offsets are half-open everywhere: ``[start, end)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

Progress = Callable[[int, int], None]
"""Progress callback: (steps done, steps in all)."""
STATES = ("open", "partial", "done")
"""Of a sentence that is being labelled: not read yet, read in part, read to its end."""
Offset = tuple[int, int]
"""Where something starts and ends, in characters of a document's text."""


class Span(NamedTuple):
    """A labelled run of tokens of one sentence."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and the spans over them."""

    tokens: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    id: str = ""
    offsets: tuple[Offset, ...] | None = None
    """Of each token, in the text of the document that holds the sentence."""
    state: str = ""
    """How far it was labelled, one of `STATES` where that is known."""
    rejected: tuple[Span, ...] = ()
    """Spans known not to be a mention of their label.

    In a sentence that is partly labelled, they and its spans are all that is known of it; in one
    that is done they say nothing new.
    """

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_done(self) -> bool:
        """Whether what is not labelled in it is known to be no mention."""
        return self.state in ("", "done")


@dataclass(frozen=True, slots=True)
class Entity:
    """A mention in a document's text, in characters."""

    start: int
    end: int
    label: str
    text: str
    score: float = 1.0
    fragments: tuple[Offset, ...] = ()
    """The pieces of a discontinuous mention; empty where the mention is one piece."""
    identifier: str = ""
    """The concept it names, as the source writes it, e.g. ``MESH:D009369``."""

    @property
    def ranges(self) -> tuple[Offset, ...]:
        """Its fragments, or the one range from start to end."""
        return self.fragments or ((self.start, self.end),)


class Passage(NamedTuple):
    """A named part of a document's text, such as its title or abstract."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its mentions and, where the source gives them, its sentences and passages."""

    id: str
    text: str
    entities: tuple[Entity, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    passages: tuple[Passage, ...] = ()
    held_out: bool = False
    """Whether it is to be measured on, and never learnt from."""
    rejected: tuple[Entity, ...] = ()
    """What is known not to be a mention of its label.

    Without sentences of its own, a document that has some is one that was labelled in part.
    """


@dataclass(frozen=True, slots=True)
class Corpus:
    """A labelled corpus and the domain it stands for."""

    name: str
    domain: str
    train: tuple[Sentence, ...]
    devel: tuple[Sentence, ...] = ()
    test: tuple[Sentence, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A set of sentences of one domain, trained on or scored together."""

    domain: str
    rows: tuple[int, ...]
    """The indices of the sentences among those of the domain."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The support sets and the query set of one inner problem.

    Inner step ``s`` uses ``supports[s % len(supports)]``; there are none where nothing is adapted.
    """

    supports: tuple[Task, ...]
    query: Task


def seed_of(*coordinates: int | str) -> int:
    """A seed of 48 bits for a place, the same on every machine."""
    digest = blake2b(repr(coordinates).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")
