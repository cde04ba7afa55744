"""Trials of adaptation recipes: types that a model has not seen, and what recipes make of them.

`recipe.py` and `left_out.py` choose the models and the types. Each recipe and number of sentences
is a line of results/ablation.jsonl; `python benchmarks/pages` makes results/ablation.md of them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hardner.adapt.adapter import Adapter, add_o_bias, params_of_sample
from hardner.adapt.recipe import Recipe, o_bias_for
from hardner.adapt.sample import Sample
from hardner.adapt.self_training import unlabelled_rows, usable_sentences
from hardner.episodes import few_shot
from hardner.evaluate.results import code_commit
from hardner.evaluate.score import Score, Scorer
from hardner.meta.source_data import relabelled
from hardner.model.layers import Params
from hardner.model.tagger import Model, Tagger
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor
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
        self._scorers = [Scorer(pool.devel) for pool in found]
        self._fits: dict[int, list[Params]] = {}
        self._fitted_by: tuple[int, str, int] | None = None

    def scores(
        self, start: Params, recipe: Recipe, shots: int, unlabelled: int = 0
    ) -> dict[str, list[float]]:
        """By type, precision, recall and F1, the means over samples."""
        samples = [s for pool in self.pools for s in self._drawn(pool, shots, unlabelled)]
        # One fit serves every O-logit bias, which is added afterwards.
        bare = replace(recipe, o_bias=0.0, o_bias_density=0.0, o_bias_size=0.0)
        if self._fitted_by != (by := (id(start), repr(bare), unlabelled)):
            self._fits, self._fitted_by = {}, by
        adapter = Adapter(Model(self.tagger, start), [TAGS], bare)
        if shots not in self._fits:
            self._fits[shots] = [
                params_of_sample(params, i)
                for some, params in adapter.fit_groups(samples)
                for i in range(len(some))
            ]
        each: list[tuple[float, float, float]] = []
        for i, (sample, params) in enumerate(zip(samples, self._fits[shots], strict=True)):
            biased = add_o_bias(params, o_bias_for(recipe, [sample.sentences], [TAGS]))
            predictor = Predictor(adapter.tagger, biased, device=self.device)
            found = self._scorers[i // self.samples](predictor)
            score = found["E"].score if found else Score()
            each.append((score.precision, score.recall, score.f1))
        means = np.array(each).reshape(len(self.pools), self.samples, 3).mean(1).round(5)
        return {pool.name: mean for pool, mean in zip(self.pools, means.tolist(), strict=True)}

    def _drawn(self, pool: Pool, shots: int, unlabelled: int) -> list[Sample]:
        """The samples of a type; all of them take as much unlabelled text."""
        rows = [few_shot(pool.name, pool.train, shots, i) for i in range(self.samples)]
        order = usable_sentences(pool.train) if unlabelled else []
        text = unlabelled_rows(pool.train, order, rows, unlabelled)
        return [
            Sample(
                tuple(pool.train[row] for row in own),
                (pool.name, shots, i),
                tuple(pool.train[row] for row in more),
            )
            for i, (own, more) in enumerate(zip(rows, text, strict=True))
        ]


def trial(
    about: Mapping[str, Any],
    benches: Sequence[Bench],
    starts: Sequence[Params],
    recipe: Recipe,
    shots: Sequence[int],
    unlabelled: int = 0,
) -> None:
    """Try a recipe and add a line for each number of sentences.

    Args:
        about: What the lines say beside: the ``change``, which is shown, and the like.
        benches: The types.
        starts: What is fitted, for each bench.
        recipe: How to fit.
        shots: Numbers of sentences.
        unlabelled: Sentences of a type that are learnt from without their labels.
    """
    began = time.perf_counter()
    means = []
    for k in shots:
        scores: dict[str, list[float]] = {}
        for bench, start in zip(benches, starts, strict=True):
            scores |= bench.scores(start, recipe, k, unlabelled)
        means.append(np.mean(list(scores.values()), axis=0).round(5).tolist())
        values = asdict(recipe) | {"parts": sorted(recipe.parts)}
        fixed = {"shots": k, "samples": benches[0].samples, "recipe": values}
        fixed |= {"unlabelled": unlabelled} if unlabelled else {}
        line = {**about, **fixed, "scores": scores, "mean": means[-1], "commit": code_commit()}
        with LINES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    shown = "  ".join(" ".join(f"{part:.4f}" for part in mean) for mean in means)
    print(f"{about['change']:50} {shown}  {time.perf_counter() - began:.1f} s", flush=True)
