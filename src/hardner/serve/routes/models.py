"""Adapting, the models that come of it, and these at work: tagging and what to label next."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from hardner.serve import models, queue, runs
from hardner.serve.database import Database
from hardner.serve.errors import Conflict, TooLarge
from hardner.serve.routes import (
    Bench,
    Nothing,
    Number,
    PathNumber,
    Text,
    attachment,
    written_blocks,
)

router = APIRouter(prefix="/api", tags=["models"])

_SHOWN = ("start", "end", "label", "text", "score")  # of an entity
_Texts = Annotated[list[Text], Field(max_length=1_000)]


class AdaptBody(BaseModel, extra="forbid"):
    keep: bool = False
    """Whether the model's own types stay beside the new ones."""
    force: bool = False
    """Whether to go on where the model does better as it is."""


class SuggestBody(BaseModel, extra="forbid"):
    """How many sentences, and of what: the project's, or those of texts."""

    n: Annotated[int, Field(ge=1, le=100, strict=True)] = 10
    skip: Annotated[list[Number], Field(max_length=10_000)] = []
    texts: _Texts | None = None


class TagBody(BaseModel, extra="forbid"):
    texts: _Texts
    labels: Annotated[list[Text], Field(max_length=100)] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0


@router.post("/adapt", status_code=202)
def post_adapt(bench: Bench, body: AdaptBody) -> dict[str, Any]:
    """Starts a run that learns from all labels outside the held-out part."""
    return get_run(bench, bench.adapt(body.keep, body.force))


@router.get("/runs")
def get_runs(bench: Bench) -> dict[str, Any]:
    """The runs, newest first, without their results."""
    with bench.project.reading() as database:
        found = runs.list_runs(database)
    return {"runs": [bench.runner.with_progress(run) for run in found]}


@router.get("/runs/{number}")
def get_run(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """A run with its result."""
    with bench.project.reading() as database:
        return bench.runner.with_progress(runs.find_run(database, number))


@router.post("/runs/{number}/cancel")
def cancel_run(bench: Bench, number: PathNumber, body: Nothing) -> dict[str, Any]:
    """Ends a run that is on its way."""
    get_run(bench, number)
    bench.runner.cancel(number)
    return get_run(bench, number)


@router.get("/curve")
def get_curve(bench: Bench) -> dict[str, Any]:
    """The expected F1 of each run that ended well, oldest first."""
    with bench.project.reading() as database:
        return {"points": runs.learning_curve(database)}


@router.get("/models")
def get_models(bench: Bench) -> dict[str, Any]:
    """The models, newest first."""
    with bench.project.reading() as database:
        return _list(database)


def _list(database: Database) -> dict[str, Any]:
    current = models.current_model_number(database)
    return {"current": current, "models": models.list_models(database)}


@router.post("/models/{number}/use")
def post_model_use(bench: Bench, number: PathNumber, body: Nothing) -> dict[str, Any]:
    """Makes a model the current one."""
    with bench.project.writing() as database:
        models.use_model(database, number)
        found = models.find_model(database, number)
    bench.load_current()
    return found


@router.delete("/models/{number}")
def delete_model(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Lets go of a model's files; its figures stay."""
    with bench.project.writing() as database:
        models.remove_model(database, number)
        return _list(database)


@router.get("/models/{number}/zip")
def get_model_zip(bench: Bench, number: PathNumber) -> Response:
    """The model folder as a zip, for `hardner tag --model` and `hardner.load`."""
    with bench.project.reading() as database:
        found = models.find_model(database, number)
    if found["kind"] == "base":
        raise Conflict("the base model is not part of the project; adapt it first")
    name = f"{bench.settings.project.stem}-{found['name'].replace(' ', '-')}"

    def write(path: Path) -> None:
        with bench.project.reading() as database:
            models.zip_model(database, number, name, path)

    return attachment(f"{name}.zip", "application/zip", written_blocks(write))


@router.post("/tag")
async def post_tag(bench: Bench, body: TagBody) -> dict[str, Any]:
    """The entities of texts by the current model: start, end, label, text and score of each.

    Offsets count characters (code points).
    """
    _check_size(bench, body.texts)
    number, found = await asyncio.wrap_future(bench.model.tag(body.texts))
    kept = (
        [
            {name: getattr(entity, name) for name in _SHOWN}
            for entity in entities
            if entity.score >= body.min_score
            and (body.labels is None or entity.label in body.labels)
        ]
        for entities in found
    )
    return {"model": number, "results": [{"entities": entities} for entities in kept]}


def _check_size(bench: Bench, texts: list[str]) -> None:
    limit = bench.settings.limits.tag_characters
    if sum(map(len, texts)) > limit:
        raise TooLarge(f"more than {limit:,} characters of text; send them in parts")


@router.post("/suggest")
async def post_suggest(bench: Bench, body: SuggestBody) -> dict[str, Any]:
    """What to label next, hardest first: sentences of the project, or of texts."""
    if body.texts is not None:
        _check_size(bench, body.texts)
        rank = await asyncio.to_thread(queue.rank_text_sentences, body.texts, body.n)
        found = await asyncio.wrap_future(bench.model.submit(rank))
        return {"suggestions": queue.show_text_suggestions(body.texts, found)}

    def prepare() -> queue.Ranking:
        with bench.project.reading() as database:
            return queue.rank_open_sentences(database, body.n, body.skip)

    def show() -> list[dict[str, Any]]:
        with bench.project.reading() as database:
            return queue.show_suggestions(database, found)

    found = await asyncio.wrap_future(bench.model.submit(await asyncio.to_thread(prepare)))
    return {"suggestions": await asyncio.to_thread(show)}
