"""What the workbench asks of models, in one place; torch is imported when a model is needed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import hardner
from hardner.types import Entity, Sentence, Span

if TYPE_CHECKING:
    from hardner.tag.suggest import Suggestion

BUNDLED = Path(hardner.__file__).parent / "assets" / "model"
"""The model that comes with the package, if one does."""
Heard = Callable[[int, int], None]
"""Told how much is done, of how much."""


@dataclass(frozen=True)
class Learnt:
    """What a type was learnt from, and what to expect: None where nothing could be held out."""

    label: str
    sentences: int
    mentions: int
    f1: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    """What `more` sentences would add."""
    more: int = 0
    notes: tuple[str, ...] = ()


class Model(Protocol):
    """As much of a `hardner.Predictor` as is needed."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    def pipe(self, texts: Iterable[str]) -> Iterator[list[Entity]]: ...
    def spans(self, sentences: Sequence[Sentence]) -> list[list[tuple[Span, float]]]: ...
    def hardness(
        self, sentences: Sequence[Sentence], *, labels: Collection[str] | None = None
    ) -> list[float]: ...
    def save(self, path: Path) -> None: ...


def load(folder: Path | None) -> Model:
    """The model in a folder, or the bundled one."""
    from hardner.tag.predictor import Predictor

    return Predictor.load(folder)


def adapted(
    model: Model,
    sentences: Sequence[Sentence],
    label: str,
    keep: bool,
    force: bool,
    heard: Heard,
) -> tuple[Model, Learnt]:
    """The model, fitted to the mentions of a label."""
    from hardner.adapt.workflow import adapt_predictor
    from hardner.tag.predictor import Predictor

    assert isinstance(model, Predictor)
    made, report = adapt_predictor(
        model, sentences, label, keep=keep, force=force, on_progress=heard
    )
    learnt = Learnt(label, report.sentences, report.mentions, notes=report.notes)
    if (seen := report.expected) is not None:
        f1 = seen.f1
        learnt = replace(
            learnt, f1=f1.value, low=f1.low, high=f1.high, gain=seen.gain.value, more=seen.more
        )
    return made, learnt


def hardest(
    model: Model,
    sentences: Iterable[Sentence],
    n: int,
    known: Iterable[Sentence],
    label: str | None,
) -> "list[Suggestion]":
    """The sentences to label next."""
    from hardner.tag.suggest import suggest_sentences

    return suggest_sentences(model, sentences, n, label=label, known=known)  # type: ignore[arg-type]
