"""Ways to learn from a few sentences that hold mentions, for text in which most hold none.

Each is a row of docs/running-text.md, on the same samples: what is learnt beside the sentences,
what the recipe does otherwise, how unlabelled text is learnt from, and what is left of what is
found. `oracle` ways know what no user does, and say how much there is to be gained.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from text_risk import PrevalenceRisk, chances, label_shift

from hardner.adapt.recipe import SelfTraining
from hardner.adapt.sample import Sample, folds_of, parts_of
from hardner.adapt.self_training import TextTeacher, usable_sentences
from hardner.corpora import Corpora
from hardner.episodes import distinct, few_shot, random_numbers
from hardner.evaluate.protocols import Protocol, as_tested
from hardner.meta.source_data import relabelled
from hardner.tag.predictor import Predictor
from hardner.tag.review import answered, questions
from hardner.types import Sentence, Span

if TYPE_CHECKING:
    from running import Bench

UNLABELLED = 1000
"""Sentences of a type that text is drawn from."""
ASKED = 600
"""Of these, those that questions are asked about."""
VOTED = 150
"""Those in which models of parts of the sentences disagree."""
FREE = 300
"""Those that are learnt from without labels, and that say what to expect on text."""
_LEAST_BEARING = 60
"""Test sentences with a mention; where there are fewer, training sentences are added."""
Found = list[list[tuple[Span, float]]]


@dataclass(frozen=True)
class Type:
    """A type to be learnt."""

    name: str
    train: tuple[Sentence, ...]
    test: tuple[Sentence, ...]

    @classmethod
    def load(cls, corpora: Corpora, name: str, plan: Protocol) -> "Type":
        found = as_tested(plan, corpora.load(name))
        return cls(name, *(tuple(relabelled(s, "E") for s in p) for p in (found.train, found.test)))

    @property
    def prevalence(self) -> float:
        """The share of test sentences that hold a mention."""
        return fmean(bool(s.spans) for s in self.test)


class Trial:
    """A sample of a type; what several ways need is computed once."""

    def __init__(
        self, bench: "Bench", own: Type, shots: int, number: int, tested: tuple[int, int] | None
    ) -> None:
        """``tested``: test sentences with and without a mention at most; None for all."""
        self.bench, self.type, self.shots, self.number = bench, own, shots, number
        self.given = tuple(own.train[row] for row in few_shot(own.name, own.train, shots, number))
        self.seed = (own.name, shots, number)
        self.test = own.test if tested is None else self._some(*tested)
        self.folded: Any = None
        self.first: Predictor | None = None

    def _some(self, bearing: int, free: int) -> tuple[Sentence, ...]:
        """Test sentences with mentions, many of them where the type is rare, and some without."""
        taken = {s.tokens for s in self.given}

        def drawn(given: Sequence[Sentence], holds: bool, most: int, what: str) -> list[Sentence]:
            rows = [s for s in given if s.tokens and s.tokens not in taken]
            rows = [s for s in rows if bool(s.spans) is holds]
            numbers = random_numbers(what, self.type.name)
            return [rows[at] for at in distinct(len(rows), min(most, len(rows)), numbers)]

        with_mentions = drawn(self.type.test, True, bearing, "b")
        if (missing := min(bearing, _LEAST_BEARING) - len(with_mentions)) > 0:
            with_mentions += drawn(self.type.train, True, missing, "b2")
        return (*with_mentions, *drawn(self.type.test, False, free, "f"))

    def free_weight(self) -> float:
        """What a false alarm in a tested sentence without a mention counts, so that such sentences
        count as much as they do in text as it runs."""
        bearing = sum(bool(s.spans) for s in self.test)
        free, share = len(self.test) - bearing, self.type.prevalence
        return bearing / free * (1 - share) / share

    def others(self, what: str, most: int, holds: bool | None = None) -> list[Sentence]:
        """Random training sentences that are not in the sample, with or without mentions."""
        train, taken = self.type.train, {s.tokens for s in self.given}
        rows = [
            row
            for row, s in enumerate(train)
            if s.tokens and s.tokens not in taken and (holds is None or bool(s.spans) is holds)
        ]
        drawn = distinct(len(rows), min(most, len(rows)), random_numbers(what, *self.seed))
        tested = {s.tokens for s in self.test}
        return [train[rows[at]] for at in drawn if train[rows[at]].tokens not in tested]

    def text(self) -> list[Sentence]:
        """What the user has without labels; they are there only to answer questions by."""
        return self.others("text", UNLABELLED)

    def unlabelled(self) -> tuple[Sentence, ...]:
        """Of these, those that are learnt from."""
        text = self.text()
        return tuple([text[row] for row in sorted(usable_sentences(text))][:FREE])

    def sample(self, **more: Any) -> Sample:
        return Sample(**{"sentences": self.given, "seed": self.seed} | more)

    @property
    def as_is(self) -> Predictor:
        """The model of the sample alone; `Bench.fit` has made it."""
        assert self.first is not None
        return self.first


@dataclass(frozen=True)
class Way:
    """What a way does otherwise."""

    sample: Callable[[Trial], Sample] = Trial.sample
    recipe: dict[str, Any] = field(default_factory=dict)
    teach: Callable[[Trial], TextTeacher] | None = None
    sift: Callable[[Trial, Predictor, Found], Found] | None = None
    """What is left of what a model finds in the test sentences."""


def answers(trial: Trial, count: int) -> tuple[Sentence, ...]:
    """What a person would answer to the first questions."""
    text = trial.text()[:ASKED]
    gold = {s.tokens: s.spans for s in text}
    asked = questions(trial.as_is, text)[:count]
    said = [answered(q, q.span in gold[q.sentence.tokens]) for q in asked]
    joined: dict[tuple[str, ...], Sentence] = {}
    for s in said:
        first = joined.setdefault(s.tokens, s)
        spans = tuple(sorted({*first.spans, *s.spans}))
        rejected = tuple(sorted({*first.rejected, *s.rejected}))
        joined[s.tokens] = replace(first, spans=spans, rejected=rejected)
    return tuple(joined.values())


def reviewed(count: int) -> Callable[[Trial], Sample]:
    return lambda trial: trial.sample(partial=answers(trial, count))


def mention_free(share: float) -> Callable[[Trial], Sample]:
    """True mention-free sentences beside the labelled ones: how much there is to be gained."""

    def way(trial: Trial) -> Sample:
        none = trial.others("none", round(share * trial.shots), holds=False)
        return trial.sample(sentences=(*trial.given, *none))

    return way


def more_sentences(count: int) -> Callable[[Trial], Sample]:
    """Further sentences of the text, labelled in full."""

    def way(trial: Trial) -> Sample:
        return trial.sample(sentences=(*trial.given, *trial.others("more", count)))

    return way


def part_models(trial: Trial) -> list[Predictor]:
    """Models of two thirds of the sentences each."""
    adapter, sample = trial.bench.adapter, Sample(trial.given, trial.seed)
    once = adapter.with_recipe(replace(adapter.recipe, restarts=1, average_folds=False))
    parts = parts_of(sample, folds_of(sample), adapter.recipe.replacements)
    adapter.encode([sample])
    return [
        Predictor(adapter.tagger, once.fit([part]), device=str(adapter.device)) for part in parts
    ]


def reject_in_text(
    model: Predictor, parts: Sequence[Predictor], text: Sequence[Sentence]
) -> tuple[Sentence, ...]:
    """The sentences of a text in which a model finds what fewer than half of some others do,
    labelled in part: what it finds so is rejected, and no more is known of them."""
    found, *others = (
        [{span for span, _ in spans} for spans in one.spans(text)] for one in (model, *parts)
    )
    rejected = (
        {span for span in own if 2 * sum(span in one for one in each) < len(each)}
        for own, *each in zip(found, *others, strict=True)
    )
    return rejecting(dict(zip(text, rejected, strict=True)))


def disagreement(trial: Trial) -> Sample:
    """What the model finds in text and most models of parts of the sentences do not is none."""
    tagger, device = trial.bench.adapter.tagger, trial.bench.device
    folds = trial.folded.models if trial.folded else ()
    models = [Predictor(tagger, m.params, device=device) for m in folds] or part_models(trial)
    return trial.sample(partial=reject_in_text(trial.as_is, models, trial.text()[:VOTED]))


def rejecting(found: dict[Sentence, set[Span]]) -> tuple[Sentence, ...]:
    return tuple(
        replace(s, spans=(), state="partial", rejected=tuple(sorted(spans)))
        for s, spans in found.items()
        if spans
    )


def own_heads(trial: Trial) -> Sample:
    """What the model's own heads call another type is no mention, where the sample shows so."""
    bundled = Predictor.load(None, trial.bench.device)
    shown: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for s, spans in zip(trial.given, bundled.spans(trial.given), strict=True):
        for span, _ in spans:
            shown[span.label] += 1
            taken[span.label] += any(o.start < span.end and span.start < o.end for o in s.spans)
    outside = {label for label, count in shown.items() if count > 2 and not taken[label]}
    text = trial.text()[:FREE]
    found = {
        s: {
            span._replace(label="E") for span, sure in spans if span.label in outside and sure > 0.8
        }
        for s, spans in zip(text, bundled.spans(text), strict=True)
    }
    return trial.sample(partial=rejecting(found))


def quiet(share: float) -> Callable[[Trial], Sample]:
    """The sentences in which a model finds a mention least likely are taken to hold none."""

    def way(trial: Trial) -> Sample:
        text = trial.text()[:FREE]
        chance = [u.chance for u in trial.as_is.uncertainties(text)]
        order = sorted(range(len(text)), key=chance.__getitem__)
        count = round(share * trial.shots)
        chosen = order[len(order) // 4 : len(order) // 2]  # neither headings nor mentions
        rows = chosen[:: max(1, len(chosen) // count)][:count]
        none = [replace(text[row], spans=()) for row in rows]
        return trial.sample(sentences=(*trial.given, *none))

    return way


def with_text(trial: Trial) -> Sample:
    return trial.sample(unlabelled=trial.unlabelled())


def prevalence_risk(kind: str, oracle: bool) -> Callable[[Trial], TextTeacher]:
    """Text is descended by how many of its sentences hold a mention: as it is, or as label shift
    estimates it."""

    def way(trial: Trial) -> TextTeacher:
        true = max(fmean(bool(s.spans) for s in trial.unlabelled()), 0.005)

        def teach(tagger: Any, params: Any, store: Any, rows: Any) -> PrevalenceRisk:
            share = torch.full((len(rows),), true, device=store.device)
            if not oracle:
                every = chances(tagger, params, store, rows).cpu().numpy()
                share = share.new_tensor([label_shift(own)[0] for own in every])
            return PrevalenceRisk(rows, share, kind)

        return teach

    return way


def shifted(trial: Trial, model: Predictor, found: Found) -> Found:
    """What is found, by the prevalence that label shift finds in text: of a sentence whose chance
    of a mention falls, scores fall by as much; what falls below one half is left out."""
    text = np.array([u.chance for u in model.uncertainties(trial.text()[:FREE])])
    share, _ = label_shift(text)
    own = np.array([u.chance for u in model.uncertainties(trial.test)])
    odds = own / np.clip(1 - own, 1e-9, None) * share / (1 - share)
    factor = (odds / (1 + odds)) / np.clip(own, 1e-9, None)
    rows = zip(found, factor, strict=True)
    return [[(span, p * f) for span, p in spans if p * f >= 0.5 * min(p, 1)] for spans, f in rows]


def gate(trial: Trial, model: Predictor, found: Found) -> Found:
    """What is found in sentences that are like the given ones rather than like text: a logistic
    regression on the mean vector of a sentence, text being presumed to hold no mention, adds its
    log odds to those of a score."""
    bench, text = trial.bench, trial.text()[:FREE]
    vectors = bench.vectors([*trial.given, *text, *trial.test])
    learnt, own = vectors[: len(trial.given) + len(text)], vectors[-len(trial.test) :]
    y = np.r_[np.ones(len(trial.given)), np.zeros(len(text))]
    logits = logistic(learnt, y, own)
    rows = zip(found, logits, strict=True)
    odds = [[(span, p, np.log(p / (1 - p + 1e-6)) + x) for span, p in s] for s, x in rows]
    return [[(span, p) for span, p, own in spans if own >= 0] for spans in odds]


def logistic(
    x: NDArray[np.float64], y: NDArray[np.float64], own: NDArray[np.float64], ridge: float = 1.0
) -> NDArray[np.float64]:
    """Log odds of rows by a ridge logistic regression on others, both classes of one weight."""
    mean, deviation = x.mean(0), x.std(0) + 1e-6
    z, weights = (x - mean) / deviation / x.shape[1] ** 0.5, np.zeros(x.shape[1])
    each = np.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    bias = 0.0
    for _ in range(30):  # Newton
        p = 1 / (1 + np.exp(-(z @ weights + bias)))
        a = np.c_[z, np.ones(len(z))]
        h = (a * (each * p * (1 - p))[:, None]).T @ a + ridge * np.diag([1.0] * z.shape[1] + [0.0])
        g = a.T @ (each * (p - y)) + ridge * np.r_[weights, 0.0]
        step = np.linalg.solve(h + 1e-9 * np.eye(len(h)), g)
        weights, bias = weights - step[:-1], bias - float(step[-1])
    return (own - mean) / deviation / x.shape[1] ** 0.5 @ weights + bias


_UNBIASED = {"o_bias": 0.0, "o_bias_density": 0.0}
_LONGER = SelfTraining(steps=50, rate=1.0)
WAYS: dict[str, Way] = {
    "as is": Way(),
    "4 mention-free": Way(mention_free(0.2)),
    "40 mention-free": Way(mention_free(2)),
    "100 mention-free": Way(mention_free(5)),
    "10 more sentences of the text": Way(more_sentences(10)),
    "20 answers": Way(reviewed(20)),
    "50 answers": Way(reviewed(50)),
    "100 answers": Way(reviewed(100)),
    "20 answers, 3 a step": Way(reviewed(20), {"partial": 3}),
    "20 answers, 12 a step": Way(reviewed(20), {"partial": 12}),
    "20 answers, no O-bias": Way(reviewed(20), _UNBIASED),
    "50 answers, no O-bias": Way(reviewed(50), _UNBIASED),
    "no O-bias": Way(recipe=_UNBIASED),
    "free: disagreement": Way(disagreement, {"average_folds": False}),
    "free: other heads": Way(own_heads),
    "free: 20 quiet sentences": Way(quiet(1)),
    "free: 60 quiet sentences": Way(quiet(3)),
    "free: self-training": Way(with_text),
    "free: label shift": Way(sift=shifted),
    "free: sentence gate": Way(sift=gate),
    **{
        f"{'oracle' if oracle else 'free'}: {kind}": Way(
            with_text, {"self_training": _LONGER}, prevalence_risk(kind, oracle)
        )
        for kind in ("expectation", "non-negative")
        for oracle in (True, False)
    },
}
