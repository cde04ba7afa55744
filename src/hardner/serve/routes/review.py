"""Review: candidates with their sentences, lists of many, and many accepted at once."""

from collections import defaultdict
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from hardner.serve import review
from hardner.serve.documents import full_text_query
from hardner.serve.errors import Refused
from hardner.serve.mention_types import find_type
from hardner.serve.occurrences import label_examples
from hardner.serve.readings import Mark
from hardner.serve.routes import Bench, Number, PathNumber, Text
from hardner.serve.routes.labels import SpanBody

router = APIRouter(prefix="/api", tags=["review"])

_Score = Annotated[float, Field(ge=0, le=1)]
_LISTED = 2_000  # candidates of a list to tick
_QUEUED = 200  # candidates that come with their sentences


class PlaceBody(SpanBody):
    """Words of a sentence, and what they are or may be."""

    sentence: Number


class QuestionBody(BaseModel, extra="forbid"):
    """Which candidates to look at."""

    source: str = "suggestions"
    types: Annotated[list[Number], Field(max_length=1_000)] = []
    """Empty for all."""
    low: _Score = 0.0
    high: _Score = 1.0
    """The range of scores. Of words that were labelled elsewhere, the share of such labels."""
    state: str = "any"
    query: Annotated[Text, Field(max_length=1_000)] = ""
    """Words that the document has to hold."""
    order: str = "surest"

    def question(self) -> review.ReviewQuestion:
        for value, known in (
            (self.source, review.SOURCES),
            (self.state, review.STATES_TO_REVIEW),
            (self.order, review.ORDERS),
        ):
            if value not in known:
                raise Refused(f"unknown {value!r}; known are {', '.join(known)}")
        words = full_text_query(self.query)
        if self.query.strip() and not words:
            raise Refused("there is no word to search for")
        kinds = frozenset(self.types)
        return review.ReviewQuestion(
            self.source, kinds, self.low, self.high, self.state, words, self.order
        )


class QueueBody(QuestionBody):
    skip: Annotated[list[PlaceBody], Field(max_length=10_000)] = []
    """Candidates that were looked at without an answer."""
    limit: Annotated[int, Field(ge=1, le=_QUEUED, strict=True)] = 50


class PlacesBody(BaseModel, extra="forbid"):
    spans: Annotated[list[PlaceBody], Field(min_length=1, max_length=_LISTED)]


def _mark(place: PlaceBody) -> tuple[int, Mark]:
    return place.sentence, (place.start, place.end, place.type)


@router.post("/review")
def post_review(bench: Bench, body: QueueBody) -> dict[str, Any]:
    """The next candidates, with their sentences and the texts around these."""
    with bench.project.reading() as database:
        found = review.find_candidates(database, body.question(), frozenset(map(_mark, body.skip)))
        return {"total": len(found), **review.show_candidates(database, found[: body.limit])}


@router.post("/review/list")
def post_list(bench: Bench, body: QuestionBody) -> dict[str, Any]:
    """Candidates as a list to choose from."""
    with bench.project.reading() as database:
        found = review.find_candidates(database, body.question())
        listed = [one for one in found if one.kind == "missing"]
        return {"total": len(listed), "found": review.list_candidates(database, listed[:_LISTED])}


@router.post("/review/same")
def post_same(bench: Bench, body: PlaceBody) -> dict[str, Any]:
    """Where else the words of a span stand without an answer, as a list to choose from."""
    with bench.project.reading() as database:
        found = review.find_same_words(database, body.sentence, body.start, body.end, body.type)
        return {"total": len(found), "found": review.list_candidates(database, found[:_LISTED])}


@router.post("/review/accept")
def post_accept(bench: Bench, body: PlacesBody) -> dict[str, Any]:
    """Labels many spans as one change, which one undo takes back."""
    wanted: dict[int, list[Mark]] = defaultdict(list)
    for place in body.spans:
        number, mark = _mark(place)
        wanted[number].append(mark)
    with bench.project.writing() as database:
        return review.accept_all(database, wanted)


@router.get("/types/{number}/examples")
def get_examples(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """The mentions that were labelled most often with a type."""
    with bench.project.reading() as database:
        find_type(database, number)
        return {"examples": label_examples(database, number)}
