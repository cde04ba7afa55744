"""Whether a model that was written in another form still says the same."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import torch

from hardner.errors import HardnerError
from hardner.evaluate.score import score
from hardner.model.layers import SCORING, mask_of
from hardner.tag.predictor import Predictor
from hardner.text import sentences
from hardner.types import Document, Sentence, Span

ROUNDING = 1e-3
"""By how much scores of tags may differ in single precision."""
LOSS = 0.01
"""By how much F1 may drop in 8 bits."""


@dataclass(frozen=True)
class Checked:
    """What a check has found."""

    before: float
    """F1 of the model."""
    after: float
    """F1 of its other form."""
    difference: float
    """The largest between any two scores of a tag."""
    speed: tuple[float, float]
    """Words per second, before and after."""


def example() -> list[Sentence]:
    """Sentences without labels that come with the package."""
    text = files("hardner").joinpath("assets", "example.txt").read_text("utf-8")
    return list(sentences(Document("example", text)))


def check_export(
    before: Predictor, after: Predictor, labelled: Sequence[Sentence] | None
) -> Checked:
    """Compare two forms of a model on labelled sentences.

    Without any, the right mentions are those that the model itself finds in `example`.
    """
    texts = list(labelled) if labelled is not None else example()
    labels = sorted({s.label for t in texts for s in t.spans} & set(before.labels)) or None
    if labelled is not None and labels is None:
        raise HardnerError(f"nothing to check: no label of the model's, {', '.join(before.labels)}")
    found, seconds = zip(*(_timed(model, texts, labels) for model in (before, after)), strict=True)
    right = [_own(t.spans, labels) for t in texts] if labelled is not None else found[0]
    words = sum(map(len, texts))
    f1 = [1.0 if spans == right else score(right, spans).f1 for spans in found]
    pace = (words / seconds[0], words / seconds[1])
    return Checked(f1[0], f1[1], difference(before, after, texts), pace)


def refuse(checked: Checked, quantised: bool) -> None:
    """Raise an error where the other form is not the same model any more."""
    if not quantised and not checked.difference <= ROUNDING:
        message = f"the graph's scores differ by {checked.difference:.2g} from the model's"
        raise HardnerError(f"{message}; it was not written")
    if checked.before - checked.after > LOSS:
        message = f"F1 drops from {checked.before:.3f} to {checked.after:.3f}, more than {LOSS}"
        raise HardnerError(f"{message}; the model was not written, export it without --int8")


@torch.inference_mode()
def difference(before: Predictor, after: Predictor, texts: Sequence[Sentence]) -> float:
    """The largest difference of any score of a tag."""
    heads = torch.arange(len(before.tagger.tag_sets))
    largest = 0.0
    for text in texts:
        said = []
        for model in (before, after):
            store = model.tagger.store([Sentence(text.tokens)])
            rows = torch.zeros(1, 1, dtype=torch.long)
            batch = store.batch(rows, store.widths(rows.numpy().ravel()))
            encoded = model.tagger.encoder(model.params, batch, SCORING)
            scores, lengths, _ = model.tagger.emissions(model.params, encoded, batch, heads)
            said.append(scores[mask_of(lengths, scores.shape[2])])  # [N, C]
        largest = max(largest, float((said[0] - said[1]).abs().max()))
    return largest


def _timed(
    model: Predictor, texts: Sequence[Sentence], labels: Sequence[str] | None
) -> tuple[list[tuple[Span, ...]], float]:
    """The spans that a model finds, and the seconds that it takes."""
    model.spans(texts[:8])
    start = time.perf_counter()
    found = model.spans(texts, labels=labels)
    seconds = time.perf_counter() - start
    return [tuple(sorted({span for span, _ in row})) for row in found], seconds


def _own(spans: Sequence[Span], labels: Sequence[str] | None) -> tuple[Span, ...]:
    return tuple(span for span in spans if labels is None or span.label in labels)
