"""The spaCy component ``hardner`` (extra ``hardner[spacy]``).

    nlp = spacy.blank("en")
    nlp.add_pipe("hardner", config={"min_score": 0.5})
    doc = nlp("Aspirin may worsen asthma.")

``doc.spans["hardner"]`` holds every mention, and their scores as its attribute ``scores``;
mentions of different types may overlap there. ``doc.ents`` takes those that do not overlap, the
most probable first, and keeps the entities of earlier components that overlap none of them.
``ent._.score`` is an entity's score.
"""

import io
import json
import multiprocessing
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee
from pathlib import Path

import torch
from spacy.language import Language
from spacy.tokens import Doc, Span

from hardner.schemes import non_overlapping
from hardner.tag.guidelines import load
from hardner.tag.predictor import Predictor
from hardner.tag.text_tagger import check_scores
from hardner.types import Entity

_MODEL, _SETTINGS = "model", "settings.json"
_SCORE = "score"


@dataclass(eq=False)
class SpacyComponent:
    """Finds mentions in documents; a mention that cuts a token of spaCy's is widened to it."""

    name: str
    model: str | None
    """A model folder; None for the model that comes with the package."""
    only: tuple[str, ...] | None
    """The labels that are kept; None for all."""
    spans_key: str
    min_score: float | None
    """None for the model's own thresholds."""

    def __post_init__(self) -> None:
        self._predictor: Predictor | None = None
        if not Span.has_extension(_SCORE):
            Span.set_extension(_SCORE, default=None)

    @property
    def predictor(self) -> Predictor:
        """The model, loaded when first needed: spaCy makes a component, then calls `from_disk`."""
        if self._predictor is None:
            self._predictor = load(self.model)
        return self._predictor

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that may be found; none before the model is loaded."""
        known = self._predictor.labels if self._predictor is not None else ()
        return known if self.only is None else self.only

    def __call__(self, doc: Doc) -> Doc:
        """The document with its mentions."""
        return next(self.pipe([doc], batch_size=1))

    def pipe(self, docs: Iterable[Doc], *, batch_size: int | None = None) -> Iterator[Doc]:
        """The documents with their mentions, in order."""
        if multiprocessing.parent_process() is not None:
            torch.set_num_threads(1)  # waiting for the parent's threads would never end
        docs, again = tee(docs)
        found = self.predictor.pipe(
            (doc.text for doc in again),
            batch_size=batch_size,
            labels=self.only,
            min_score=self.min_score,
        )
        for doc, entities in zip(docs, found, strict=True):
            self._fill(doc, entities)
            yield doc

    def _fill(self, doc: Doc, entities: Sequence[Entity]) -> None:
        spans = [_span(doc, entity) for entity in entities]
        scores = [entity.score for entity in entities]
        doc.spans[self.spans_key] = spans
        doc.spans[self.spans_key].attrs["scores"] = scores
        score_of: dict[Span, float] = {}
        for span, score in zip(spans, scores, strict=True):
            score_of[span] = max(score, score_of.get(span, 0.0))
        best = non_overlapping(spans, lambda span: -score_of[span])
        for span in best:
            span._.set(_SCORE, score_of[span])
        # With equal preference the first win: ours over those of earlier components.
        doc.set_ents(non_overlapping([*best, *doc.ents], lambda _: 0))

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component, its model included."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self.predictor.save(folder / _MODEL)
        settings = {"labels": self.only, "spans_key": self.spans_key, "min_score": self.min_score}
        (folder / _SETTINGS).write_text(json.dumps(settings), "utf-8")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SpacyComponent":
        """Read what `to_disk` wrote."""
        folder = Path(path)
        settings = json.loads((folder / _SETTINGS).read_text("utf-8"))
        self.only = None if settings["labels"] is None else tuple(settings["labels"])
        self.spans_key, self.min_score = settings["spans_key"], settings["min_score"]
        self._predictor = load(folder / _MODEL)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component, its model included, as a zip archive."""
        stream = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(stream, "w") as archive:
            self.to_disk(folder)
            for path in sorted(Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))
        return stream.getvalue()

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> "SpacyComponent":
        """Read what `to_bytes` gave."""
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(folder)
            return self.from_disk(folder)


def _span(doc: Doc, entity: Entity) -> Span:
    found = doc.char_span(entity.start, entity.end, entity.label, alignment_mode="expand")
    assert found is not None, f"{entity} lies outside of the text"
    return found


@Language.factory(
    "hardner",
    assigns=["doc.ents", "doc.spans", "span._.score"],
    default_config={"model": None, "labels": None, "spans_key": "hardner", "min_score": None},
)
def create_component(
    nlp: Language,
    name: str,
    model: str | None,
    labels: list[str] | None,
    spans_key: str,
    min_score: float | None,
) -> SpacyComponent:
    """Make the component for a pipeline.

    Args:
        nlp: The pipeline.
        name: The component's name in it.
        model: A model folder; without one, the model that comes with the package.
        labels: The labels to keep; all by default.
        spans_key: Where mentions stand in ``doc.spans``.
        min_score: The least probable mention to keep; by default, the model's own thresholds say.
    """
    check_scores([] if min_score is None else [min_score], "min_score")
    only = None if labels is None else tuple(labels)
    return SpacyComponent(name, model, only, spans_key, min_score)
