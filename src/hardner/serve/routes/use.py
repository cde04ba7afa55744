"""The model at work: tagging, what to label next; and what users take away."""

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from hardner.serve import mention_types, takeaway, upcoming
from hardner.serve.bodies import SuggestBody, TagAnswer, TagBody
from hardner.serve.errors import Refused, TooLarge
from hardner.serve.figures import report
from hardner.serve.routes.shared import Bench, attached
from hardner.serve.status import counts
from hardner.serve.workbench import Workbench
from hardner.types import Entity, Sentence

router = APIRouter(prefix="/api", tags=["use"])


@router.post("/tag", response_model=TagAnswer)
async def tag(bench: Bench, body: TagBody) -> dict[str, Any]:
    """The entities of texts by the current model; offsets count characters (code points)."""
    _check_size(bench, body.texts)
    number, found = await asyncio.wrap_future(bench.worker.tag(body.texts))
    wanted = None if body.labels is None else frozenset(body.labels)
    return {
        "model": number,
        "results": [{"entities": _kept(one, wanted, body.min_score)} for one in found],
    }


def _check_size(bench: Workbench, texts: list[str]) -> None:
    limit = bench.settings.limits.tag_characters
    if sum(map(len, texts)) > limit:
        raise TooLarge(f"more than {limit:,} characters of text; send them in parts")


def _kept(
    entities: list[Entity], wanted: frozenset[str] | None, least: float
) -> list[dict[str, Any]]:
    return [
        {
            "start": entity.start,
            "end": entity.end,
            "label": entity.label,
            "text": entity.text,
            "score": entity.score,
        }
        for entity in entities
        if entity.score >= least and (wanted is None or entity.label in wanted)
    ]


@router.post("/suggest")
async def suggest(bench: Bench, body: SuggestBody) -> dict[str, Any]:
    """What to label next, hardest first: sentences of the project, or of texts."""
    if body.texts is not None:
        _check_size(bench, body.texts)
        return {"suggestions": await _of_texts(bench, body.texts, body.n)}
    candidates, known, label = await asyncio.to_thread(_candidates, bench, body.skip)
    work = bench.worker.ask(
        lambda loaded: upcoming.chosen(loaded, candidates, known, body.n, label)
    )
    return {"suggestions": await asyncio.to_thread(_shown, bench, await asyncio.wrap_future(work))}


async def _of_texts(bench: Workbench, texts: list[str], n: int) -> list[dict[str, Any]]:
    sentences = await asyncio.to_thread(upcoming.of_texts, texts)
    work = bench.worker.ask(lambda loaded: upcoming.chosen(loaded, sentences, (), n, None))
    return upcoming.in_texts(texts, await asyncio.wrap_future(work))


def _candidates(
    bench: Workbench, skip: list[int]
) -> tuple[list[Sentence], list[Sentence], str | None]:
    with bench.store.reading() as database:
        types = mention_types.numbers(database)
        label = min(types) if len(types) == 1 else None
        return upcoming.candidates(database, skip), upcoming.recent(database), label


def _shown(bench: Workbench, found: Any) -> list[dict[str, Any]]:
    with bench.store.reading() as database:
        return upcoming.shown(database, found)


@router.get("/export")
def export(
    bench: Bench,
    format: Annotated[str, Query(max_length=50)],
    scheme: Annotated[str | None, Query(max_length=20)] = None,
    unit: Literal["document", "sentence"] = "document",
) -> Response:
    """The labels in a format: of whole documents, or of labelled sentences alone."""
    if format not in takeaway.WRITABLE:
        raise Refused(f"{format!r} cannot be written; known are {', '.join(takeaway.WRITABLE)}")
    with (
        tempfile.TemporaryDirectory(prefix="hardner-export-") as folder,
        bench.store.reading() as database,
    ):
        path = takeaway.export(database, Path(folder), format, scheme, unit)
        name = f"{bench.settings.project.stem}-{path.name}"
        return attached(name, "application/octet-stream", path.read_bytes())


@router.get("/report")
def download_report(bench: Bench) -> Response:
    """The curve and the figures as an HTML file."""
    name = bench.settings.project.stem
    with bench.store.reading() as database:
        page = report(database, name, counts(database))
    return attached(f"{name}-report.html", "text/html; charset=utf-8", page.encode())
