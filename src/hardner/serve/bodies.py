"""What requests say, and what they are answered with where scripts build on it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

BIGGEST = 2**53 - 1
"""The largest number that every reader of JSON reads as it is."""


def _clean(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def _named(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be printable and not blank")
    return text.strip()


Number = Annotated[int, Field(ge=1, le=BIGGEST, strict=True)]
PathNumber = Annotated[int, Field(ge=1, le=BIGGEST)]
Place = Annotated[int, Field(ge=0, le=BIGGEST, strict=True)]
Text = Annotated[str, AfterValidator(_clean)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_named)]
Key = Annotated[str, Field(pattern="^[a-z0-9]$")]
Colour = Annotated[int, Field(ge=0, le=7, strict=True)]
Filter = Literal["all", "labelled", "unlabelled", "suggested", "disagreeing", "held_out"]


class Body(BaseModel):
    """A JSON object with these keys and no others."""

    model_config = ConfigDict(extra="forbid")


class Nothing(Body):
    """An empty object."""


class Mention(Body):
    """In characters of the text."""

    start: Place
    end: Place
    label: Name


class NewDocument(Body):
    """A text to add."""

    name: Annotated[Text, Field(max_length=200)] = ""
    text: Annotated[Text, Field(min_length=1)]
    entities: list[Mention] | None = None
    """If there are none, the text holds none; without this, it is not known."""


class NewDocuments(Body):
    """Texts to add."""

    documents: Annotated[list[NewDocument], Field(min_length=1, max_length=10_000)]
    held_out: bool = False


class DocumentChange(Body):
    """What is to change; the rest stays."""

    name: Name | None = None
    held_out: bool | None = None


class SpanBody(Body):
    """In tokens of the sentence."""

    start: Place
    end: Place
    type: Number

    def mark(self) -> tuple[int, int, int]:
        return self.start, self.end, self.type


Spans = Annotated[list[SpanBody], Field(max_length=2_000)]


class LabelsBody(Body):
    """The labels that a sentence is to have, and the version they are a change of."""

    version: Place
    spans: Spans = []
    none: bool = False
    rejected: Spans = []


class StepBody(Body):
    """Which event is expected to be on top of the stack."""

    event: Number | None = None


class NewType(Body):
    """A type of mention."""

    name: Name
    key: Key | None = None
    colour: Colour | None = None


class TypeChange(Body):
    """What is to change; the rest stays."""

    name: Name | None = None
    key: Key | None = None
    colour: Colour | None = None


class AdaptBody(Body):
    """How to adapt."""

    keep: bool = False
    """Whether the model's own types stay beside the new ones."""
    force: bool = False
    """Whether to go on where the model does better as it is."""


class SuggestBody(Body):
    """How many sentences, and of what: the project's, or those of texts."""

    n: Annotated[int, Field(ge=1, le=100, strict=True)] = 10
    skip: Annotated[list[Number], Field(max_length=10_000)] = []
    texts: Annotated[list[Text], Field(max_length=1_000)] | None = None


class TagBody(Body):
    """Texts to tag."""

    texts: Annotated[list[Text], Field(max_length=1_000)]
    labels: Annotated[list[Text], Field(max_length=100)] | None = None
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0


class EntityFound(BaseModel):
    """In characters of the text."""

    start: int
    end: int
    label: str
    text: str
    score: float


class Tagged(BaseModel):
    """What was found in a text."""

    entities: list[EntityFound]


class TagAnswer(BaseModel):
    """What was found in each text, and by which model."""

    model: int
    results: list[Tagged]


class ErrorAnswer(BaseModel):
    """What is wrong, in one line."""

    error: str
