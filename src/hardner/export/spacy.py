"""The spaCy component ``hardner`` (extra ``hardner[spacy]``).

    nlp = spacy.blank("en")
    nlp.add_pipe("hardner", config={"min_score": 0.5})
    doc = nlp("Aspirin may worsen asthma.")

``doc.spans["hardner"]`` holds every mention, its attribute ``scores`` their scores; mentions of
different types may overlap there. ``doc.ents`` gets those that do not, the best first, beside
entities of earlier components that none of them overlaps; ``ent._.score`` is an entity's score.
"""

import io
import json
import multiprocessing
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from pathlib import Path
from typing import Any

import torch
from spacy.language import Language
from spacy.tokens import Doc, Span

from hardner.errors import HardnerError
from hardner.tag.predictor import Predictor, load
from hardner.types import Entity

MODEL, SETTINGS = "model", "settings.json"
SCORE = "score"


class Component:
    """Finds mentions in documents; offsets that cut a token of spaCy's are widened to it."""

    def __init__(
        self,
        name: str,
        model: str | None,
        labels: Sequence[str] | None,
        spans_key: str,
        min_score: float,
    ) -> None:
        """Args: ``model`` is a folder; without one, the model that comes with the package."""
        self.name = name
        self.only = None if labels is None else tuple(labels)
        self.spans_key, self.min_score = spans_key, min_score
        self._folder = model
        self._predictor: Predictor | None = None
        if not Span.has_extension(SCORE):
            Span.set_extension(SCORE, default=None)

    @property
    def predictor(self) -> Predictor:
        """Read when it is first needed, as spaCy makes a component before it fills it."""
        if self._predictor is None:
            self._predictor = load(self._folder)
        return self._predictor

    @property
    def labels(self) -> tuple[str, ...]:
        """What may be found; unknown, so none, before the model is read."""
        known = self._predictor.labels if self._predictor is not None else ()
        return known if self.only is None else self.only

    def __call__(self, doc: Doc) -> Doc:
        """The document with its mentions."""
        return next(self.pipe([doc], batch_size=1))

    def pipe(self, docs: Iterable[Doc], *, batch_size: int | None = None) -> Iterator[Doc]:
        """The documents with their mentions, in order."""
        if multiprocessing.parent_process() is not None:
            torch.set_num_threads(1)  # a forked process has none of its parent's threads
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
        taken: set[int] = set()
        ours = []
        for score, span in sorted(zip(scores, spans, strict=True), key=lambda pair: -pair[0]):
            tokens = set(range(span.start, span.end))
            if taken.isdisjoint(tokens):
                taken |= tokens
                span._.set(SCORE, score)
                ours.append(span)
        earlier = [e for e in doc.ents if taken.isdisjoint(range(e.start, e.end))]
        doc.set_ents([*ours, *earlier])

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component, its model included."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self.predictor.save(folder / MODEL)
        (folder / SETTINGS).write_text(json.dumps(self._settings()), "utf-8")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Component":
        """Read what `to_disk` wrote."""
        folder = Path(path)
        self._restore(json.loads((folder / SETTINGS).read_text("utf-8")))
        self._predictor = load(folder / MODEL)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component, its model included, as a zip archive."""
        stream = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(stream, "w") as archive:
            self.to_disk(folder)
            for path in sorted(Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))
        return stream.getvalue()

    def from_bytes(self, content: bytes, *, exclude: Iterable[str] = ()) -> "Component":
        """Read what `to_bytes` gave."""
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                archive.extractall(folder)
            return self.from_disk(folder)

    def _settings(self) -> dict[str, Any]:
        labels = None if self.only is None else list(self.only)
        return {"labels": labels, "spans_key": self.spans_key, "min_score": self.min_score}

    def _restore(self, settings: dict[str, Any]) -> None:
        labels = settings["labels"]
        self.only = None if labels is None else tuple(labels)
        self.spans_key, self.min_score = settings["spans_key"], settings["min_score"]


def _span(doc: Doc, entity: Entity) -> Span:
    found = doc.char_span(entity.start, entity.end, entity.label, alignment_mode="expand")
    assert found is not None, f"{entity} lies outside of the text"
    return found


@Language.factory(
    "hardner",
    assigns=["doc.ents", "doc.spans", "span._.score"],
    default_config={"model": None, "labels": None, "spans_key": "hardner", "min_score": 0.0},
)
def create_component(
    nlp: Language,
    name: str,
    model: str | None,
    labels: list[str] | None,
    spans_key: str,
    min_score: float,
) -> Component:
    """Make the component.

    Args:
        nlp: The pipeline.
        name: Of the component in it.
        model: A model folder; without one, the model that comes with the package.
        labels: Only these.
        spans_key: Under which mentions stand in ``doc.spans``.
        min_score: Only mentions as probable as that.
    """
    if not 0 <= min_score <= 1:
        raise HardnerError(f"min_score is {min_score}; expected 0 to 1")
    return Component(name, model, labels, spans_key, min_score)
