"""Which adaptation recipe is best for a type that training has not seen.

    python benchmarks/recipe.py --root CORPORA --encoder RUN/model [--device cuda]
    python benchmarks/recipe.py --root CORPORA --vectors VECTORS.bin  # of the BiLSTM

A model is trained on the types of thirteen corpora (diseases, drugs, genes, species), then fitted
to a few sentences of each of six types of other domains (cells, their parts, what they do) and
scored on devel sentences. One thing at a time is changed of the recipe in use. None of the eight
benchmark corpora is fitted to or scored here. Lines go where `trials.py` says.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from trials import Bench, Pool, trial

from hardner import corpora
from hardner.adapt.recipe import Recipe, recipe_for
from hardner.adapt.sample import negative_sentences
from hardner.catalogue import BENCHMARK
from hardner.config import merged
from hardner.evaluate.system import with_word_vectors
from hardner.meta.experiment import experiment
from hardner.meta.loop import drawing, initial_state, loop
from hardner.meta.methods import heads_for
from hardner.meta.network import build_network
from hardner.meta.source_data import load_source_data, with_labels
from hardner.model.layers import Params
from hardner.model.tagger import Model
from hardner.types import Sentence

SOURCES = (*BENCHMARK, "BioNLP09", "BioNLP11EPI", "BioNLP11ID", "BioNLP13GE", "Ex-PTM")
UNSEEN = (
    ("JNLPBA-5", "cell_type"),
    ("JNLPBA-5", "cell_line"),
    ("BioNLP13CG", "Cell"),
    ("BioNLP13PC", "Cellular_component"),
    ("CRAFT", "CL"),
    ("CRAFT", "GO"),
)
DECODERS = {"transformer": "softmax", "bilstm": "crf"}
"""Of the models that are trained on the sources."""

Changes = Mapping[str, Any]


class Start(NamedTuple):
    """What is fitted: the pre-trained encoder, trained on the sources for a while."""

    iterations: int
    share: float = 1.0
    """Of the way from the encoder's parameters to the trained ones."""
    rehearsals: int = 0
    """Iterations after that in which adaptation to a new type is rehearsed (HGDA with NEs)."""

    def __str__(self) -> str:
        mixed = f", {self.share:g} of the way" if self.share < 1 else ""
        more = f", {self.rehearsals} rehearsals" if self.rehearsals else ""
        return f"{self.iterations} iterations{mixed}{more}"


STARTS = (
    Start(0),
    Start(750, 0.5),
    Start(1500, 0.2),
    Start(1500, 0.3),
    Start(1500, 0.4),
    Start(1500, 0.7),
    Start(1500),
    Start(4000, 0.3),
    Start(4000, 0.5),
    Start(1500, 0.5, 500),
)
REHEARSAL = {
    "method": "hgda-both",
    "inner": {"steps": 5, "rate": 1e-3, "optimizer": "adamw", "decoder": 20.0, "fresh": True},
    "train": {"tasks": 8, "shots": 10, "rate": 5e-5},
}
"""As in the experiments types-hgda/*."""
START = Start(1500, 0.5)
OF_WORDS = Start(1500)
"""What a BiLSTM starts from: there is no pre-trained one to lie half-way from."""
Variants = tuple[tuple[str, Changes], ...]
CHANGES: Variants = (
    ("none", {}),
    ("no caution", {"o_bias": 0.0}),
    ("caution 1", {"o_bias": 1.0}),
    ("caution 2", {"o_bias": 2.0}),
    ("caution 3", {"o_bias": 3.0}),
    ("caution 4", {"o_bias": 4.0}),
    ("caution 5", {"o_bias": 5.0}),
    ("caution 6", {"o_bias": 6.0}),
    ("caution by rarity, 6", {"o_bias": 0.0, "o_bias_density": 6.0}),
    ("caution by rarity, 10", {"o_bias": 0.0, "o_bias_density": 10.0}),
    ("caution by rarity, 14", {"o_bias": 0.0, "o_bias_density": 14.0}),
    ("no background sentences", {"negatives": 0}),
    ("4 background sentences a step", {"negatives": 4}),
    ("16 background sentences a step", {"negatives": 16}),
    ("no CRF", {"decoder": None}),
    ("decoder starts at random", {"start": "random"}),
    ("decoder starts from the mean of the known ones", {"start": "mean"}),
    ("decoder at 20 times the encoder's rate", {"scales": {"decoder": 20.0}}),
    ("decoder at 100 times the encoder's rate", {"scales": {"decoder": 100.0}}),
    ("table of pieces too", {"layers": 0}),
    ("four upper layers", {"layers": 4}),
    ("half the rate", {"rate": 3e-4}),
    ("1.5 times the rate", {"rate": 9e-4}),
    ("half the steps", {"steps": 50, "passes": 4}),
    ("twice the steps", {"steps": 200, "passes": 16}),
    ("dropout 0.05", {"dropout": 0.05}),
    ("dropout 0.2", {"dropout": 0.2}),
    ("one fit", {"restarts": 1}),
    ("mean of 6 fits", {"restarts": 6}),
    ("mean of 3 fits, twice the rate", {"rate": 1.2e-3}),
    ("one fit, mean of the last half of its steps", {"restarts": 1, "iterate_averaging": 0.5}),
    ("mean of 3 fits and of the last half of their steps", {"iterate_averaging": 0.5}),
)
CHANGES_OF_WORDS: Variants = (
    ("none", {}),
    ("caution 1", {"o_bias": 1.0}),
    ("caution -1", {"o_bias": -1.0}),
    ("caution -2", {"o_bias": -2.0}),
    ("no background sentences", {"negatives": 0}),
    ("16 background sentences a step", {"negatives": 16}),
    ("decoder starts from zero", {"start": "zero"}),
    ("decoder starts from the mean of the known ones", {"start": "mean"}),
    ("decoder at the encoder's rate", {"scales": {}}),
    ("decoder at 20 times the encoder's rate", {"scales": {"decoder": 20.0}}),
    ("a quarter of the rate", {"rate": 1e-3}),
    ("half the rate", {"rate": 2e-3}),
    ("twice the rate", {"rate": 8e-3}),
    ("a third of the steps", {"steps": 50, "passes": 5}),
    ("dropout 0.5", {"dropout": 0.5}),
    ("mean of the last half of the steps", {"iterate_averaging": 0.5}),
    ("mean of 3 fits", {"restarts": 3}),
    ("mean of 3 fits, decoder starts from zero", {"restarts": 3, "start": "zero"}),
)


def pools(root: Path, most: int) -> Iterator[Pool]:
    """The unseen types, all under one label, with at most so many devel sentences."""
    for corpus, label in UNSEEN:
        found = with_labels(corpora.load_corpus(corpus, root), {label})
        yield Pool.of(f"{corpus}/{label}", found, most)


class Trainer:
    """The sources, read once, and models that were trained on them for a while."""

    def __init__(
        self, root: Path, encoder: dict[str, str], known: Sequence[Sentence], device: str
    ) -> None:
        """Args: ``known`` are the sentences that the models will be given later."""
        self.table: dict[str, Any] = {
            "method": "multitask",
            "preset": "best",
            "encoder": encoder,
            "decoder": {"kind": DECODERS[encoder["kind"]], "per": "type"},
            "data": {"root": str(root), "corpora": list(SOURCES)},
            "train": {"tasks": 8, "shots": 16},
        }
        plan = experiment(self.table, {})
        self.source_data = load_source_data(plan)
        model = Model(*build_network(plan, self.source_data))
        self.tagger, params = with_word_vectors(model, plan.encoder.vectors, known)
        self.params = {n: p.to(device) for n, p in params.items()}
        self.device = device
        self._trained: dict[Start, Params] = {Start(0): self.params}

    def __call__(self, start: Start) -> Params:
        """The parameters after so many iterations, or a share of the way to them."""
        if start not in self._trained:
            whole = start._replace(share=1.0, rehearsals=0)
            if whole not in self._trained:
                self._trained[whole] = self._train(self.params, {}, start.iterations)
            trained = self._trained[whole]
            mixed = {n: torch.lerp(self.params[n], p, start.share) for n, p in trained.items()}
            if start.rehearsals:
                mixed = self._train(mixed, REHEARSAL, start.rehearsals)
            self._trained[start] = mixed
        return self._trained[start]

    def _train(self, params: Params, how: dict[str, Any], iterations: int) -> Params:
        plan = experiment(merged(self.table, how), {"train": {"iterations": iterations}})
        heads = heads_for(
            plan.build_method(), self.tagger.encoder.size, len(self.source_data.names)
        )
        tagger = replace(self.tagger, heads=heads)
        fresh = tagger.init(plan.seed) if heads != self.tagger.heads else params
        params = {n: params.get(n, p.to(self.device)).clone() for n, p in fresh.items()}
        store = self.source_data.store(tagger, self.source_data.train, self.device)
        way, training = plan.build_method(), plan.training()
        draw = drawing(way, self.source_data.train, plan.train.tasks, plan.train.shots, 0)
        began = time.perf_counter()
        progress = initial_state(params, way, training)
        last = deque(loop(tagger, way, training, store, draw, progress), maxlen=1).pop()
        loss, seconds = float(last.losses[0].mean()), time.perf_counter() - began
        print(f"{iterations} iterations: loss {loss:.4f}, {seconds:.0f} s", flush=True)
        return progress.params


def variants_of(kind: str, share: float) -> Iterator[tuple[str, Start, Recipe]]:
    """What is tried with a kind of encoder: names, starts and rules.

    ``share`` is that of the start of a transformer from which everything else is tried.
    """
    base = recipe_for("best", kind)
    usual = START._replace(share=share)
    start, changes = (OF_WORDS, CHANGES_OF_WORDS) if kind == "bilstm" else (usual, CHANGES)
    for name, change in changes:
        yield name, start, replace(base, **change)
    if kind == "transformer":
        quick = recipe_for("quick", kind)
        yield "quick", start, quick
        for o_bias in (0.0, 2.0, 3.0, 4.0, 5.0):
            yield f"quick, caution {o_bias:g}", start, replace(quick, o_bias=o_bias)
        for other in STARTS:
            yield f"start: {other}", other, base


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--encoder", help="the folder of a pre-trained transformer")
    kind.add_argument("--vectors", help="a file of word vectors, for a BiLSTM")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--shots", default="5,20")
    parser.add_argument("--devel", type=int, default=600, help="devel sentences of a type")
    parser.add_argument(
        "--share", type=float, default=START.share, help="of the way that the start lies"
    )
    parser.add_argument("--only", action="append", help="a variant; all if none is named")
    args = parser.parse_args()
    found = list(pools(args.root, args.devel))
    known = [*negative_sentences(), *(s for pool in found for s in (*pool.train, *pool.devel))]
    encoder = (
        {"kind": "transformer", "folder": args.encoder}
        if args.encoder
        else {"kind": "bilstm", "vectors": args.vectors}
    )
    trainer = Trainer(args.root, encoder, known, args.device)
    bench = Bench(trainer.tagger, found, args.samples, args.device)
    shots = [int(k) for k in args.shots.split(",")]

    def measure(name: str, start: Start, rule: Recipe) -> None:
        about = {"change": name, "encoder": encoder["kind"], "start": start._asdict()}
        trial(about, [bench], [trainer(start)], rule, shots)

    variants = list(variants_of(encoder["kind"], args.share))
    names = [name for name, _, _ in variants]
    if unknown := sorted(set(args.only or ()) - set(names)):
        parser.error(f"no variant {unknown[0]!r}; there are {', '.join(names)}")
    for variant in variants:
        if not args.only or variant[0] in args.only:
            measure(*variant)


if __name__ == "__main__":
    main()
