"""What came of each type of a fit: learnt, or left out with the reason.

A fit may not diverge, tag everything or nothing, or be worse than a label that is there already
(`PriorScores`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardner.adapt.adapter import Adapter
from hardner.adapt.correction import TextScores, corrected
from hardner.adapt.examples import Examples
from hardner.adapt.forecast import (
    CrossValidation,
    FloatArray,
    Forecast,
    HeldOutScores,
    count_spans,
    f1_of,
    find_spans,
    forecast,
    held_out_curves,
    of_labels,
    resampled,
)
from hardner.adapt.report import AdaptationRefused, Outcome, TypeReport, limit_of
from hardner.adapt.sample import Sample
from hardner.model.encoders import EncoderWithCopies
from hardner.model.layers import Params
from hardner.tag.calibration import Loss, best_temperature, losses_of
from hardner.tag.predictor import Predictor
from hardner.tag.thresholds import PrecisionRecallCurve
from hardner.types import Sentence, Span, seed_of

SURE = 0.9
"""An adaptation is refused if an existing label is better with at least this probability."""
USEFUL = 0.2
"""An existing label with a lower F1 is no alternative."""
_CHECKED = 50
"""Unlabelled sentences that a first model tags, to see that not nearly everything is a mention."""
_CHECKED_LOSS = 50
"""Sentences whose loss must have fallen, computed at once."""
_TEMPERATURE_PRIOR = 10
"""A temperature of 1 counts as much as so many held-out mentions."""


class PriorScores(NamedTuple):
    """What a predictor makes of the sentences as it is."""

    counts: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """By new label and by label of the predictor, `count_spans` of the one in place of the other.
    Labels that have learnt from the sentences cannot be judged by them, and are left out."""
    best: Mapping[str, tuple[str, float]]
    """By new label, the label of the predictor that does best, and its F1."""
    taught: Mapping[str, int]
    """How many of the sentences each label of the predictor has learnt from, if any."""

    @classmethod
    def of(cls, predictor: Predictor, given: Examples) -> "PriorScores":
        """Tag the sentences, and count."""
        taught = _taught(predictor, given)
        found = predictor.spans(given.sentences)
        places = {
            name: [[span[:2] for span, _ in own if span.label == name] for own in found]
            for name in predictor.labels
            if name not in taught
        }
        counts, best = {}, {}
        for label in given.labels:
            gold = [[span[:2] for span in sentence.spans] for sentence in given.of(label)]
            counts[label] = {name: count_spans(gold, own) for name, own in places.items()}
            scores = {name: f1_of(own) for name, own in counts[label].items()}
            if scores:
                name = max(scores, key=lambda one: scores[one])
                best[label] = (name, scores[name])
        return cls(counts, best, taught)

    def leaks(self, predictor: Predictor, given: Examples) -> Iterator[str]:
        """What is said of labels that the sentences cannot judge."""
        learnt = " and ".join(given.labels) + (" is" if len(given.labels) == 1 else " are")
        for label, count in self.taught.items():
            yield (
                f"the model's own {label} has learnt from {count} of the sentences, which cannot "
                f"judge it; {learnt} learnt afresh from all of them"
            )
        branched = isinstance(predictor.tagger.encoder, EncoderWithCopies)
        if self.taught and not (predictor.start or branched):
            yield "the model that learning starts from has seen them too: expect less than is said"


def hashes_of(given: Examples) -> frozenset[int]:
    """What a model remembers of the sentences that it has learnt from."""
    return frozenset(seed_of(*s.tokens) for s in (*given.sentences, *given.partial))


def _taught(predictor: Predictor, given: Examples) -> dict[str, int]:
    texts = hashes_of(given)
    found: dict[str, int] = {}
    for tag_set in predictor.tagger.tag_sets:
        if count := len(texts.intersection(predictor.learnt.get(tag_set.domain, ()))):
            found |= dict.fromkeys(tag_set.labels, count)
    return found


class Fit(NamedTuple):
    """What came of the types that begin alike."""

    adapter: Adapter
    sample: Sample
    params: Params
    folded: CrossValidation | None = None
    """None where nothing could be held out, or not yet."""


class JudgedHead(NamedTuple):
    """What came of a type, the temperature of its head, and its precision at thresholds."""

    report: TypeReport
    temperature: float
    curve: PrecisionRecallCurve | None


class Judge(NamedTuple):
    """What the types of a fit are judged by."""

    given: Examples
    prior: PriorScores
    labels: frozenset[str]
    """The predictor's own."""
    seed: int
    force: bool
    text: tuple[Sentence, ...] = ()
    """Without labels, of the kind that the model is for."""

    def of(self, fit: Fit) -> list[JudgedHead]:
        """What came of each type."""
        adapter, sample, params, folded = fit
        sentences, text = sample.sentences, self.text if folded else self.text[:_CHECKED]
        found = find_spans(adapter, params, sentences)
        begun = Adapter(adapter.model, adapter.tag_sets, adapter.recipe).start([Sample(sentences)])
        some = sentences[:_CHECKED_LOSS]
        losses = zip(adapter.losses(begun, some), adapter.losses(params, some), strict=True)
        temperatures = temperatures_of(adapter, sample, folded)
        fitted_model = Predictor(adapter.tagger, params, tuple(temperatures), str(adapter.device))
        in_text = fitted_model.spans(text)
        models = folded.models if folded else []
        curves = held_out_curves(adapter, sentences, models, temperatures)
        fitted = [params, *(model.params for model in models)]
        judged = []
        for head, (tag_set, loss) in enumerate(zip(adapter.tag_sets, losses, strict=True)):
            (label,) = tag_set.labels
            own_text = [[one for one in spans if one[0].label == label] for spans in in_text]
            scores = [[score for _, score in spans] for spans in own_text]
            report = self._reported(label, folded, head, scores)
            try:
                check_finite(fitted)
                check_loss(*loss)
                check_spans(self.given.of(label), of_labels(found, [label]))
                if text:
                    check_text(text, [[span for span, _ in own] for own in own_text])
                report = self._compared(report, folded, head)
            except AdaptationRefused as refused:
                stays = label in self.labels  # the predictor's own head for it
                outcome: Outcome = "kept" if stays else "left out"
                report = replace(report, outcome=outcome, reason=str(refused))
            judged.append(JudgedHead(report, temperatures[head], curves.get(label)))
        return judged

    def _reported(
        self,
        label: str,
        folded: CrossValidation | None,
        head: int,
        in_text: Sequence[Sequence[float]],
    ) -> TypeReport:
        own = folded.heads[head] if folded else None
        count = len(self.given.sentences)
        expected = None
        if own:
            plain = forecast(own.large, own.small, count, seed=self.seed)
            text = TextScores.of(in_text) if in_text else None
            expected = corrected(plain, own.large, count, text)
        return TypeReport(
            label=label,
            outcome="learnt",
            sentences=sum(bool(s.spans) for s in self.given.of(label)),
            mentions=self.given.mentions(label),
            expected=expected,
            known=self.prior.best.get(label),
            limit=limit_of(own.large.counts, expected) if own and expected else "",
        )

    def _compared(
        self, report: TypeReport, folded: CrossValidation | None, head: int
    ) -> TypeReport:
        """The report of a label beside the predictor's own that does best."""
        own = folded.heads[head] if folded else None
        if not (own and report.expected and report.known):
            return report
        name, f1 = report.known
        counts = self.prior.counts[report.label][name]
        chance = chance_of(counts, own.large, report.expected, self.seed)
        if not self.force:
            check_better(name, f1, chance, report.expected)
        if chance < 0.5:
            return report
        note = f"the model's own {name} reaches F1 {f1:.2f} as it is"
        return replace(report, notes=(*report.notes, note))


def temperatures_of(
    adapter: Adapter, sample: Sample, folded: CrossValidation | None
) -> list[float]:
    """The temperature of each head that makes held-out labels likeliest, nearer to 1 if few."""
    losses: list[list[Loss]] = [[] for _ in adapter.tag_sets]
    for params, held_out in folded.models if folded else ():
        fitted = Predictor(adapter.tagger, params, device=str(adapter.device))
        own = losses_of(fitted, [sample.sentences[row] for row in held_out])
        for head, loss in own.items():
            losses[head].append(loss)
    found = []
    for tag_set, parts in zip(adapter.tag_sets, losses, strict=True):
        mentions = sum(s.label in tag_set.labels for one in sample.sentences for s in one.spans)
        best = best_temperature(partial(_sum, parts)) if parts else 1.0
        found.append(float(round(best ** (mentions / (mentions + _TEMPERATURE_PRIOR)), 4)))
    return found


def _sum(losses: Sequence[Loss], temperatures: Tensor) -> Tensor:
    return torch.stack([loss(temperatures) for loss in losses]).sum(0)


def check_finite(fitted: Sequence[Params]) -> None:
    """Refuse parameters that are NaN or infinite."""
    once = {id(value): (name, value) for params in fitted for name, value in params.items()}
    for name, value in once.values():
        least, largest = value.aminmax()  # of which NaN is both; unlike a mask it takes no memory
        if not bool((largest - least).isfinite()):
            raise AdaptationRefused(f"learning diverged ({name} is not finite); try another --seed")


def check_loss(before: float, after: float) -> None:
    """Refuse a fit whose loss on its own sentences did not fall."""
    if not after < before:
        said = f"the loss on the sentences went from {before:.3g} to {after:.3g}"
        raise AdaptationRefused(f"learning diverged: {said}; try another --seed")


def check_spans(gold: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> None:
    """Refuse a model that tags nothing, or nearly everything, in the sentences it learnt."""
    words = sum(map(len, gold))
    right = sum(s.end - s.start for sentence in gold for s in sentence.spans)
    said = sum(s.end - s.start for spans in found for s in spans)
    if not said:
        raise AdaptationRefused(
            "the adapted model tags nothing, not even the mentions it learnt from"
        )
    if 2 * said > words + right:
        shares = f"{said / words:.0%} of the words where {right / words:.0%} are right"
        raise AdaptationRefused(f"the adapted model tags nearly everything: {shares}")


def check_text(text: Sequence[Sentence], found: Sequence[Sequence[Span]]) -> None:
    """Refuse a model that tags most words of unlabelled text."""
    words = sum(map(len, text))
    said = sum(s.end - s.start for spans in found for s in spans)
    if 2 * said > words:
        raise AdaptationRefused(
            f"the adapted model tags {said / words:.0%} of the words of unlabelled text"
        )


def chance_of(counts: FloatArray, large: HeldOutScores, seen: Forecast, seed: int = 0) -> float:
    """The probability that an existing label beats the adapted model."""
    theirs, ours = resampled(np.stack([counts, large.counts]), seed)
    grown = (len(counts) / large.learnt) ** -seen.exponent
    return float((theirs > 1 - (1 - ours) * grown).mean())


def check_better(label: str, f1: float, chance: float, seen: Forecast) -> None:
    """Refuse an adaptation that is almost surely worse than an existing label."""
    if chance >= SURE and f1 > max(seen.f1.value, USEFUL):
        raise AdaptationRefused(
            f"the model's own {label} does better on these sentences as it is: F1 {f1:.2f}, "
            f"adapted {seen.f1.value:.2f} expected; use it, or force the adaptation"
        )
