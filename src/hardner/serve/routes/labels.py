"""Labels of sentences, their history, undo and redo, and the types they are of."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from hardner.serve import labels, mention_types
from hardner.serve.errors import Conflict, Refused
from hardner.serve.history import label_history, show_event, show_undo, take_step
from hardner.serve.loose import remove_loose
from hardner.serve.predictions import compare_type
from hardner.serve.readings import Mark
from hardner.serve.routes import Bench, Index, Name, Number, PathNumber, Text
from hardner.serve.sentences import find_sentences, set_note, show_sentence, show_sentences

router = APIRouter(prefix="/api", tags=["labels"])

_MOST_SENTENCES = 200  # in one answer
_Key = Annotated[str, Field(pattern="^[a-z0-9]?$")]
_Colour = Annotated[int, Field(ge=0, le=7, strict=True)]


class SpanBody(BaseModel, extra="forbid"):
    """In tokens of the sentence."""

    start: Index
    end: Index
    type: Number


_Spans = Annotated[list[SpanBody], Field(max_length=2_000)]


class LabelsBody(BaseModel, extra="forbid"):
    """The labels that a sentence is to have, and the version they are a change of."""

    version: Index
    spans: _Spans = []
    none: bool = False
    rejected: _Spans = []
    partial: bool = False
    """Whether there may be mentions beside these: the sentence was not read to its end."""


class StepBody(BaseModel, extra="forbid"):
    """Which event is expected to be on top of the stack."""

    event: Number | None = None


class NewType(BaseModel, extra="forbid"):
    name: Name
    key: _Key | None = None
    colour: _Colour | None = None


class TypeChange(BaseModel, extra="forbid"):
    name: Name | None = None
    key: _Key | None = None
    """Empty for none: such a type is found by its name."""
    colour: _Colour | None = None
    guideline: Annotated[Text, Field(max_length=50_000)] | None = None
    """In Markdown."""


class NoteBody(BaseModel, extra="forbid"):
    """Words of the sentence, and what to note of them; an empty text deletes the note."""

    start: Index
    end: Index
    text: Annotated[Text, Field(max_length=5_000)]


@router.get("/sentences")
def get_sentences(
    bench: Bench, ids: Annotated[str, Query(pattern="^[0-9]{1,15}(,[0-9]{1,15})*$")]
) -> dict[str, Any]:
    """Sentences by their numbers, as far as they are there."""
    numbers = [int(number) for number in ids.split(",")]
    if len(numbers) > _MOST_SENTENCES:
        raise Refused(f"more than {_MOST_SENTENCES} sentences; ask for them in parts")
    with bench.project.reading() as database:
        return {"sentences": show_sentences(database, find_sentences(database, numbers))}


@router.get("/sentences/{number}")
def get_sentence(bench: Bench, number: PathNumber, response: Response) -> dict[str, Any]:
    """A sentence with its labels and what the current model finds."""
    with bench.project.reading() as database:
        found = show_sentence(database, number)
    response.headers["etag"] = f'"{found["version"]}"'
    return found


@router.put("/sentences/{number}")
def put_sentence(
    bench: Bench, number: PathNumber, body: LabelsBody, response: Response
) -> dict[str, Any]:
    """Sets a sentence's labels, if nobody has changed them since that version."""
    spans, rejected = _marks(body.spans), _marks(body.rejected)
    new = labels.SentenceLabels(spans, body.none, rejected, body.partial and bool(spans))
    with bench.project.writing() as database:
        try:
            labels.set_labels(database, number, body.version, new)
        except Conflict as error:
            raise Conflict(str(error), sentence=show_sentence(database, number)) from None
        found = show_sentence(database, number)
    response.headers["etag"] = f'"{found["version"]}"'
    return found


def _marks(spans: list[SpanBody]) -> tuple[Mark, ...]:
    return tuple(sorted({(span.start, span.end, span.type) for span in spans}))


@router.put("/sentences/{number}/note")
def put_note(bench: Bench, number: PathNumber, body: NoteBody) -> dict[str, Any]:
    """Writes a note on words of a sentence."""
    with bench.project.writing() as database:
        set_note(database, number, body.start, body.end, body.text.strip())
        return show_sentence(database, number)


@router.delete("/loose/{number}")
def delete_loose(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Takes out a mention that does not fit the words of a sentence; an undo brings it back."""
    with bench.project.writing() as database:
        remove_loose(database, number)
        return show_undo(database)


@router.get("/sentences/{number}/history")
def get_history(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """What happened to a sentence, newest first."""
    with bench.project.reading() as database:
        return {"events": label_history(database, number)}


@router.post("/undo")
def post_undo(bench: Bench, body: StepBody) -> dict[str, Any]:
    """Takes back the last change."""
    return _step(bench, "undo", body.event)


@router.post("/redo")
def post_redo(bench: Bench, body: StepBody) -> dict[str, Any]:
    """Makes again what was taken back last."""
    return _step(bench, "redo", body.event)


def _step(bench: Bench, kind: Literal["undo", "redo"], expected: int | None) -> dict[str, Any]:
    with bench.project.writing() as database:
        try:
            event = take_step(database, kind, expected)
        except Conflict as error:
            raise Conflict(str(error), **show_undo(database)) from None
        numbers = [] if event["sentence"] is None else [event["sentence"]]
        shown = show_sentences(database, find_sentences(database, numbers))
        answer = {
            "event": show_event(database, event),
            "sentence": shown[0] if shown else None,
            "document": event["document"],
            **show_undo(database),
        }
    bench.predictions.wake()
    return answer


@router.get("/types")
def get_types(bench: Bench) -> dict[str, Any]:
    """The types of mentions."""
    with bench.project.reading() as database:
        return {"types": mention_types.list_types(database)}


@router.post("/types", status_code=201)
def post_type(bench: Bench, body: NewType) -> dict[str, Any]:
    """Adds a type; a key and a colour are found for it if none are said."""
    with bench.project.writing() as database:
        found = mention_types.add_type(database, body.name, body.key, body.colour)
        compare_type(database, body.name)
        return found


@router.patch("/types/{number}")
def patch_type(bench: Bench, number: PathNumber, body: TypeChange) -> dict[str, Any]:
    """Gives a type another name, key, colour or guideline."""
    with bench.project.writing() as database:
        before = mention_types.find_type(database, number)
        changes = body.model_dump(exclude_none=True)
        found = mention_types.change_type(database, number, changes)
        if found["name"] != before["name"]:
            compare_type(database, before["name"], found["name"])
        return found


@router.delete("/types/{number}")
def delete_type(bench: Bench, number: PathNumber, with_labels: bool = False) -> dict[str, Any]:
    """Removes a type that no label uses, or its labels with it; an undo brings it back."""
    with bench.project.writing() as database:
        labels.remove_type(database, number, with_labels)
        return {"types": mention_types.list_types(database)}
