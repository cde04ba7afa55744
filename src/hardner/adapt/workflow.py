"""A few labelled sentences of a new type -> a predictor for it, and what to expect of it.

An adaptation that collapsed, diverged or is worse than a label that the model has already is
refused (`hardner.adapt.checks`).
"""

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.adapt import forecast as checks
from hardner.adapt.adapter import Adapter, adapter_for, average_params
from hardner.adapt.examples import (
    Examples,
    LabelledData,
    UnlabelledData,
    examples,
    read_labelled,
    read_unlabelled,
)
from hardner.adapt.fit import OnStep, one_thread
from hardner.adapt.forecast import (
    CrossValidation,
    Forecast,
    count_spans,
    count_steps,
    cross_validate,
    f1_of,
    find_spans,
    forecast,
    held_out_curve,
)
from hardner.adapt.sample import FOLDS, Sample
from hardner.adapt.self_training import usable_sentences
from hardner.errors import HardnerError
from hardner.formats import Report
from hardner.model.encoders import EncoderWithCopies
from hardner.model.layers import Params
from hardner.model.tagger import Model
from hardner.seeds import seed_of
from hardner.tag.added_heads import add_head
from hardner.tag.calibration import best_temperature, loss_of
from hardner.tag.predictor import Predictor
from hardner.types import Progress, Sentence

_CHECKED = 200
"""Unlabelled sentences that are tagged to see that not nearly everything is a mention."""
_CHECKED_LOSS = 50
"""Sentences whose loss must have fallen, computed at once."""
_MOST_UNLABELLED = {"cpu": 300, "cuda": 1200}
"""Unlabelled sentences that are learnt from, at most."""
_TEMPERATURE_PRIOR = 10
"""A temperature of 1 counts as much as so many held-out mentions."""


@dataclass(frozen=True)
class AdaptationReport:
    """What was learnt from, and what to expect."""

    label: str
    sentences: int
    mentions: int
    expected: Forecast | None
    """None where there are too few mentions to hold any out."""
    known: tuple[str, float] | None
    """The model's own label that does best on the sentences as it is, and its F1."""
    seconds: float
    unlabelled: int = 0
    """Sentences without labels that were learnt from as well."""
    notes: tuple[str, ...] = ()
    """What the user should know, a line each."""


class AdaptationResult(NamedTuple):
    """An adapted predictor, and what to expect of it."""

    predictor: Predictor
    report: AdaptationReport


@one_thread()
def adapt_predictor(
    predictor: Predictor,
    labelled: LabelledData,
    label: str | None = None,
    *,
    unlabelled: UnlabelledData | None = None,
    keep: bool = False,
    folds: int = FOLDS,
    seed: int = 0,
    force: bool = False,
    on_progress: Progress | None = None,
) -> AdaptationResult:
    """Fit a predictor to the mentions of a label.

    Args:
        predictor: Where to start.
        labelled: A file, or sentences, documents or pairs of a text and its mentions; best with
            some sentences without a mention.
        label: Whose mentions to learn; it may be left out where there is one only.
        unlabelled: More of the same kind of text, to learn from as well. What is expected is
            measured without it.
        keep: Whether the predictor's own labels stay; they are then found exactly as before.
        folds: Of the cross-validation.
        seed: The same gives the same outcome.
        force: Whether a label that the predictor finds better as it is may be adapted to.
        on_progress: Called with the steps done and those in all.

    Raises:
        AdaptationRefused: The outcome would do harm.
    """
    began = time.perf_counter()
    report = Report()
    given = examples(read_labelled(labelled, label, report=report), label)
    if keep and given.label in predictor.labels:
        taken = f"the model finds {given.label!r} already"
        raise HardnerError(f"{taken}; name the new type otherwise, or do not keep the model's own")
    taught = _taught(predictor, given)
    before = {n: c for n, c in _scores_as_it_is(predictor, given).items() if n not in taught}
    best = max(before, key=lambda name: f1_of(before[name]), default=None)
    known = None if best is None else (best, f1_of(before[best]))
    adapter = adapter_for(predictor, given.label, known)
    text: tuple[Sentence, ...] = ()
    if unlabelled is not None:
        text = _unlabelled(read_unlabelled(unlabelled), given, predictor.device, seed)
    sample = Sample(given.sentences, (seed,), text, partial=given.partial)
    on_step = _counter(on_progress, count_steps(adapter, sample, folds))
    folded = cross_validate(adapter, sample, folds, on_step)
    # The outcome is that of `adapter.fit([sample])`, but cross-validation has fitted the folds.
    once = adapter.with_recipe(replace(adapter.recipe, average_folds=False))
    params = once.fit([sample], on_step)
    if folded and adapter.recipe.average_folds and not text:
        params = average_params([params, *(model.params for model in folded.models)])
    _check(adapter, params, given, folded)
    notes = [*report.lines(), *given.notes, *_leaks(predictor, given, taught)]
    expected = None
    if text:
        checked = text[:_CHECKED]
        checks.check_text(checked, find_spans(adapter, params, checked))
    elif unlabelled is not None:
        notes.append("the unlabelled text holds no sentence that can be learnt from")
    if folded:
        expected = forecast(folded.large, folded.small, len(given.sentences), seed=seed)
    if folded and expected and known:
        chance = checks.chance_of(before[known[0]], folded.large, expected, seed)
        if not force:
            checks.check_better(*known, chance, expected)
        if chance >= 0.5:
            notes.append(f"the model's own {known[0]} reaches F1 {known[1]:.2f} as it is")
    made = Model(adapter.tagger, params)
    temperatures = [_temperature(adapter, given, folded)]
    curves = {}
    if folded:
        held_out = held_out_curve(adapter, given.sentences, folded.models, temperatures[0])
        curves = {given.label: held_out}
    learnt: dict[str, Collection[int]] = {adapter.tag_set.domain: _texts(given)}
    if keep:
        made = add_head(Model(predictor.tagger, predictor.params), made)
        temperatures = [*predictor.temperatures, *temperatures]
        learnt = {**predictor.learnt, **learnt}
    outcome = AdaptationReport(
        label=given.label,
        sentences=len(given.sentences),
        mentions=given.mentions,
        expected=expected,
        known=known,
        seconds=time.perf_counter() - began,
        unlabelled=len(text),
        notes=tuple(notes),
    )
    adapted = Predictor(
        *made,
        tuple(temperatures),
        predictor.device,
        predictor.start,
        learnt,
        outcome,
        thresholds=predictor.thresholds if keep else {},
        curves={**predictor.curves, **curves} if keep else curves,
    )
    return AdaptationResult(adapted, outcome)


def _texts(given: Examples) -> frozenset[int]:
    """What a model remembers of the sentences that it has learnt from."""
    return frozenset(seed_of(*s.tokens) for s in (*given.sentences, *given.partial))


def _taught(predictor: Predictor, given: Examples) -> dict[str, int]:
    """How many of the sentences each label of a predictor has learnt from, if any."""
    texts = _texts(given)
    found: dict[str, int] = {}
    for tag_set in predictor.tagger.tag_sets:
        if count := len(texts.intersection(predictor.learnt.get(tag_set.domain, ()))):
            found |= dict.fromkeys(tag_set.labels, count)
    return found


def _leaks(predictor: Predictor, given: Examples, taught: dict[str, int]) -> Iterator[str]:
    """What is said of labels that the sentences cannot judge."""
    for label, count in taught.items():
        yield (
            f"the model's own {label} has learnt from {count} of the sentences, which cannot judge "
            f"it; {given.label} is learnt afresh from all of them"
        )
    if taught and not (predictor.start or isinstance(predictor.tagger.encoder, EncoderWithCopies)):
        yield "the model that learning starts from has seen them too: expect less than is said"


def _scores_as_it_is(predictor: Predictor, given: Examples) -> dict[str, NDArray[np.float64]]:
    """How each label of a predictor does in place of the new one."""
    gold = [[span[:2] for span in sentence.spans] for sentence in given.sentences]
    found = predictor.spans(given.sentences)
    return {
        label: count_spans(gold, [[s[:2] for s, _ in own if s.label == label] for own in found])
        for label in predictor.labels
    }


def _unlabelled(
    unlabelled: Iterable[Sentence], given: Examples, device: str, seed: int
) -> tuple[Sentence, ...]:
    """Sentences for self-training: none that are labelled, and no more than the device can take."""
    labelled = {sentence.tokens for sentence in given.sentences}
    every = [sentence for sentence in unlabelled if sentence.tokens not in labelled]
    chosen = usable_sentences(every, seed)[: _MOST_UNLABELLED["cpu" if device == "cpu" else "cuda"]]
    return tuple(every[row] for row in chosen)


def _counter(on_progress: Progress | None, total: int) -> OnStep:
    """Counts steps. Groups of models on a GPU may take a few more than each alone."""
    done = 0

    def count(models: int) -> None:
        nonlocal done
        done = min(done + models, total)
        if on_progress:
            on_progress(done, total)

    return count


def _check(
    adapter: Adapter, params: Params, given: Examples, folded: CrossValidation | None
) -> None:
    checks.check_finite([params, *(model.params for model in (folded.models if folded else ()))])
    fresh = Adapter(adapter.model, adapter.tag_set, adapter.recipe).start([Sample(given.sentences)])
    some = given.sentences[:_CHECKED_LOSS]
    checks.check_loss(adapter.loss(fresh, some), adapter.loss(params, some))
    checks.check_spans(given.sentences, find_spans(adapter, params, given.sentences))


def _temperature(adapter: Adapter, given: Examples, folded: CrossValidation | None) -> float:
    """The temperature under which held-out labels are likeliest, shrunk towards 1 if few."""
    held_out = [
        (model.params, [given.sentences[row] for row in model.held_out])
        for model in (folded.models if folded else ())
    ]
    losses = [
        loss_of(Predictor(adapter.tagger, params, device=str(adapter.device)), sentences, 0)
        for params, sentences in held_out
        if any(sentence.spans for sentence in sentences)
    ]
    if not losses:
        return 1.0
    mentions = sum(len(s.spans) for _, sentences in held_out for s in sentences)
    best = best_temperature(lambda temperatures: sum(loss(temperatures) for loss in losses))
    return float(round(best ** (mentions / (mentions + _TEMPERATURE_PRIOR)), 4))
