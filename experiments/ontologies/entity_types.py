"""Which nodes of the ontologies become entity types: those with enough names that the text uses."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from terms import Term

MENTIONS = 400
"""Of a type in the text, at least."""
NAMES = 25
"""Different names of a type in the text, at least: a type of few names is learnt by heart."""
_SAME = 0.9
"""A type of which a narrower one has this share of mentions says nothing new."""
_UPPER = ("entity", "structure of", "set of", "category", "grouping", "obsolete")


@dataclass(frozen=True)
class EntityType:
    """A type to be learnt."""

    id: str
    name: str
    definition: str
    kind: str
    mentions: int
    names: int

    def as_json(self) -> dict[str, object]:
        """For types.json."""
        return asdict(self)


def choose_types(
    terms: Mapping[str, Term],
    above: Mapping[str, frozenset[str]],
    named: Sequence[Sequence[str]],
    counts: Counter[int],
) -> list[EntityType]:
    """The types of a labelled text.

    Args:
        terms: Of all ontologies that were looked for.
        above: Each term and what it is a kind of.
        named: The ids of the terms that each name stands for.
        counts: How often each name was found.
    """
    mentions: Counter[str] = Counter()
    names: Counter[str] = Counter()
    shared: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in counts.items():
        found = {up for ident in named[name] for up in above[ident]}
        for ident in found:
            mentions[ident] += count
            names[ident] += 1
    wide = {i for i, n in mentions.items() if n >= MENTIONS and names[i] >= NAMES}
    for name, count in counts.items():
        found = {up for ident in named[name] for up in above[ident] if up in wide}
        for ident in found:
            for up in above[ident] & found:
                if up != ident:
                    shared[up][ident] += count
    chosen = []
    for ident in sorted(wide):
        term = terms[ident]
        narrower = max(shared[ident].values(), default=0)
        if narrower <= _SAME * mentions[ident] and not any(u in term.names[0] for u in _UPPER):
            row = (ident, term.names[0], term.definition, term.kind)
            chosen.append(EntityType(*row, mentions[ident], names[ident]))
    return chosen
