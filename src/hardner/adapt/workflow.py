"""A few labelled sentences of a new type -> a predictor for it, and what to expect of it.

Nothing that would do harm gets out: what collapsed, diverged or is worse than a head that the
model has already is refused (`hardner.adapt.checks`).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from hardner.adapt import checks as guard
from hardner.adapt.cross_validation import (
    Course,
    CrossValidation,
    Heard,
    average_params,
    count_fits,
    count_spans,
    cross_validate,
)
from hardner.adapt.examples import Examples, examples
from hardner.adapt.forecast import Forecast, forecast
from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.self_training import usable_sentences
from hardner.batch import TagSet
from hardner.errors import HardnerError
from hardner.model.describe import load_model
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger
from hardner.tag.added_heads import Model, add_head, first_copy
from hardner.tag.calibration import best_temperature, loss_of
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

FOLDS = 3
_USEFUL_HEAD_F1 = 0.5
"""F1 on the sentences from which on a label of the model is what the new one starts from."""
_CHECKED_UNLABELLED = 200
"""Unlabelled sentences that must not end up all tagged."""
_MOST_UNLABELLED = {"cpu": 300, "cuda": 1200}
"""Unlabelled sentences that are learnt from, at most."""
_SELF_TRAINING_COST = 10
"""The work of one that learns from them is counted as so many models."""
_TEMPERATURE_PRIOR = 10
"""Mentions whose weight a temperature of 1 has beside those that were held out."""


@dataclass(frozen=True)
class AdaptationReport:
    """What was learnt from, and what to expect."""

    label: str
    sentences: int
    mentions: int
    expected: Forecast | None
    """None where there are too few sentences to hold any out."""
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


def adapt_predictor(
    predictor: Predictor,
    sentences: Iterable[Sentence],
    label: str | None = None,
    *,
    unlabelled: Iterable[Sentence] | None = None,
    keep: bool = False,
    folds: int = FOLDS,
    seed: int = 0,
    force: bool = False,
    on_progress: Heard | None = None,
) -> AdaptationResult:
    """Fit a predictor to the mentions of a label.

    Args:
        predictor: Where to start.
        sentences: Labelled ones, best some without a mention among them.
        label: Whose mentions to learn; it may be left out where there is one only.
        unlabelled: Further sentences of the same kind of text, to learn from as well. What is
            expected is measured without them.
        keep: Whether the predictor's own labels stay; they are then found exactly as before.
        folds: Of the cross-validation.
        seed: The same gives the same outcome.
        force: Whether a label that the predictor finds better as it is may be adapted to.
        heard: Called as the work goes on.

    Raises:
        Refused: The outcome would do harm.
    """
    began = time.perf_counter()
    given = examples(sentences, label)
    if keep and given.label in predictor.labels:
        taken = f"the model finds {given.label!r} already"
        raise HardnerError(f"{taken}; name the new type otherwise, or do not keep the model's own")
    before = _as_it_is(predictor, given)
    known = guard.best_label(before)
    course = _course(predictor, given, known, seed)
    text = _text(unlabelled or (), given, predictor.device, seed)
    models = count_fits(len(given.sentences), folds)
    tick = _ticker(on_progress, models + (_SELF_TRAINING_COST if text else 0))
    seen = cross_validate(course, folds, tick) if len(given.sentences) > 1 else None
    (params,) = (replace(course, unlabelled=text) if text else course).fitted(
        [range(len(given.sentences))], tick, lambda done, of: tick(_parts(done, of))
    )
    if seen and not text and course.rule.start == "zero":
        params = average_params([params, *(held.params for held in seen.models)])
    _check(course, params, seen)
    notes, expected = list(given.notes), None
    if text:
        found = course.predictor(params).spans(text[:_CHECKED_UNLABELLED])
        guard.check_text(
            text[:_CHECKED_UNLABELLED], [[span for span, _ in spans] for spans in found]
        )
    elif unlabelled is not None:
        notes.append("the unlabelled text holds no sentence that can be learnt from")
    if seen:
        expected = forecast(seen.large, seen.small, len(given.sentences), seed=seed)
    if seen and expected and known:
        chance = guard.chance_of(before[known[0]], seen.large, expected, seed)
        if not force:
            guard.check_better(*known, chance, expected)
        if chance >= 0.5:
            notes.append(f"the model's own {known[0]} reaches F1 {known[1]:.2f} as it is")
    made = Model(course.tagger, params)
    temperatures = [_temperature(course, seen)]
    if keep:
        made = add_head(Model(predictor.tagger, predictor.params), made)
        temperatures = [*predictor.temperatures, *temperatures]
    adapted = Predictor(*made, tuple(temperatures), predictor.device, predictor.start)
    report = AdaptationReport(
        label=given.label,
        sentences=len(given.sentences),
        mentions=given.mentions,
        expected=expected,
        known=known,
        seconds=time.perf_counter() - began,
        unlabelled=len(text),
        notes=tuple(notes),
    )
    return AdaptationResult(adapted, report)


def _as_it_is(predictor: Predictor, given: Examples) -> dict[str, guard._Counts]:
    """How each label of a predictor does in place of the new one."""
    gold = [sentence.spans for sentence in given.sentences]
    found = [[span for span, _ in spans] for spans in predictor.spans(given.sentences)]
    return {
        label: count_spans(gold, [_renamed(spans, label, given.label) for spans in found])
        for label in predictor.labels
    }


def _renamed(spans: Iterable[Span], old: str, new: str) -> list[Span]:
    return [span._replace(label=new) for span in spans if span.label == old]


def _course(
    predictor: Predictor, given: Examples, known: tuple[str, float] | None, seed: int
) -> Course:
    """Fits from a decoder of the predictor that is good at the new type, and the encoder it reads.

    Where there is none, from the encoder that the predictor's new types begin with.
    """
    start = first_copy(Model(predictor.tagger, predictor.params))
    scheme = start.tagger.tag_sets[0].scheme
    tag_set = TagSet(_domain(predictor.tagger, given.label), (given.label,), scheme)
    decoder = _decoder_for(start, known[0]) if known and known[1] >= _USEFUL_HEAD_F1 else {}
    if predictor.start and not decoder:
        start = _read(predictor.start, predictor.device)
    rule = _rule(start.tagger, predictor.device)
    return Course(start, tag_set, decoder, given.sentences, rule, predictor.device, seed)


def _read(folder: Path, device: str) -> Model:
    tagger, params = load_model(folder)
    return Model(tagger, {name: value.to(device) for name, value in params.items()})


def _rule(tagger: Tagger, device: str) -> Recipe:
    """The best one; on a CPU, where a user would wait for it, the quick one."""
    return recipe_for("quick" if device == "cpu" else "best", encoder_kind(tagger))


def _domain(tagger: Tagger, label: str) -> str:
    """A name that no domain has."""
    name = label
    while name in tagger.domains:
        name += "+"
    return name


def _decoder_for(start: Model, label: str) -> Params:
    """The decoder of one label, cut out of the first head that has it; none if it was added."""
    for head, tag_set in enumerate(start.tagger.tag_sets):
        if label in tag_set.labels:
            tags = [tag_set.tags.index(t) for t in TagSet("", (label,), tag_set.scheme).tags]
            own = {n: p[:, head : head + 1] for n, p in start.params.items() if _decodes(n)}
            return {name: _cut(name, value, tags) for name, value in own.items()}
    return {}


def _decodes(name: str) -> bool:
    return part_of(name) == "decoder"


def _cut(name: str, value: Tensor, tags: list[int]) -> Tensor:
    """Some tags of a decoder's numbers [1, 1, C, ...]."""
    cut = value[:, :, tags]
    return cut[..., tags] if name == "decoder.transitions" else cut


def _text(
    unlabelled: Iterable[Sentence], given: Examples, device: str, seed: int
) -> tuple[Sentence, ...]:
    """Sentences to learn from without labels: none that are labelled, and no more than can be."""
    labelled = {sentence.tokens for sentence in given.sentences}
    every = [replace(s, spans=()) for s in unlabelled if s.tokens not in labelled]
    chosen = usable_sentences(every, seed)[: _MOST_UNLABELLED["cpu" if device == "cpu" else "cuda"]]
    return tuple(every[row] for row in chosen)


def _parts(done: int, steps: int) -> int:
    """How many parts of a pupil its latest step completed."""
    return _SELF_TRAINING_COST * done // steps - _SELF_TRAINING_COST * (done - 1) // steps


def _ticker(on_progress: Heard | None, total: int) -> Callable[[int], None]:
    """Counts fitted models."""
    done = 0

    def tick(models: int) -> None:
        nonlocal done
        done += models
        if on_progress:
            on_progress(done, total)

    return tick


def _check(course: Course, params: Params, seen: CrossValidation | None) -> None:
    guard.check_finite([params, *(held.params for held in (seen.models if seen else ()))])
    fresh = replace(course, decoder={}).start(0)
    guard.check_loss(course.loss(fresh), course.loss(params))
    guard.check_spans(course.sentences, course.spans(params, range(len(course.sentences))))


def _temperature(course: Course, seen: CrossValidation | None) -> float:
    """Under which held-out labels are likeliest, drawn towards 1 where they are few."""
    held = [
        (params, [course.sentences[row] for row in rows])
        for params, rows in (seen.models if seen else ())
    ]
    losses = [
        loss_of(course.predictor(params), sentences, 0)
        for params, sentences in held
        if any(sentence.spans for sentence in sentences)
    ]
    if not losses:
        return 1.0
    mentions = sum(len(s.spans) for _, sentences in held for s in sentences)
    best = best_temperature(lambda temperatures: sum(loss(temperatures) for loss in losses))
    return float(round(best ** (mentions / (mentions + _TEMPERATURE_PRIOR)), 4))
