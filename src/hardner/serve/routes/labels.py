"""Labels of sentences, their history, undo and redo, and the types they are of."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from hardner.serve import documents, events, labels, mention_types, views
from hardner.serve.bodies import LabelsBody, NewType, PathNumber, StepBody, TypeChange
from hardner.serve.errors import Conflict, Refused
from hardner.serve.flags import refresh_type
from hardner.serve.labels import Labels
from hardner.serve.routes.shared import Bench
from hardner.serve.store import Database
from hardner.serve.workbench import Workbench

router = APIRouter(prefix="/api", tags=["labels"])

AT_ONCE = 200
"""Sentences that may be asked for at once."""


@router.get("/sentences")
def read_sentences(
    bench: Bench, ids: Annotated[str, Query(pattern="^[0-9]{1,15}(,[0-9]{1,15})*$")]
) -> dict[str, Any]:
    """Sentences by their numbers, as far as they are there."""
    numbers = [int(number) for number in ids.split(",")]
    if len(numbers) > AT_ONCE:
        raise Refused(f"more than {AT_ONCE} sentences; ask for them in parts")
    with bench.store.reading() as database:
        rows = documents.sentences_of(database, numbers)
        return {"sentences": views.sentences(database, rows)}


@router.get("/sentences/{number}")
def read_sentence(bench: Bench, number: PathNumber, response: Response) -> dict[str, Any]:
    """A sentence with its labels and what the current model finds."""
    with bench.store.reading() as database:
        found = views.sentence(database, number)
    response.headers["etag"] = f'"{found["version"]}"'
    return found


@router.put("/sentences/{number}")
def label_sentence(
    bench: Bench, number: PathNumber, body: LabelsBody, response: Response
) -> dict[str, Any]:
    """Sets a sentence's labels, if nobody has changed them since that version."""
    new = Labels(
        tuple(sorted({span.mark() for span in body.spans})),
        body.none,
        tuple(sorted({span.mark() for span in body.rejected})),
    )
    with bench.store.writing() as database:
        try:
            labels.put(database, number, body.version, new)
        except Conflict as error:
            raise Conflict(str(error), sentence=views.sentence(database, number)) from None
        found = views.sentence(database, number)
    response.headers["etag"] = f'"{found["version"]}"'
    return found


@router.get("/sentences/{number}/history")
def read_history(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """What happened to a sentence, newest first."""
    with bench.store.reading() as database:
        found = labels.history(database, number)
        return {"events": [_past(database, row, then) for row, then in found]}


def _past(database: Database, row: Any, then: Labels) -> dict[str, Any]:
    return {
        **(views.event(database, row) or {}),
        "spans": views.spans(then.spans),
        "none": then.none,
        "rejected": views.spans(then.rejected),
    }


@router.post("/undo")
def undo(bench: Bench, body: StepBody) -> dict[str, Any]:
    """Takes back the last change."""
    return _step(bench, labels.undo, body.event)


@router.post("/redo")
def redo(bench: Bench, body: StepBody) -> dict[str, Any]:
    """Makes again what was taken back last."""
    return _step(bench, labels.redo, body.event)


def _step(
    bench: Workbench, step: Callable[[Database, int | None], int], expected: int | None
) -> dict[str, Any]:
    with bench.store.writing() as database:
        try:
            number = step(database, expected)
        except Conflict as error:
            raise Conflict(str(error), **views.undoable(database)) from None
        row = events.event(database, number)
        assert row is not None
        shown = row["sentence"] is not None and documents.sentences_of(database, [row["sentence"]])
        found = {
            "event": views.event(database, row),
            "sentence": views.sentences(database, shown)[0] if shown else None,
            "document": row["document"],
            **views.undoable(database),
        }
    bench.sweep.wake()
    return found


@router.get("/types")
def list_types(bench: Bench) -> dict[str, Any]:
    """The types of mentions."""
    with bench.store.reading() as database:
        return {"types": mention_types.listed(database)}


@router.post("/types", status_code=201)
def add_type(bench: Bench, body: NewType) -> dict[str, Any]:
    """Adds a type; a key and a colour are found for it if none are said."""
    with bench.store.writing() as database:
        found = mention_types.add(database, body.name, body.key, body.colour)
        refresh_type(database, body.name)
        return found


@router.patch("/types/{number}")
def change_type(bench: Bench, number: PathNumber, body: TypeChange) -> dict[str, Any]:
    """Gives a type another name, key or colour."""
    with bench.store.writing() as database:
        before = mention_types.one(database, number)
        found = mention_types.change(database, number, body.name, body.key, body.colour)
        if found["name"] != before["name"]:
            refresh_type(database, before["name"], found["name"])
        return found


@router.delete("/types/{number}")
def remove_type(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Removes a type that no label uses."""
    with bench.store.writing() as database:
        before = mention_types.one(database, number)
        mention_types.remove(database, number)
        refresh_type(database, before["name"])
        return {"types": mention_types.listed(database)}
