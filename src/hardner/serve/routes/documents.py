"""Documents: listed, added, uploaded, read, changed, removed."""

import tempfile
from concurrent.futures import wait
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from hardner.formats import FORMATS
from hardner.serve import documents, uploads
from hardner.serve.database import find_event
from hardner.serve.errors import Refused
from hardner.serve.history import show_event
from hardner.serve.predictions import unpredicted_sentences
from hardner.serve.routes import BIGGEST, Bench, Index, Name, PathNumber, Text
from hardner.serve.sentences import select_sentences, show_sentences
from hardner.types import Document, Entity

router = APIRouter(prefix="/api", tags=["documents"])

_PATIENCE = 0.3  # seconds that a document waits for its predictions
_Position = Annotated[int, Query(ge=0, le=BIGGEST)]
_FileName = Annotated[str, Field(max_length=500)]
_UNNAMED = ["upload.txt"]
_NO_SIZES: list[int] = []


class Mention(BaseModel, extra="forbid"):
    """In characters of the text."""

    start: Index
    end: Index
    label: Name


class NewDocument(BaseModel, extra="forbid"):
    name: Annotated[Text, Field(max_length=200)] = ""
    text: Annotated[Text, Field(min_length=1)]
    entities: list[Mention] | None = None
    """An empty list says that the text holds none; null, that it is not labelled."""


class NewDocuments(BaseModel, extra="forbid"):
    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=10_000)]
    held_out: bool = False


class DocumentChange(BaseModel, extra="forbid"):
    name: Name | None = None
    held_out: bool | None = None


@router.get("/documents")
def get_documents(
    bench: Bench,
    query: Annotated[str, Query(max_length=1_000)] = "",
    filter: Literal[
        "all", "labelled", "unlabelled", "partial", "suggested", "disagreeing", "held_out", "unread"
    ] = "all",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    after: _Position = 0,
    offset: _Position = 0,
) -> dict[str, Any]:
    """A page of the documents. Words of the query are the beginnings of words in them."""
    with bench.project.reading() as database:
        return documents.list_documents(database, query, filter, after, offset, limit)


@router.post("/documents", status_code=201)
def post_documents(bench: Bench, body: NewDocuments) -> dict[str, Any]:
    """Adds texts, with their mentions if they have any."""
    given = [(_document(one), one.entities is not None) for one in body.documents]
    return _add(bench, given, body.held_out, [])


def _document(body: NewDocument) -> Document:
    size, mentions = len(body.text), body.entities or []
    for mention in mentions:
        if not mention.start < mention.end <= size:
            raise Refused(f"mention {mention.start} to {mention.end} is not within the text")
    entities = (Entity(m.start, m.end, m.label, body.text[m.start : m.end]) for m in mentions)
    return Document(body.name.strip(), body.text, tuple(entities))


_BINARY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.post(
    "/uploads",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": _BINARY}},
)
async def post_upload(
    request: Request,
    bench: Bench,
    name: Annotated[list[_FileName], Query(min_length=1, max_length=10)] = _UNNAMED,
    size: Annotated[list[_Position], Query(max_length=10)] = _NO_SIZES,
    format: Annotated[str, Query(max_length=50)] = "auto",
    held_out: bool = False,
    silent: uploads.Silent = "auto",
) -> dict[str, Any]:
    """Adds the documents of a file; the body is the file. Its format is found if it is not said.

    Files that belong together, such as the two of a BRAT document, come one behind the other, with
    the name of each, and the size in bytes of all but the last.

    A document without any mention in a file that has some holds none, or is still open; if it is
    not said which, it holds none where most documents have mentions.
    """
    if format != "auto" and format not in FORMATS:
        raise Refused(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="hardner-upload-") as folder:
        path = Path(folder, uploads.safe_name(name[0]))
        with path.open("wb") as file:
            async for block in request.stream():
                file.write(block)

        def add() -> dict[str, Any]:
            source = path if len(name) == 1 else uploads.split_files(path, name, size)
            known = None if format == "auto" else format
            found, told = uploads.read_upload(source, known, silent, bench.settings.limits)
            return _add(bench, found, held_out, told)

        return await run_in_threadpool(add)


def _add(
    bench: Bench, given: list[tuple[Document, bool]], held_out: bool, warnings: list[str]
) -> dict[str, Any]:
    prepared = [documents.prepare_document(document, labelled) for document, labelled in given]
    filled = [document for document, _ in prepared if document.sentences]
    if not filled:
        raise Refused("there is no text in it")
    with bench.project.writing() as database:
        added = documents.add_documents(database, filled, held_out)
    bench.predictions.wake()
    own = [line for _, lines in prepared for line in lines]
    if loose := sum(len(document.entities) for document in filled):
        own.insert(0, f"{loose:,} × a mention that fits no words: kept and shown, but not learnt")
    return added | {"warnings": [*warnings, *own][: uploads.MOST_WARNINGS]}


@router.get("/documents/{number}")
def get_document(
    bench: Bench,
    number: PathNumber,
    start: _Position = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> dict[str, Any]:
    """A document's sentences, with labels and what the current model finds."""
    where = "document = ? AND position >= ? ORDER BY position LIMIT ?", number, start, limit
    with bench.project.reading() as database:
        rows = select_sentences(database, *where).fetchall()
        missing = unpredicted_sentences(database, limit, among=[row["id"] for row in rows])
    if missing:
        # A page with predictions is worth a short wait; if they are late, the page asks again.
        wait([bench.predictions.predict(missing)], _PATIENCE)
    with bench.project.reading() as database:
        found = documents.find_document(database, number)
        text = documents.document_text(database, number)
        rows = select_sentences(database, *where).fetchall()
        (end,) = database.execute(
            "SELECT max(stop) FROM sentences WHERE document = ?", (number,)
        ).fetchone()
        return {
            "id": number,
            "name": found["name"],
            "held_out": found["held_out"],
            "total": found["sentences"],
            "sentences": show_sentences(database, rows),
            "tail": text[end or 0 :],
        }


@router.patch("/documents/{number}")
def patch_document(bench: Bench, number: PathNumber, body: DocumentChange) -> dict[str, Any]:
    """Gives a document another name, or moves it in or out of the held-out part."""
    with bench.project.writing() as database:
        before = documents.find_document(database, number)
        wanted = body.model_dump(exclude_none=True)
        if changed := {name: new for name, new in wanted.items() if new != before[name]}:
            documents.change_document(database, number, changed)
        return documents.find_document(database, number)


@router.delete("/documents/{number}")
def delete_document(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Takes a document out; an undo brings it back."""
    with bench.project.writing() as database:
        event = documents.change_document(database, number, {"removed": True}, "remove")
        return {"event": show_event(database, find_event(database, event))}
