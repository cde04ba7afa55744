"""Whether a model still finds the same after it was exported or distilled."""

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

_ROUNDING = 1e-3
"""The most by which scores of tags may differ in single precision."""
_LOSS = 0.01
"""The most by which F1 may drop in 8 bits."""


@dataclass(frozen=True)
class ExportCheck:
    """How two forms of a model compare."""

    before: float
    """F1 of the model."""
    after: float
    """F1 of its other form."""
    difference: float
    """The largest difference between two scores of a tag."""
    speed: tuple[float, float]
    """Words per second, before and after."""
    mentions: int = 0
    """That count as gold."""

    @property
    def is_the_same(self) -> bool:
        """Whether F1 stays, but for chance."""
        return self.before - self.after <= _LOSS


def example_sentences() -> list[Sentence]:
    """Unlabelled sentences that come with the package."""
    text = files("hardner").joinpath("assets", "example.txt").read_text("utf-8")
    return list(sentences(Document("example", text)))


def check_export(
    before: Predictor,
    after: Predictor,
    labelled: Sequence[Sentence] | None,
    unlabelled: Sequence[Sentence] | None = None,
    *,
    is_student: bool = False,
) -> ExportCheck:
    """Compare two forms of a model on labelled sentences.

    Without any, the mentions that the model itself finds count as gold: in ``unlabelled`` sentences
    or, by default, in `example_sentences`. The scores of a student are its own, and not compared.
    """
    texts = list(labelled if labelled is not None else unlabelled or example_sentences())
    labels = sorted({s.label for t in texts for s in t.spans} & set(before.labels)) or None
    if labelled is not None and labels is None:
        raise HardnerError(f"nothing to check: no label of the model's, {', '.join(before.labels)}")
    found, seconds = zip(*(_timed(model, texts, labels) for model in (before, after)), strict=True)
    gold = found[0]
    if labels is not None and labelled is not None:
        gold = [tuple(span for span in t.spans if span.label in labels) for t in texts]
    words = sum(map(len, texts))
    f1 = [1.0 if spans == gold else score(gold, spans).f1 for spans in found]
    pace = (words / seconds[0], words / seconds[1])
    difference = 0.0 if is_student else _largest_difference(before, after, texts)
    return ExportCheck(f1[0], f1[1], difference, pace, sum(map(len, gold)))


def refuse_export(check: ExportCheck, quantised: bool) -> None:
    """Raise an error where the other form is not the same model any more."""
    if not quantised and not check.difference <= _ROUNDING:  # true for a nan, too
        message = f"the graph's scores differ by {check.difference:.2g} from the model's"
        raise HardnerError(f"{message}; it was not written")
    if not check.is_the_same:
        message = f"F1 drops from {check.before:.3f} to {check.after:.3f}, more than {_LOSS}"
        raise HardnerError(f"{message}; the model was not written, export it with --float32")


@torch.inference_mode()
def _largest_difference(before: Predictor, after: Predictor, texts: Sequence[Sentence]) -> float:
    heads = torch.arange(len(before.tagger.tag_sets))
    largest = 0.0
    for text in texts:
        valid = []
        for model in (before, after):
            store = model.tagger.store([Sentence(text.tokens)])
            rows = torch.zeros(1, 1, dtype=torch.long)
            batch = store.batch(rows, store.widths(rows.numpy().ravel()))
            encoded = model.tagger.encoder(model.params, batch, SCORING)
            scores, lengths, _ = model.tagger.emissions(model.params, encoded, batch, heads)
            valid.append(scores[mask_of(lengths, scores.shape[2])])  # [N, C]
        largest = max(largest, float((valid[0] - valid[1]).abs().max()))
    return largest


def _timed(
    model: Predictor, texts: Sequence[Sentence], labels: Sequence[str] | None
) -> tuple[list[tuple[Span, ...]], float]:
    """The spans that a model finds, and the seconds that it takes."""
    model.spans(texts[:8])  # the first call sets things up
    start = time.perf_counter()
    found = model.spans(texts, labels=labels)
    seconds = time.perf_counter() - start
    return [tuple(sorted({span for span, _ in row})) for row in found], seconds
