"""What the tagging server is asked and what it answers, as JSON."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardner.serve.routes import Text

_TEXTS = 1_000  # of a request
_EXAMPLE = "Aspirin may worsen asthma."
_FOUND: Any = {"start": 19, "end": 25, "label": "Disease", "text": "asthma", "score": 0.98}


def _example(*examples: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [*examples]})


class TagRequest(BaseModel, extra="forbid"):
    """One text or several, and what is wanted of them."""

    model_config = _example(
        {"text": _EXAMPLE},
        {"texts": [_EXAMPLE, "No fever."], "labels": ["Disease"], "min_score": 0.5},
    )
    text: Text | None = None
    """One text to tag."""
    texts: Annotated[list[Text], Field(max_length=_TEXTS)] | None = None
    """Several texts, in place of ``text``."""
    model: Annotated[str, Field(max_length=200)] | None = None
    """The name of a model, as `GET /models` lists them; by default the first."""
    labels: Annotated[list[Text], Field(max_length=100)] | None = None
    """Only these; by default all that the model knows."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Only entities that are as probable as that; by default, the model's own thresholds."""

    @model_validator(mode="after")
    def _one_of_two(self) -> "TagRequest":
        if (self.text is None) == (self.texts is None):
            raise ValueError("give either text or texts")
        return self

    @property
    def given(self) -> list[str]:
        """The texts, be it one."""
        return self.texts if self.texts is not None else [self.text or ""]


class FoundEntity(BaseModel):
    """Offsets count characters (code points); ``end`` is the first one behind the entity."""

    model_config = _example(_FOUND)
    start: int
    end: int
    label: str
    text: str
    score: float


class TextResult(BaseModel):
    entities: list[FoundEntity]


class TagAnswer(BaseModel):
    """The results in the order of the texts."""

    model_config = {
        "json_schema_extra": {
            "examples": [{"model": "bundled", "results": [{"entities": [_FOUND]}]}]
        }
    }
    model: str
    results: list[TextResult]


class ModelAnswer(BaseModel):
    """A model that is served."""

    name: str
    ready: bool
    labels: list[str]
    form: str
    """What it is computed by: `onnx int8`, `onnx` or `torch`."""
    note: str
    """How that form compares with the model."""


class ModelsAnswer(BaseModel):
    """The models; the first is the default."""

    models: list[ModelAnswer]


class HealthAnswer(BaseModel):
    status: str
