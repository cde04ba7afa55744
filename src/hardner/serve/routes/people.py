"""Who labels, how far they agree, and verdicts where they do not."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from hardner.serve import readings
from hardner.serve.database import Database
from hardner.serve.labels import decide_difference
from hardner.serve.routes import Bench, Name, PathNumber
from hardner.serve.routes.labels import SpanBody
from hardner.serve.sentences import show_marks, show_sentence

router = APIRouter(prefix="/api", tags=["people"])

_Marks = Annotated[list[SpanBody], Field(max_length=2_000)]


class PeopleChange(BaseModel, extra="forbid"):
    alone: bool
    """Whether each annotator reads alone, without seeing the labels of others."""


class AnnotatorChange(BaseModel, extra="forbid"):
    name: Name


class Verdict(BaseModel, extra="forbid"):
    """Marks that annotators differ on, and those of them that are to be labels."""

    marks: Annotated[_Marks, Field(min_length=1)]
    wanted: _Marks = []


@router.get("/people")
def get_people(bench: Bench) -> dict[str, Any]:
    """The annotators, what each has done, and how far they agree.

    A request is on behalf of the annotator whose name its header X-Annotator has, percent-encoded.
    """
    with bench.project.reading() as database:
        return _people(database)


def _people(database: Database) -> dict[str, Any]:
    return {
        "me": readings.own_name(database),
        "alone": database.alone,
        "people": readings.list_people(database),
        "agreement": readings.agreement(database),
        "differences": len(_differences(database)),
    }


def _differences(database: Database) -> list[tuple[int, list[readings.Mark]]]:
    """The differences to decide: a sentence, and marks that overlap or are one alone."""
    return [
        (number, marks)
        for number in readings.differing_sentences(database)
        for marks in readings.connected(readings.undecided_marks(database, number))
    ]


@router.patch("/people")
def patch_people(bench: Bench, body: PeopleChange) -> dict[str, Any]:
    """Lets annotators read alone, or work on the same labels."""
    with bench.project.writing() as database:
        readings.let_read_alone(database, body.alone)
        return _people(database)


@router.patch("/people/{number}")
def patch_annotator(bench: Bench, number: PathNumber, body: AnnotatorChange) -> dict[str, Any]:
    """Gives an annotator another name, under which all they did goes on."""
    with bench.project.writing() as database:
        readings.rename_annotator(database, number, body.name)
        return _people(database)


@router.get("/differences")
def get_differences(bench: Bench) -> dict[str, Any]:
    """The next difference to decide: what each annotator says of a few words."""
    with bench.project.reading() as database:
        found = _differences(database)
        if not found:
            return {"total": 0, "difference": None}
        number, marks = found[0]
        names = readings.annotator_names(database)
        said = [
            {
                "annotator": names[reading.annotator],
                "spans": show_marks([mark for mark in marks if mark in reading.spans]),
            }
            for reading in readings.readings_of(database, number)
            if reading.state != "open"
        ]
        database.alone = False  # whoever decides sees what is agreed on, not only their own labels
        sentence = show_sentence(database, number)
        difference = {"sentence": sentence, "marks": show_marks(marks), "readings": said}
        return {"total": len(found), "difference": difference}


@router.post("/differences/{number}")
def post_verdict(bench: Bench, number: PathNumber, body: Verdict) -> dict[str, Any]:
    """Decides a difference in a sentence; an undo takes the verdict back."""
    marks, wanted = ([(m.start, m.end, m.type) for m in own] for own in (body.marks, body.wanted))
    with bench.project.writing() as database:
        decide_difference(database, number, marks, set(wanted))
    bench.predictions.wake()
    return get_differences(bench)
