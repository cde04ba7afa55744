"""Cutting a document down to what a format can hold; every loss is counted."""

from dataclasses import replace

from hardner.formats.report import Place, Report
from hardner.schemes import longest_non_overlapping
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
        flat = longest_non_overlapping(kept)
        for _ in range(len(kept) - len(flat)):
            report.add("overlapping mention left out", place)
        kept = flat
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
