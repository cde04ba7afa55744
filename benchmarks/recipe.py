"""Which adaptation recipe is best for a type that training has not seen.

    python benchmarks/recipe.py --root CORPORA --encoder RUN/model [--device cuda]

A model is trained on the types of thirteen corpora (diseases, drugs, genes, species), then fitted
to a few sentences of each of six types of other domains (cells, their parts, what they do) and
scored on devel sentences. Recipes are changed one thing at a time; a change that pays is kept for
those that follow. None of the eight benchmark corpora is fitted to or scored here. Each recipe
and number of sentences is a line of results/ablation.jsonl.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from record import commit

from hardner import corpora
from hardner.batch import TagSet
from hardner.episodes import few_shot
from hardner.evaluate.exam import Exam
from hardner.learn.adaptation import Adaptation
from hardner.learn.draws import drawing
from hardner.learn.experiment import experiment
from hardner.learn.fit import background_for, fit, newcomer
from hardner.learn.graph import arithmetic
from hardner.learn.loop import begin, loop
from hardner.learn.material import BENCHMARK, gather, with_labels
from hardner.learn.network import network
from hardner.learn.optim import Optimizer
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.types import Sentence, Span

SOURCES = (*BENCHMARK, "BioNLP09", "BioNLP11EPI", "BioNLP11ID", "BioNLP13GE", "Ex-PTM")
UNSEEN = (
    ("JNLPBA-5", "cell_type"),
    ("JNLPBA-5", "cell_line"),
    ("BioNLP13CG", "Cell"),
    ("BioNLP13PC", "Cellular_component"),
    ("CRAFT", "CL"),
    ("CRAFT", "GO"),
)
LINES = Path(__file__).parents[1] / "results" / "ablation.jsonl"
TAGS = TagSet("unseen", ("E",))
PAYS = 0.002
"""What a change must add to the mean F1 to be kept."""

Changes = Mapping[str, Any]
BASE = Adaptation(
    100,
    3e-4,
    Optimizer("adamw", weight_decay=0.01),
    batch=8,
    clip=1.0,
    dropout=0.1,
    precision="bfloat16",
    layers=2,
    scales={"decoder": 5.0},
)
CHANGES: tuple[tuple[str, Changes], ...] = (
    ("decoder starts from zero", {"start": "zero"}),
    ("decoder starts from the mean of the known ones", {"start": "mean"}),
    ("three layers", {"layers": 3}),
    ("one layer", {"layers": 1}),
    ("all layers and the table", {"layers": 0, "rate": 2e-4}),
    ("CRF", {"decoder": "crf"}),
    ("twice the rate", {"rate": 6e-4}),
    ("half the rate", {"rate": 1.5e-4}),
    ("half the steps, twice the rate", {"steps": 50, "rate": 6e-4}),
    ("twice the steps", {"steps": 200}),
    ("dropout 0.3", {"dropout": 0.3}),
    ("decoder at the encoder's rate", {"scales": {}}),
    ("decoder at 20 times the encoder's rate", {"scales": {"decoder": 20.0}}),
    ("mean of 4 fits", {"soup": 4}),
    ("4 background sentences a step", {"background": 4}),
    ("8 background sentences a step", {"background": 8}),
    ("caution 0.5", {"caution": 0.5}),
    ("caution 1", {"caution": 1.0}),
    ("caution 2", {"caution": 2.0}),
)


class Pool(NamedTuple):
    """A type to be learnt."""

    name: str
    train: tuple[Sentence, ...]
    devel: tuple[Sentence, ...]


def pools(root: Path, most: int) -> Iterator[Pool]:
    """The unseen types, all under one label, with at most so many devel sentences."""
    for corpus, label in UNSEEN:
        found = with_labels(corpora.load(corpus, root), {label})
        step = max(1, len(found.devel) // most)
        splits = (found.train, found.devel[::step])
        yield Pool(f"{corpus}/{label}", *(tuple(map(_renamed, split)) for split in splits))


def _renamed(sentence: Sentence) -> Sentence:
    return replace(sentence, spans=tuple(Span(s, e, "E") for s, e, _ in sentence.spans))


def trained(
    root: Path, encoder: Path, device: str, iterations: int, more: Changes
) -> tuple[Tagger, Params]:
    """A model of the sources."""
    table: dict[str, Any] = {
        "method": "multitask",
        "preset": "best",
        "encoder": {"kind": "transformer", "folder": str(encoder)},
        "decoder": {"kind": "softmax", "per": "type"},
        "data": {"root": str(root), "corpora": list(SOURCES)},
        "train": {"iterations": iterations, "tasks": 8, "shots": 16},
    }
    plan = experiment(table, more)
    material = gather(plan)
    tagger, params = network(plan, material)
    params = {n: p.to(device) for n, p in params.items()}
    store = material.store(tagger, material.train, device)
    way, training = plan.way(), plan.training()
    draw = drawing(way, material.train, plan.train.tasks, plan.train.shots, 0)
    began = time.perf_counter()
    for step in loop(tagger, way, training, store, draw, begin(params, way, training)):
        if step.iteration % 250 == 0:
            loss, seconds = float(step.losses[0].mean()), time.perf_counter() - began
            print(f"iteration {step.iteration}: loss {loss:.4f}, {seconds:.0f} s", flush=True)
    return tagger, params


class Bench:
    """A model, the unseen types, and what recipes make of them."""

    def __init__(
        self, tagger: Tagger, params: Params, found: Sequence[Pool], samples: int, device: str
    ) -> None:
        self.model, self.pools, self.samples, self.device = (tagger, params), found, samples, device
        self._exams: dict[tuple[int, str | None], list[Exam]] = {}

    def f1(self, rule: Adaptation, shots: int) -> dict[str, float]:
        """By type, the mean over the samples; all types and samples are fitted at once."""
        sentences: list[Sentence] = []
        rows: list[list[int]] = []
        for pool in self.pools:
            for sample in range(self.samples):
                drawn = few_shot(pool.name, pool.train, shots, sample)
                rows.append(list(range(len(sentences), len(sentences) + shots)))
                sentences += [pool.train[row] for row in drawn]
        seeds = [i % self.samples for i in range(len(rows))]
        tagger, params = newcomer(*self.model, TAGS, rule, seeds)
        store = tagger.store([*sentences, *background_for(rule)], device=self.device)
        fitted = fit(tagger, params, store, np.array(rows), rule, seeds)
        found = {}
        exams = self._examined(rule, tagger, params)
        for i, (pool, exam) in enumerate(zip(self.pools, exams, strict=True)):
            own = slice(i * self.samples, (i + 1) * self.samples)
            part = {n: p if p.shape[0] == 1 else p[own] for n, p in fitted.items()}
            with arithmetic(rule.precision, torch.device(self.device)):
                scores = exam(part)
            found[pool.name] = float(np.mean([s["E"].score.f1 for s in scores]))
        return found

    def _examined(self, rule: Adaptation, tagger: Tagger, params: Params) -> list[Exam]:
        key = rule.layers, rule.decoder
        if key not in self._exams:
            exams = [Exam(tagger, pool.devel, device=self.device) for pool in self.pools]
            if rule.layers:
                exams = [exam.lifted(params, rule.layers) for exam in exams]
            self._exams[key] = exams
        return self._exams[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--iterations", type=int, default=1500)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--shots", default="5,20")
    parser.add_argument("--devel", type=int, default=600, help="devel sentences of a type")
    parser.add_argument("--changes", type=int, default=len(CHANGES))
    args = parser.parse_args()
    found = list(pools(args.root, args.devel))
    model = trained(args.root, args.encoder, args.device, args.iterations, {})
    bench = Bench(*model, found, args.samples, args.device)
    LINES.parent.mkdir(exist_ok=True)
    shots = [int(k) for k in args.shots.split(",")]

    def measure(name: str, rule: Adaptation) -> float:
        began = time.perf_counter()
        means = []
        for k in shots:
            scores = bench.f1(rule, k)
            means.append(float(np.mean(list(scores.values()))))
            fixed = {"shots": k, "samples": args.samples, "iterations": args.iterations}
            recipe = asdict(rule) | {"parts": sorted(rule.parts)}
            line = {"change": name, **fixed, "f1": scores, "mean": means[-1], "recipe": recipe}
            with LINES.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | {"commit": commit()}) + "\n")
        shown = " ".join(f"{mean:.4f}" for mean in means)
        print(f"{name:50} {shown}  {time.perf_counter() - began:.1f} s", flush=True)
        return float(np.mean(means))

    rule, best = BASE, measure("base", BASE)
    for name, change in CHANGES[: args.changes]:
        tried = replace(rule, **change)
        if tried != rule and (score := measure(name, tried)) > best + PAYS:
            rule, best = tried, score
    print("kept:", rule)


if __name__ == "__main__":
    main()
