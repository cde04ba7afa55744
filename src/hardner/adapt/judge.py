"""What came of each type of a fit: learnt, or left out with the reason."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from hardner.adapt import checks
from hardner.adapt.adapter import Adapter
from hardner.adapt.checks import AdaptationRefused
from hardner.adapt.examples import Examples
from hardner.adapt.forecast import (
    CrossValidation,
    find_spans,
    forecast,
    held_out_curves,
    of_labels,
)
from hardner.adapt.prior import PriorScores
from hardner.adapt.report import Outcome, TypeReport, limit_of
from hardner.adapt.sample import Sample
from hardner.model.layers import Params
from hardner.tag.calibration import best_temperature, losses_of
from hardner.tag.predictor import Predictor
from hardner.tag.thresholds import PrecisionRecallCurve

_CHECKED = 200
"""Unlabelled sentences that are tagged to see that not nearly everything is a mention."""
_CHECKED_LOSS = 50
"""Sentences whose loss must have fallen, computed at once."""
_TEMPERATURE_PRIOR = 10
"""A temperature of 1 counts as much as so many held-out mentions."""


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

    def of(self, fit: Fit) -> list[JudgedHead]:
        """What came of each type."""
        adapter, sample, params, folded = fit
        sentences, text = sample.sentences, sample.unlabelled[:_CHECKED]
        found = find_spans(adapter, params, sentences)
        in_text = find_spans(adapter, params, text)
        begun = Adapter(adapter.model, adapter.tag_sets, adapter.recipe).start([Sample(sentences)])
        some = sentences[:_CHECKED_LOSS]
        losses = zip(adapter.losses(begun, some), adapter.losses(params, some), strict=True)
        temperatures = _temperatures(adapter, self.given, folded)
        models = folded.models if folded else []
        curves = held_out_curves(adapter, sentences, models, temperatures)
        fitted = [params, *(model.params for model in models)]
        judged = []
        for head, (tag_set, loss) in enumerate(zip(adapter.tag_sets, losses, strict=True)):
            (label,) = tag_set.labels
            report = self._reported(label, folded, head)
            try:
                checks.check_finite(fitted)
                checks.check_loss(*loss)
                checks.check_spans(self.given.of(label), of_labels(found, [label]))
                if text:
                    checks.check_text(text, of_labels(in_text, [label]))
                report = self._compared(report, folded, head)
            except AdaptationRefused as refused:
                stays = label in self.labels  # the predictor's own head for it
                outcome: Outcome = "kept" if stays else "left out"
                report = replace(report, outcome=outcome, reason=str(refused))
            judged.append(JudgedHead(report, temperatures[head], curves.get(label)))
        return judged

    def _reported(self, label: str, folded: CrossValidation | None, head: int) -> TypeReport:
        own = folded.heads[head] if folded else None
        count = len(self.given.sentences)
        expected = forecast(own.large, own.small, count, seed=self.seed) if own else None
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
        chance = checks.chance_of(counts, own.large, report.expected, self.seed)
        if not self.force:
            checks.check_better(name, f1, chance, report.expected)
        if chance < 0.5:
            return report
        note = f"the model's own {name} reaches F1 {f1:.2f} as it is"
        return replace(report, notes=(*report.notes, note))


def _temperatures(adapter: Adapter, given: Examples, folded: CrossValidation | None) -> list[float]:
    """Of each head, that under which held-out labels are likeliest, shrunk towards 1 if few."""
    losses: list[list[Callable[[float], float]]] = [[] for _ in adapter.tag_sets]
    for params, held_out in folded.models if folded else ():
        fitted = Predictor(adapter.tagger, params, device=str(adapter.device))
        own = losses_of(fitted, [given.sentences[row] for row in held_out])
        for head, loss in own.items():
            losses[head].append(loss)
    found = []
    for tag_set, parts in zip(adapter.tag_sets, losses, strict=True):
        mentions = sum(given.mentions(label) for label in tag_set.labels)
        best = best_temperature(partial(_sum, parts)) if parts else 1.0
        found.append(float(round(best ** (mentions / (mentions + _TEMPERATURE_PRIOR)), 4)))
    return found


def _sum(losses: Sequence[Callable[[float], float]], temperature: float) -> float:
    return sum(loss(temperature) for loss in losses)
