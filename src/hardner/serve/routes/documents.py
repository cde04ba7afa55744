"""Documents: listed, added, uploaded, read, changed, removed."""

import tempfile
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from hardner.formats import FORMATS, Report
from hardner.serve import documents, events, uploads, views
from hardner.serve.bodies import (
    BIGGEST,
    DocumentChange,
    Filter,
    NewDocument,
    NewDocuments,
    PathNumber,
)
from hardner.serve.errors import Missing, Refused
from hardner.serve.flags import current
from hardner.serve.prepared import Prepared, prepare
from hardner.serve.routes.shared import Bench
from hardner.serve.sweep import unseen
from hardner.serve.workbench import Workbench
from hardner.types import Document, Entity

router = APIRouter(prefix="/api", tags=["documents"])

PATIENCE = 0.3
"""Seconds that a document waits for what the model finds in it."""
Place = Annotated[int, Query(ge=0, le=BIGGEST)]


@router.get("/documents")
def list_documents(
    bench: Bench,
    query: Annotated[str, Query(max_length=1_000)] = "",
    filter: Filter = "all",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    after: Place = 0,
    offset: Place = 0,
) -> dict[str, Any]:
    """A page of the documents. Words of the query are the beginnings of words in them."""
    with bench.store.reading() as database:
        model = current(database)
        return documents.listed(database, model, query, filter, after, offset, limit)


@router.post("/documents", status_code=201)
def add_documents(bench: Bench, body: NewDocuments) -> dict[str, Any]:
    """Adds texts, with their mentions if they have any."""
    prepared = [prepare(_document(one), one.entities is not None) for one in body.documents]
    return _added(bench, prepared, body.held_out, [])


def _document(body: NewDocument) -> Document:
    size, mentions = len(body.text), body.entities or []
    for mention in mentions:
        if not mention.start < mention.end <= size:
            raise Refused(f"mention {mention.start} to {mention.end} is not within the text")
    entities = (Entity(m.start, m.end, m.label, body.text[m.start : m.end]) for m in mentions)
    return Document(body.name.strip(), body.text, tuple(entities))


@router.post(
    "/uploads",
    status_code=201,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def upload(
    request: Request,
    bench: Bench,
    name: Annotated[str, Query(max_length=500)] = "upload.txt",
    format: Annotated[str, Query(max_length=50)] = "auto",
    held_out: bool = False,
    silent: uploads.Silent = "auto",
) -> dict[str, Any]:
    """Adds the documents of a file; the body is the file. Its format is found if it is not said.

    A document without any mention in a file that has some holds none, or is still open; if it is
    not said which, it holds none where most documents have mentions.
    """
    if format != "auto" and format not in FORMATS:
        raise Refused(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="hardner-upload-") as folder:
        path = Path(folder, uploads.safe_name(name))
        with path.open("wb") as file:
            async for piece in request.stream():
                file.write(piece)
        wanted = None if format == "auto" else format
        return await run_in_threadpool(_take_in, bench, path, wanted, held_out, silent)


def _take_in(
    bench: Workbench, path: Path, format: str | None, held_out: bool, silent: uploads.Silent
) -> dict[str, Any]:
    limits = bench.settings.limits
    found, told = uploads.documents(path, format, silent, limits, Report())
    prepared = [prepare(document, labelled) for document, labelled in found]
    return _added(bench, prepared, held_out, told)


def _added(
    bench: Workbench, prepared: list[Prepared], held_out: bool, warnings: list[str]
) -> dict[str, Any]:
    if not any(document.rows for document in prepared):
        raise Refused("there is no text in it")
    filled = [document for document in prepared if document.rows]
    with bench.store.writing() as database:
        found = documents.add(database, filled, held_out)
    bench.sweep.wake()
    own = [line for document in filled for line in document.warnings]
    return found | {"warnings": [*warnings, *own][: uploads.SHOWN]}


@router.get("/documents/{number}")
def read_document(
    bench: Bench,
    number: PathNumber,
    start: Place = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> dict[str, Any]:
    """A document's sentences, with labels and what the current model finds."""
    with bench.store.reading() as database:
        rows = documents.sentence_rows(database, number, start, limit)
        missing = unseen(database, limit, among=[row["id"] for row in rows])
    if missing:
        _wait(bench.sweep.look(missing))
    with bench.store.reading() as database:
        found = documents.one(database, current(database), number)
        text = documents.text_of(database, number)
        rows = documents.sentence_rows(database, number, start, limit)
        (end,) = database.execute(
            "SELECT max(stop) FROM sentences WHERE document = ?", (number,)
        ).fetchone()
        return {
            "id": number,
            "name": found["name"],
            "held_out": found["held_out"],
            "total": found["sentences"],
            "sentences": views.sentences(database, rows),
            "tail": text[end or 0 :],
        }


def _wait(looking: "Future[None]") -> None:
    wait([looking], PATIENCE)


@router.patch("/documents/{number}")
def change_document(bench: Bench, number: PathNumber, body: DocumentChange) -> dict[str, Any]:
    """Gives a document another name, or moves it in or out of the held-out part."""
    with bench.store.writing() as database:
        documents.change(database, number, body.name, body.held_out)
        return documents.one(database, current(database), number)


@router.delete("/documents/{number}")
def remove_document(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Takes a document out; an undo brings it back."""
    with bench.store.writing() as database:
        event = documents.remove(database, number)
        found = events.event(database, event)
        if found is None:
            raise Missing(f"there is no event {event}")
        return {"event": views.event(database, found)}
