"""Trials of adaptation recipes: types that a model has not seen, and what recipes make of them.

`recipe.py` and `left_out.py` choose the models and the types. Each recipe and number of sentences
is a line of results/ablation.jsonl; `python benchmarks/pages` makes results/ablation.md of them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hardner.adapt.fit import add_o_bias, fit_samples, init_target_head, negatives_for, o_bias_for
from hardner.adapt.mention_replacement import replacements_for
from hardner.adapt.recipe import Recipe
from hardner.adapt.self_training import unlabelled_rows, usable_sentences
from hardner.batch import TagSet
from hardner.episodes import few_shot
from hardner.evaluate.provenance import commit
from hardner.evaluate.test_set import TestSet
from hardner.meta.source_data import relabelled
from hardner.model.layers import Params
from hardner.model.runtime import autocast
from hardner.model.tagger import Tagger
from hardner.types import Corpus, Sentence

LINES = Path(__file__).parents[1] / "results" / "ablation.jsonl"
TAGS = TagSet("unseen", ("E",))


class Pool(NamedTuple):
    """A type to be learnt."""

    name: str
    train: tuple[Sentence, ...]
    devel: tuple[Sentence, ...]

    @classmethod
    def of(cls, name: str, found: Corpus, most: int) -> "Pool":
        """All mentions of a corpus under one label, with at most so many devel sentences."""
        step = max(1, len(found.devel) // most)
        splits = (found.train, found.devel[::step])
        return cls(name, *(tuple(relabelled(s, "E") for s in split) for split in splits))


class Bench:
    """The unseen types, and what recipes make of them."""

    def __init__(self, tagger: Tagger, found: Sequence[Pool], samples: int, device: str) -> None:
        self.tagger, self.pools, self.samples, self.device = tagger, found, samples, device
        self._exams: dict[tuple[int, int, str | None], list[TestSet]] = {}
        self._fits: dict[int, Params] = {}
        self._fitted_by: tuple[int, str, int] | None = None

    def scores(
        self, start: Params, rule: Recipe, shots: int, unlabelled: int = 0
    ) -> dict[str, list[float]]:
        """By type, precision, recall and F1, the means over samples; all are fitted at once."""
        samples, others = [], []
        for pool in self.pools:
            drawn = [few_shot(pool.name, pool.train, shots, i) for i in range(self.samples)]
            samples += [[pool.train[row] for row in rows] for rows in drawn]
            order = usable_sentences(pool.train) if unlabelled else []
            free = unlabelled_rows(pool.train, order, drawn, unlabelled)
            others += [[replace(pool.train[row], spans=()) for row in rows] for rows in free]
        rows = np.arange(len(samples) * shots).reshape(-1, shots)
        seeds = [i % self.samples for i in range(len(samples))]
        tagger, params = init_target_head(self.tagger, start, TAGS, rule, seeds)
        made, replacements = replacements_for(samples, rule.replacements, seeds, rows.size)
        least = min(map(len, others))  # all samples take as many
        bare = [sentence for own in others for sentence in own[:least]]
        first = rows.size + len(made)
        more = np.arange(first, first + len(bare)).reshape(-1, least) if least else None
        every = [*chain.from_iterable(samples), *made, *bare, *negatives_for(rule)]
        store = tagger.store(every, device=self.device)
        bold = replace(
            rule, o_bias=0.0, o_bias_density=0.0, o_bias_size=0.0
        )  # its fits serve any caution
        if self._fitted_by != (by := (id(start), repr(bold), unlabelled)):
            self._fits, self._fitted_by = {}, by
        if shots not in self._fits:
            self._fits[shots] = fit_samples(
                tagger, params, store, rows, bold, seeds, more, replacements=replacements
            )
        fitted = add_o_bias(self._fits[shots], o_bias_for(rule, store, rows))
        found = {}
        exams = self._examined(id(start), rule, tagger, params)
        for i, (pool, test_set) in enumerate(zip(self.pools, exams, strict=True)):
            own = slice(i * self.samples, (i + 1) * self.samples)
            part = {n: p if p.shape[0] == 1 else p[own] for n, p in fitted.items()}
            with autocast(rule.precision, torch.device(self.device)):
                scores = [s["E"].score for s in test_set(part)]
            each = [(s.precision, s.recall, s.f1) for s in scores]
            found[pool.name] = np.mean(each, axis=0).round(5).tolist()
        return found

    def _examined(self, start: int, rule: Recipe, tagger: Tagger, params: Params) -> list[TestSet]:
        """The exams of a start, whose lower layers have read them where fits leave these alone."""
        key = start, rule.layers, rule.decoder
        if key not in self._exams:
            exams = [TestSet(tagger, pool.devel, device=self.device) for pool in self.pools]
            if rule.layers:
                exams = [test_set.lifted(params, rule.layers) for test_set in exams]
            self._exams[key] = exams
        return self._exams[key]


def trial(
    about: Mapping[str, Any],
    benches: Sequence[Bench],
    starts: Sequence[Params],
    rule: Recipe,
    shots: Sequence[int],
    unlabelled: int = 0,
) -> None:
    """Try a recipe and add a line for each number of sentences.

    Args:
        about: What the lines say beside: the ``change``, which is shown, and the like.
        benches: The types.
        starts: What is fitted, for each bench.
        rule: The recipe.
        shots: Numbers of sentences.
        unlabelled: Sentences of a type that are learnt from without their labels.
    """
    began = time.perf_counter()
    means = []
    for k in shots:
        scores: dict[str, list[float]] = {}
        for bench, start in zip(benches, starts, strict=True):
            scores |= bench.scores(start, rule, k, unlabelled)
        means.append(np.mean(list(scores.values()), axis=0).round(5).tolist())
        recipe = asdict(rule) | {"parts": sorted(rule.parts)}
        fixed = {"shots": k, "samples": benches[0].samples, "recipe": recipe}
        fixed |= {"unlabelled": unlabelled} if unlabelled else {}
        line = {**about, **fixed, "scores": scores, "mean": means[-1], "commit": commit()}
        with LINES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    shown = "  ".join(" ".join(f"{part:.4f}" for part in mean) for mean in means)
    print(f"{about['change']:50} {shown}  {time.perf_counter() - began:.1f} s", flush=True)
