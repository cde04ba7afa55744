"""Cutting a document down to what a format can hold; every loss is counted."""

from collections.abc import Iterable
from dataclasses import replace

from hardner.formats.report import Place, Report
from hardner.types import Document, Entity


def fit(document: Document, holds: frozenset[str], report: Report, place: Place) -> Document:
    """The document, its mentions as far as they are among what the format ``holds``."""
    if "ids" not in holds:
        report.note("document id not kept", place)
    if document.passages and "passages" not in holds:
        report.note("passages not kept", place)
    if document.sentences and "sentences" not in holds:
        report.note("sentence and token bounds not kept", place)
    entities = [_fit_entity(entity, holds, report, place) for entity in document.entities]
    kept = [entity for entity in entities if entity is not None]
    if "overlaps" not in holds:
        kept, left_out = outermost(kept)
        for _ in left_out:
            report.add("overlapping mention left out", place)
    return replace(document, entities=tuple(kept))


def _fit_entity(
    entity: Entity, holds: frozenset[str], report: Report, place: Place
) -> Entity | None:
    if entity.fragments and "fragments" not in holds:
        report.add("discontinuous mention left out", place)
        return None
    if entity.score != 1.0 and "scores" not in holds:
        report.add("score of a mention left out", place)
        entity = replace(entity, score=1.0)
    if entity.identifier and "identifiers" not in holds:
        report.add("concept identifier left out", place)
        entity = replace(entity, identifier="")
    return entity


def outermost(entities: Iterable[Entity]) -> tuple[list[Entity], list[Entity]]:
    """Mentions of which no two overlap, the longer rather than the shorter; and the others."""
    return _apart(entities, longest_first=True)


def innermost(entities: Iterable[Entity]) -> tuple[list[Entity], list[Entity]]:
    """Mentions of which no two overlap, the shorter rather than the longer; and the others."""
    return _apart(entities, longest_first=False)


def _apart(entities: Iterable[Entity], longest_first: bool) -> tuple[list[Entity], list[Entity]]:
    given = list(entities)
    sign = -1 if longest_first else 1
    order = sorted(
        range(len(given)), key=lambda i: (sign * (given[i].end - given[i].start), given[i].start, i)
    )
    taken: set[int] = set()
    kept: set[int] = set()
    for index in order:
        inside = range(given[index].start, given[index].end)
        if taken.isdisjoint(inside):
            taken.update(inside)
            kept.add(index)
    return (
        [entity for index, entity in enumerate(given) if index in kept],
        [entity for index, entity in enumerate(given) if index not in kept],
    )
