"""Models of parts of the sentences, judged on the others: what is known before any test data is.

For each fold a model learns from all others and is judged on it. One further model learns from the
first fold alone and is judged on the others: a second point of the learning curve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hardner.adapt.cached_layers import cache_lower_layers, upper_tagger
from hardner.adapt.fit import fit_samples, init_target_head, negatives_for
from hardner.adapt.forecast import HeldOutScores
from hardner.adapt.mention_replacement import Replacement, pad_rows, replace_mentions
from hardner.adapt.recipe import Recipe
from hardner.batch import Store, TagSet
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.seeds import seed_of
from hardner.tag.added_heads import Model
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span

Heard = Callable[[int, int], None]
"""Told how many models are fitted, of how many."""
_Spans = Sequence[Sequence[Span]]


@dataclass(frozen=True)
class Course:
    """Where every fit starts from, and how it goes."""

    model: Model
    tag_set: TagSet
    """Of the new type."""
    decoder: Params
    """What is known of its decoder, [1, 1, ...]; the rule decides the rest."""
    sentences: tuple[Sentence, ...]
    rule: Recipe
    device: str = "cpu"
    seed: int = 0
    unlabelled: tuple[Sentence, ...] = ()
    """Without labels, to learn from as well."""

    @cached_property
    def tagger(self) -> Tagger:
        """With a decoder for the new type alone."""
        return init_target_head(*self.model, self.tag_set, self.rule, [0])[0]

    @cached_property
    def replacements(self) -> list[Replacement]:
        """Sentences with each other's mentions."""
        return replace_mentions(self.sentences, self.rule.replacements, seed_of("swaps", self.seed))

    @cached_property
    def store(self) -> Store:
        """The sentences, and what the rule learns beside them."""
        replacements = (swap.sentence for swap in self.replacements)
        every = (*self.sentences, *self.unlabelled, *replacements, *negatives_for(self.rule))
        return self.tagger.store(every, device=self.device)

    @cached_property
    def read(self) -> Store:
        """The same as fits read them: layers that the rule leaves alone have read them once."""
        if not self.rule.layers:
            return self.store
        params = self.start(0)
        return cache_lower_layers(
            upper_tagger(self.tagger, params, self.rule.layers), params, self.store
        )

    def start(self, *tasks: int) -> Params:
        """Where the fits of these numbers begin."""
        seeds = [seed_of("decoder", self.seed, task) for task in tasks]
        _, params = init_target_head(*self.model, self.tag_set, self.rule, seeds)
        known = {n: p.expand_as(params[n]) for n, p in self.decoder.items() if n in params}
        return params | known

    def fitted(
        self,
        tasks: Sequence[Sequence[int]],
        tick: Callable[[int], None],
        on_progress: Heard | None = None,
    ) -> list[Params]:
        """The parameters fitted to each choice of sentences, and to those without labels.

        On a GPU all are fitted at once, shorter choices being filled up with nothing; on a CPU,
        which is busy with one, one by one.
        """
        size = 1 if self.store.device.type == "cpu" else len(tasks)
        found: list[Params] = []
        text = len(self.sentences) + np.arange(len(self.unlabelled))
        for first in range(0, len(tasks), size):
            some = tasks[first : first + size]
            more = np.tile(text, (len(some), 1)) if len(text) else None  # [M, N]
            numbers = range(first, first + len(some))
            replacements = (
                pad_rows([self._swapped(set(task)) for task in some]) if self.replacements else None
            )
            seeds = [seed_of("adapt", self.seed, number) for number in numbers]
            start, rule = self.start(*numbers), self.rule
            rows = pad_rows(some)
            params = fit_samples(
                self.tagger, start, self.read, rows, rule, seeds, more, on_progress, replacements
            )
            found += [params_of_task(params, i) for i in range(len(some))]
            tick(len(some))
        return found

    def _swapped(self, rows: set[int]) -> list[int]:
        """Where sentences lie that are made of these alone."""
        first = len(self.sentences) + len(self.unlabelled)
        made = enumerate(self.replacements, start=first)
        return [row for row, swap in made if {swap.place, swap.giver} <= rows]

    @torch.no_grad()
    def loss(self, params: Params) -> float:
        """On all sentences together."""
        rows = torch.arange(len(self.sentences), device=self.store.device).unsqueeze(0)
        batch = self.store.batch(rows, self.store.widths(rows[0].cpu().numpy()))
        return self.tagger.losses(params, batch, ["tag"])["tag"].item()

    def predictor(self, params: Params) -> Predictor:
        """Fitted parameters at work."""
        return Predictor(self.tagger, params, device=self.device)

    def spans(self, params: Params, rows: Sequence[int]) -> list[list[Span]]:
        """What fitted parameters find in some of the sentences."""
        found = self.predictor(params).spans([self.sentences[row] for row in rows])
        return [[span for span, _ in spans] for spans in found]


class Fold(NamedTuple):
    """Sentences that a model learns from, and those it is judged on."""

    learnt: list[int]
    held: list[int]


class FoldModel(NamedTuple):
    """A model of a part of the sentences, and those it has not seen."""

    params: Params
    rows: list[int]


class CrossValidation(NamedTuple):
    """What the folds showed."""

    large: HeldOutScores
    small: HeldOutScores | None
    """None where a fold is as large as the rest."""
    models: list[FoldModel]
    """Those that learnt from most."""


def params_of_task(params: Params, task: int) -> Params:
    """The parameters of one task."""
    return {n: p if p.shape[0] == 1 else p[task : task + 1] for n, p in params.items()}


def average_params(models: Sequence[Params]) -> Params:
    """Of fits that began alike: steadier than any of them, and they have been paid for."""
    kept, *others = models
    found = dict(kept)
    for name, value in kept.items():
        if any(other[name] is not value for other in others):
            found[name] = torch.stack([model[name] for model in models]).mean(0)
    return found


def folds_of(sentences: Sequence[Sentence], folds: int, seed: int = 0) -> list[Fold]:
    """Each fold held out from the others; sentences with mentions are spread over all of them.

    Sentences that share a mention stay together as far as a fold can hold them: a user's sentences
    are about the same things more often than the text that the model is for.
    """
    count = min(folds, len(sentences))
    room = -(-len(sentences) // count)
    order = np.random.default_rng(seed).permutation(len(sentences)).tolist()
    groups = [g[i : i + room] for g in _alike(sentences, order) for i in range(0, len(g), room)]
    parts: list[list[int]] = [[] for _ in range(count)]
    for group in sorted(groups, key=lambda g: (not sentences[g[0]].spans, -len(g))):
        min(parts, key=len).extend(group)
    every = set(range(len(sentences)))
    return [Fold(sorted(every - set(part)), sorted(part)) for part in parts]


def _alike(sentences: Sequence[Sentence], rows: Sequence[int]) -> list[list[int]]:
    """The rows parted so that no two parts have a mention in common."""
    groups: list[tuple[list[int], set[str]]] = []
    for row in rows:
        tokens, spans = sentences[row].tokens, sentences[row].spans
        said = {" ".join(tokens[span.start : span.end]).casefold() for span in spans}
        joined, apart = [row], []
        for group in groups:
            if said & group[1]:
                joined, said = group[0] + joined, said | group[1]
            else:
                apart.append(group)
        groups = [*apart, (joined, said)]
    return [group for group, _ in groups]


def count_fits(sentences: int, folds: int) -> int:
    """How many models are fitted in all, the one of all sentences included."""
    count = min(folds, sentences)
    return count + (count > 2) + 1 if sentences > 1 else 1


def cross_validate(course: Course, folds: int, tick: Callable[[int], None]) -> CrossValidation:
    """Fit and judge a model of each fold, and a small one."""
    forward = folds_of(course.sentences, folds, course.seed)
    back = [Fold(fold.held, fold.learnt) for fold in forward[:1] if len(forward) > 2]
    once = course
    if course.rule.restarts > 1:
        once = replace(course, rule=replace(course.rule, restarts=1))
    fitted = once.fitted([fold.learnt for fold in (*forward, *back)], tick)
    ahead, behind = fitted[: len(forward)], fitted[len(forward) :]
    return CrossValidation(
        _trial(course, forward, ahead),
        _trial(course, back, behind) if back else None,
        [FoldModel(p, f.held) for p, f in zip(ahead, forward, strict=True)],
    )


def _trial(course: Course, folds: Sequence[Fold], fitted: Sequence[Params]) -> HeldOutScores:
    counts = np.zeros((len(course.sentences), 3))
    for fold, params in zip(folds, fitted, strict=True):
        gold = [course.sentences[row].spans for row in fold.held]
        counts[fold.held] = count_spans(gold, course.spans(params, fold.held))
    learnt = sum(len(fold.learnt) for fold in folds) / len(folds)
    return HeldOutScores(learnt, counts)


def count_spans(gold: _Spans, found: _Spans) -> NDArray[np.float64]:
    """tp, fp and fn of each sentence: [K, 3]."""
    pairs = [(set(right), set(said)) for right, said in zip(gold, found, strict=True)]
    rows = [(len(r & s), len(s - r), len(r - s)) for r, s in pairs]
    return np.array(rows, np.float64).reshape(-1, 3)
