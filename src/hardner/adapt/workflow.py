"""A few labelled sentences of new types -> a predictor for them, and what to expect of it.

All types are learnt in one fit. Each is then judged by itself: one that collapsed, diverged or is
worse than a label that the model has already is left out (`hardner.adapt.judge`), and takes
nothing from the others.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from pathlib import Path
from typing import NamedTuple, TypeVar

from hardner.adapt.adapter import Adapter, adapters_for, average_params
from hardner.adapt.continuation import with_kept_sentences
from hardner.adapt.examples import (
    Examples,
    LabelledData,
    Labels,
    UnlabelledData,
    examples,
    read_labelled,
    read_unlabelled,
)
from hardner.adapt.fit import OnStep, one_thread, side_by_side
from hardner.adapt.forecast import count_steps, cross_validate
from hardner.adapt.judge import Fit, Judge, JudgedHead, PriorScores, hashes_of
from hardner.adapt.label_start import Described
from hardner.adapt.report import AdaptationRefused, AdaptationReport, TypeReport
from hardner.adapt.sample import Sample
from hardner.adapt.self_training import usable_sentences
from hardner.errors import HardnerError
from hardner.formats import Report
from hardner.model.tagger import Model
from hardner.tag.added_heads import KeptSentence, Origin
from hardner.tag.heads import Heads, data_hash, origin_of, today, versions
from hardner.tag.predictor import Predictor
from hardner.types import Progress, Sentence

_Result = TypeVar("_Result")
_MOST_UNLABELLED = {"cpu": 300, "cuda": 1200}
"""Unlabelled sentences that are learnt from, at most."""
_MOST_LOOKED_AT = 300
"""Sentences of a text that are tagged to see what to expect on it, at most."""


class AdaptationResult(NamedTuple):
    """An adapted predictor, and what to expect of it."""

    predictor: Predictor
    report: AdaptationReport


@one_thread()
def adapt_predictor(
    predictor: Predictor | Callable[[], Predictor],
    labelled: LabelledData,
    labels: Labels = None,
    *,
    descriptions: Mapping[str, str] | None = None,
    unlabelled: UnlabelledData | None = None,
    text: UnlabelledData | None = None,
    keep: bool = False,
    keep_sentences: bool = False,
    continued: bool = False,
    folds: int | None = None,
    seed: int = 0,
    force: bool = False,
    on_progress: Progress | None = None,
    on_model: Callable[[AdaptationResult], object] | None = None,
) -> AdaptationResult:
    """Fit a predictor to the mentions of some labels, all in one fit.

    Args:
        predictor: Where to start, or what loads it: then it takes no memory while others are
            learnt, if nothing of it stays.
        labelled: A file, or sentences, documents or pairs of a text and its mentions; best with
            some sentences without a mention. Each is taken to be labelled for all of the labels.
        labels: Whose mentions to learn; by default those of all labels.
        descriptions: What some of the labels mean: a head begins with that where it says more of
            the sentences than how frequent mentions are. An empty one leaves it to the name.
        unlabelled: More of the same kind of text, to learn from as well. Cross-validation learns
            without it.
        text: That the predictor is for, to say what to expect on it; by default the unlabelled
            one, as far as it can be of sentences that are not learnt from.
        keep: Whether the predictor's own labels stay; they are then found exactly as before.
        keep_sentences: Whether the model folder will hold the sentences, so that learning can be
            continued with others.
        continued: Whether to learn labels of the predictor afresh from the sentences that it has
            kept and from those given. Its other labels stay.
        folds: Of the cross-validation, if not as many as `Adapter.folds` says.
        seed: The same gives the same outcome.
        force: Whether a label that the predictor finds better as it is may be adapted to.
        on_progress: Called with the steps done and those in all.
        on_model: Called with the fit to all sentences before it is cross-validated: a model that
            can be used already, and a report that expects nothing yet.

    Raises:
        AdaptationRefused: The outcome would do harm: no label can be learnt.
    """
    how = _How(
        descriptions or {}, keep or continued, keep_sentences or continued, continued, seed, force
    )
    own = predictor if isinstance(predictor, Predictor) else predictor()
    run = _Run.of(own, labelled, labels, unlabelled, text, how)
    del own
    begun = [Fit(adapter, run.sample_for(adapter), {}) for adapter in run.adapters]
    every = [folds or fit.adapter.folds(fit.sample) for fit in begun]
    steps = [count_steps(f.adapter, f.sample, n) for f, n in zip(begun, every, strict=True)]
    on_step = _counter(on_progress, sum(steps))
    fits = _each(_fit, begun, on_step)
    if on_model and (first := run.result(fits, early=True)):
        on_model(first)
        del first
    fits = _each(partial(_fold, folds), fits, on_step)
    result = run.result(fits)
    assert result
    return result


def _each(
    compute: Callable[[Fit, OnStep], _Result], fits: Sequence[Fit], on_step: OnStep | None = None
) -> list[_Result]:
    """What becomes of the types that begin alike, side by side with the others."""
    steps = max((fit.adapter.steps(fit.sample) for fit in fits), default=0)
    on_cpu = all(fit.adapter.device.type == "cpu" for fit in fits)
    return list(side_by_side(compute, fits, on_step, steps if on_cpu else 0))


def _fit(begun: Fit, on_step: OnStep) -> Fit:
    """Fit to all sentences."""
    adapter, sample = begun.adapter, begun.sample
    adapter.encode([sample])  # once, for all fits
    # The outcome is that of `adapter.fit([sample])`, but cross-validation fits the folds.
    once = adapter.with_recipe(replace(adapter.recipe, average_folds=False))
    return begun._replace(params=once.fit([sample], on_step))


def _fold(folds: int | None, fit: Fit, on_step: OnStep) -> Fit:
    """Cross-validate, and average the fit with those to the folds if the recipe says so."""
    adapter, sample, params, _ = fit
    folded = cross_validate(adapter, sample, folds or adapter.folds(sample), on_step)
    if folded and adapter.averages_folds(sample):
        params = average_params([params, *(model.params for model in folded.models)])
    return fit._replace(params=params, folded=folded)


class _How(NamedTuple):
    """What is asked of an adaptation, as `adapt_predictor` describes it."""

    descriptions: Mapping[str, str]
    keep: bool
    keep_sentences: bool
    continued: bool
    seed: int
    force: bool


class _Run(NamedTuple):
    """What an adaptation is given, and what is known before it begins."""

    heads: Heads | None
    """The predictor's own; None where none of them can stay."""
    labels: frozenset[str]
    """That it finds."""
    device: str
    start: Path | None
    origins: Mapping[str, Origin]
    """By label that is continued, where its head comes from."""
    given: Examples
    text: tuple[Sentence, ...]
    """Sentences without labels to learn from."""
    looked_at: tuple[Sentence, ...]
    """Those that say what to expect on text as it runs."""
    adapters: list[Adapter]
    own: PriorScores
    described: Described | None
    settled: list[TypeReport]
    """Of labels that there is nothing to learn of."""
    how: _How
    notes: tuple[str, ...]
    began: float

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        labelled: LabelledData,
        labels: Labels,
        unlabelled: UnlabelledData | None,
        looked_at: UnlabelledData | None,
        how: _How,
    ) -> "_Run":
        """Read what is given, and see what the predictor makes of it as it is."""
        began, report, known = time.perf_counter(), Report(), frozenset(predictor.labels)
        given = examples(read_labelled(labelled, labels, report=report), labels)
        if how.continued:
            given = with_kept_sentences(predictor, given)
        stay = how.keep and not how.continued
        there = [label for label in given.labels if stay and label in known]
        settled = [_kept_as_told(given, label) for label in there]
        if len(there) == len(given.labels):
            taken = f"the model finds {there[0]!r} already"
            raise HardnerError(f"{taken}; name the new type otherwise, or do not keep the model's")
        given = given.only([label for label in given.labels if label not in there])
        own = PriorScores.of(predictor, given)
        text: tuple[Sentence, ...] = ()
        seen: tuple[Sentence, ...] = ()
        notes = [*report.lines(), *given.notes]
        if unlabelled is not None:
            every = _unlabelled(read_unlabelled(unlabelled), given, how.seed)
            most = _MOST_UNLABELLED["cpu" if predictor.device == "cpu" else "cuda"]
            text, others = every[:most], every[most:]
            seen = others if len(others) > _MOST_LOOKED_AT // 2 else every
            if not text:
                notes.append("the unlabelled text holds no sentence that can be learnt from")
        if looked_at is not None:
            seen = _unlabelled(read_unlabelled(looked_at), given, how.seed)
        if not how.continued:  # else it is what was asked for
            notes += own.leaks(predictor, given)
        adapters = adapters_for(predictor, given.labels, own.best)
        described = None
        if how.descriptions:
            described = Described.of(how.descriptions, given)
            adapters = [described.begin(adapter) for adapter in adapters]
            notes += described.notes
        goes_on = given.labels if how.continued else ()
        origins = {n: origin for n in goes_on if (origin := origin_of(predictor, n))}
        may_stay = how.keep or not known.isdisjoint(given.labels)
        return cls(
            heads=Heads.of(predictor) if may_stay else None,
            labels=known,
            device=predictor.device,
            start=predictor.start,
            origins=origins,
            given=given,
            text=text,
            looked_at=seen[:_MOST_LOOKED_AT],
            adapters=adapters,
            own=own,
            described=described,
            settled=settled,
            how=how,
            notes=tuple(notes),
            began=began,
        )

    def sample_for(self, adapter: Adapter) -> Sample:
        """What an adapter learns from: all sentences, with the mentions of its own labels."""
        own = self.given.only({label for tag_set in adapter.tag_sets for label in tag_set.labels})
        return Sample(own.sentences, (self.how.seed,), self.text, partial=own.partial)

    def result(self, fits: Sequence[Fit], *, early: bool = False) -> AdaptationResult | None:
        """The predictor of all labels that can be learnt, and the report.

        ``early`` is before cross-validation; where no label can be learnt it is then None.
        """
        how = self.how
        judge = Judge(self.given, self.own, self.labels, how.seed, how.force, self.looked_at)
        judged = _each(lambda fit, _: judge.of(fit), fits)
        if told := self.described:
            judged = [told.told(own, fit.adapter) for own, fit in zip(judged, fits, strict=True)]
        every = [one.report for own in judged for one in own]
        if not any(row.outcome == "learnt" for row in every):
            if early:
                return None
            raise _refusal([*self.settled, *every])
        types = tuple(sorted([*self.settled, *every], key=lambda row: row.label))
        report = AdaptationReport(
            types=types,
            sentences=len(self.given.sentences),
            seconds=time.perf_counter() - self.began,
            unlabelled=len(self.text),
            notes=(*self.notes, *(note for row in types for note in row.notes)),
        )
        return AdaptationResult(self._joined(fits, judged, report), report)

    def _joined(
        self, fits: Sequence[Fit], judged: Sequence[Sequence[JudgedHead]], report: AdaptationReport
    ) -> Predictor:
        """One predictor of the predictor's own labels that stay and of those that were learnt."""
        wanted = self.labels - report.learnt if self.how.keep else report.kept
        tag_sets = self.heads.model.tagger.tag_sets if self.heads else ()
        stay = [head for head, own in enumerate(tag_sets) if not wanted.isdisjoint(own.labels)]
        parts = [self.heads.take(stay)] if self.heads and stay else []
        for (adapter, _, params, _), own in zip(fits, judged, strict=True):
            rows = [(t.domain, one) for t, one in zip(adapter.tag_sets, own, strict=True)]
            learnt = [one.report.outcome == "learnt" for one in own]
            heads = Heads(
                Model(adapter.tagger, params),
                [one.temperature for one in own],
                dict.fromkeys(adapter.tagger.domains, hashes_of(self.given)),
                {domain: self._origin(adapter, one.report, report) for domain, one in rows},
                curves={one.report.label: one.curve for one in own if one.curve},
            )
            if all(learnt):
                parts.append(heads)
            elif any(learnt):
                parts.append(heads.take([head for head, one in enumerate(learnt) if one]))
        made = reduce(Heads.beside, parts).predictor(self.device, self.start)
        return replace(made, report=report)

    def _origin(self, adapter: Adapter, row: TypeReport, report: AdaptationReport) -> Origin:
        """What the model remembers of a label's adaptation."""
        name, f1 = self.own.best.get(row.label, ("", 0.0))
        begun = adapter.begins_with(row.label) and not row.began
        encoder = "the bundled start" if self.start and not begun else "the model's own encoder"
        encoder = f"its description, and {encoder}" if row.began else encoder
        expected = row.expected and row.expected.f1
        recipe = asdict(adapter.recipe) | {"parts": sorted(adapter.recipe.parts)}
        return Origin(
            labels=(row.label,),
            data=data_hash(self.given.of(row.label)),
            sentences=report.sentences,
            bearing=row.sentences,
            mentions=row.mentions,
            unlabelled=report.unlabelled,
            began=f"{name}, F1 {f1:.2f} as it was, and {encoder}" if begun else encoder,
            beside=tuple(label for label in self.given.labels if label != row.label),
            seed=self.how.seed,
            recipe=json.loads(json.dumps(recipe)),
            date=today(),
            versions=versions(),
            expected=(expected.value, expected.low, expected.high) if expected else (),
            notes=row.notes,
            kept=self._kept(row.label) if self.how.keep_sentences else (),
            description=row.description or self._described_before(row.label),
        )

    def _described_before(self, label: str) -> str:
        """What a label that is gone on with was said to mean."""
        origin = self.origins.get(label)
        return origin.description if origin else ""

    def _kept(self, label: str) -> tuple[KeptSentence, ...]:
        own = self.given.only([label])
        return tuple(KeptSentence.of(s) for s in (*own.sentences, *own.partial))


def _refusal(types: Sequence[TypeReport]) -> AdaptationRefused:
    """An error that says of each type why it was not learnt."""
    reasons = [row.reason if len(types) == 1 else f"{row.label}: {row.reason}" for row in types]
    refused = AdaptationRefused("; ".join(reasons))
    refused.types = tuple(sorted(types, key=lambda row: row.label))
    return refused


def _kept_as_told(given: Examples, label: str) -> TypeReport:
    return TypeReport(
        label=label,
        outcome="kept",
        sentences=sum(bool(s.spans) for s in given.of(label)),
        mentions=given.mentions(label),
        reason="the model knows it, and keeps what it knows",
    )


def _unlabelled(unlabelled: Iterable[Sentence], given: Examples, seed: int) -> tuple[Sentence, ...]:
    """Sentences that can be learnt from, none of them labelled, in a seeded order."""
    labelled = {sentence.tokens for sentence in (*given.sentences, *given.partial)}
    every = [sentence for sentence in unlabelled if sentence.tokens not in labelled]
    return tuple(every[row] for row in usable_sentences(every, seed))


def _counter(on_progress: Progress | None, total: int) -> OnStep:
    """Counts steps. Groups of models on a GPU may take a few more than each alone."""
    done = 0

    def count(models: int) -> None:
        nonlocal done
        done = min(done + models, total)
        if on_progress:
            on_progress(done, total)

    return count
