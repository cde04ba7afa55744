"""The terms of ontologies: their names, what they are a kind of, and what domains they touch."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hardner import files
from hardner.errors import FileError, HardnerError

KINDS = Path(__file__).with_name("kinds.toml")
DOMAINS = ("Disease", "Drug", "Gene", "Species")
_COLUMNS = ["id", "name", "exact_synonyms", "related_synonyms", "definition", "parents"]
_FORMAL = ("obsolete ", "obsolete_", "NOT ")
"""How names begin that nobody writes."""


@dataclass(frozen=True)
class Kind:
    """Ontologies that name the same kind of thing."""

    name: str
    ontologies: tuple[str, ...]
    touches: frozenset[str]


class Term(NamedTuple):
    """What an ontology has a name for."""

    id: str
    kind: str
    names: tuple[str, ...]
    """The preferred name first, then exact synonyms."""
    definition: str
    parents: tuple[str, ...]


def read_kinds(path: Path = KINDS) -> dict[str, Kind]:
    """The kinds, by name; each ontology is of one kind."""
    found: dict[str, Kind] = {}
    seen: set[str] = set()
    for name, row in tomllib.loads(files.read_text(path)).items():
        kind = Kind(name, tuple(row["ontologies"]), frozenset(row.get("touches", ())))
        if twice := seen.intersection(kind.ontologies):
            raise FileError(path, f"{', '.join(sorted(twice))} in {name} and in another kind")
        if unknown := kind.touches - set(DOMAINS):
            raise FileError(path, f"{name} touches {', '.join(sorted(unknown))}, no domain")
        seen.update(kind.ontologies)
        found[name] = kind
    return found


def read_terms(folder: Path, kinds: Iterable[Kind]) -> dict[str, Term]:
    """The terms of all ontologies of some kinds, by id."""
    found: dict[str, Term] = {}
    for kind in kinds:
        for ontology in kind.ontologies:
            path = folder / f"{ontology}.tsv.xz"
            if not path.exists():
                raise HardnerError(f"{path} is missing; {KINDS.name} names it")
            found |= {term.id: term for term in _terms_of(path, kind.name)}
    return found


def _terms_of(path: Path, kind: str) -> Iterator[Term]:
    lines = files.lines(path)
    _, head = next(lines)
    if head.rstrip("\n").split("\t") != _COLUMNS:
        raise FileError(path, f"its columns are not {', '.join(_COLUMNS)}")
    for _, line in lines:
        ident, name, exact, _related, definition, parents = line.rstrip("\n").split("\t")
        names = tuple(n for n in (name, *exact.split("|")) if n and not n.startswith(_FORMAL))
        if names:
            yield Term(ident, kind, names, definition, tuple(filter(None, parents.split("|"))))


def ancestors(terms: Mapping[str, Term]) -> dict[str, frozenset[str]]:
    """The term itself and all that it is a kind of, by id; parents outside of ``terms`` end it."""
    found: dict[str, frozenset[str]] = {}

    def above(ident: str, path: frozenset[str]) -> frozenset[str]:
        if ident in found:
            return found[ident]
        up = [p for p in terms[ident].parents if p in terms and p not in path]
        own = frozenset({ident}).union(*(above(p, path | {ident}) for p in up))
        if not path:  # inside a cycle the set depends on where it was entered
            found[ident] = own
        return own

    for ident in terms:
        above(ident, frozenset())
    return found


def without_domain(
    terms: Mapping[str, Term], kinds: Mapping[str, Kind], domain: str
) -> dict[str, Term]:
    """The terms that say nothing about a domain.

    Terms of kinds that touch it are left out, and every name that one of those has as well, in
    whatever case: a chemical that is also listed among foods is still a chemical.
    """
    barred = {t.id for t in terms.values() if domain in kinds[t.kind].touches}
    known = {name.casefold() for ident in barred for name in terms[ident].names}
    found = {}
    for ident, term in terms.items():
        names = tuple(name for name in term.names if name.casefold() not in known)
        if ident not in barred and names:
            found[ident] = term._replace(names=names)
    return found
