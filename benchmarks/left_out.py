"""Which adaptation recipe is best for a domain that training has left out.

    python benchmarks/left_out.py runs/types-disease runs/types-gene --root CORPORA

Each run is a model that was trained without a domain (of the experiment types/disease and its
like, or multitask/disease and its like for a BiLSTM). It is fitted to a few training
sentences, other ones than the table of results draws, of each of the benchmark's corpora of that
domain, and scored on devel sentences. No test sentence is read. Lines go where `trials.py` says.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from trials import Bench, Pool, trial

from hardner.adapt.recipe import Recipe, encoder_kind, recipe_for
from hardner.adapt.sample import negative_sentences
from hardner.catalogue import BENCHMARK
from hardner.corpora import Corpora
from hardner.evaluate.system import with_word_vectors
from hardner.jobs import MODEL_FOLDER, flat
from hardner.meta.experiment import Experiment, experiment, read_experiment
from hardner.meta.run import EXPERIMENT_FILE
from hardner.model.describe import load_model
from hardner.model.tagger import Model

QUICK = replace(
    recipe_for("quick", "transformer"), steps=25, rate=1.4e-3, negatives=3, sqrt_rate_scaling=False
)
BEST = replace(
    recipe_for("best", "transformer"),
    steps=100,
    rate=6e-4,
    batch=8,
    passes=8,
    negatives=8,
    layers=6,
    scales={"decoder": 50.0},
    iterate_averaging=0.0,
    replacements=0,
)
"""What the presets once were; rows say how they differ from them."""
THREE = replace(QUICK, restarts=3)
CALM = replace(THREE, steps=50, rate=7e-4, negatives=8)
FITS: dict[str, Recipe] = {
    "best": BEST,
    "best, 50 steps": replace(BEST, steps=50),
    "best, mean of the last steps": replace(BEST, iterate_averaging=0.7),
    "best, four layers, mean of the last steps": replace(BEST, layers=4, iterate_averaging=0.7),
    "best, mentions swapped": replace(BEST, replacements=16),
    "best, 32 mentions swapped": replace(BEST, replacements=32),
    "best, four layers, 32 mentions swapped": replace(BEST, layers=4, replacements=32),
    "best, 50 steps, mentions swapped": replace(BEST, steps=50, replacements=16),
    "best, mean of the last steps, mentions swapped": replace(
        BEST, iterate_averaging=0.7, replacements=16
    ),
    "quick": replace(QUICK, replacements=0),
    "quick, mentions swapped": QUICK,
    "quick, 8 beside, mentions swapped": replace(QUICK, negatives=8),
    "quick, half the rate, 8 beside": replace(QUICK, rate=7e-4, negatives=8),
    "quick, calmer where steps are many": replace(QUICK, sqrt_rate_scaling=True),
    "quick, 28 steps, calmer where steps are many": replace(
        QUICK, steps=28, rate=1.25e-3, sqrt_rate_scaling=True
    ),
    "quick, 30 steps, 4 beside, calmer where steps are many": replace(
        QUICK, steps=30, rate=1.2e-3, negatives=4, sqrt_rate_scaling=True
    ),
    "quick, 35 steps, 5 beside, calmer where steps are many": replace(
        QUICK, steps=35, rate=1e-3, negatives=5, sqrt_rate_scaling=True
    ),
    "quick, half the rate, mentions swapped": replace(QUICK, rate=7e-4),
    "quick, half the rate, 5 beside": replace(QUICK, rate=7e-4, negatives=5),
    "quick, 3 fits": replace(QUICK, restarts=3, replacements=0),
    "quick, 3 fits, mentions swapped": THREE,
    "quick, 3 fits, 32 mentions swapped": replace(THREE, replacements=32),
    "quick, 3 fits, six layers, mentions swapped": replace(THREE, layers=6),
    "quick, 3 fits, three layers, mentions swapped": replace(THREE, layers=3),
    "quick, 3 fits, two layers, mentions swapped": replace(THREE, layers=2),
    "quick, 3 fits, three layers, 8 beside": replace(THREE, layers=3, negatives=8),
    "quick, 3 fits, 8 beside, mentions swapped": replace(THREE, negatives=8),
    "quick, 3 fits, half the rate, 8 beside": replace(THREE, rate=7e-4, negatives=8),
    "quick, 3 fits, 50 steps, half the rate, 8 beside": CALM,
    "quick, 3 fits, 50 steps, half the rate, 8 beside, 32 swapped": replace(CALM, replacements=32),
    "quick, 3 fits, 50 steps, half the rate, 8 beside, from prototypes": replace(
        CALM, prototypes=True
    ),
    "quick, 3 fits, 50 steps, half the rate, 8 beside, twice the passes": replace(CALM, passes=14),
    "quick, 6 fits, 50 steps, half the rate, 8 beside": replace(CALM, restarts=6),
    "quick, 3 fits, 100 steps, a quarter of the rate, 8 beside": replace(
        CALM, steps=100, rate=3.5e-4
    ),
    "quick, 3 fits, 50 steps, mentions swapped": replace(THREE, steps=50),
    "quick, 3 fits, half the rate, mentions swapped": replace(THREE, rate=7e-4),
    "quick, 3 fits, the last step, mentions swapped": replace(THREE, iterate_averaging=0.0),
    "quick, 3 fits, decoder x50, mentions swapped": replace(THREE, scales={"decoder": 50.0}),
    "quick, 3 fits, batches of 8, mentions swapped": replace(THREE, batch=8, passes=8),
    "quick, 3 fits, twice the passes": replace(QUICK, restarts=3, passes=14, replacements=0),
}
_FIRST = recipe_for("best", "bigru")  # what a BiLSTM was fitted by, too
_BRIEF = replace(_FIRST, steps=50, scales={"decoder": 20.0})
_SWAPPED = replace(_BRIEF, replacements=32, iterate_averaging=0.7)
_FIFTY = replace(_SWAPPED, scales={"decoder": 50.0})
_ALONE = replace(_FIFTY, negatives=0)
_HUNDRED = replace(_SWAPPED, scales={"decoder": 100.0})
RECURRENT: dict[str, Recipe] = {
    "best": _FIRST,
    "80 steps, decoder x50, swapped, 3 beside, dropout 0.5, 30 passes": replace(
        recipe_for("best", "bilstm"), o_bias_size=0.0
    ),
    "best, 3 fits": replace(_FIRST, restarts=3),
    "best, swapped": replace(_FIRST, replacements=32, iterate_averaging=0.7),
    "best, decoder x20, swapped, nothing beside": replace(
        _FIRST, replacements=32, iterate_averaging=0.7, negatives=0, scales={"decoder": 20.0}
    ),
    "50 steps, decoder x20": _BRIEF,
    "50 steps, decoder x20, half the rate": replace(_BRIEF, rate=2e-3),
    "50 steps, decoder x20, nothing beside": replace(_BRIEF, negatives=0),
    "50 steps, decoder x20, swapped": _SWAPPED,
    "50 steps, decoder x20, swapped, half the rate": replace(_SWAPPED, rate=2e-3),
    "50 steps, decoder x20, swapped, nothing beside": replace(_SWAPPED, negatives=0),
    "50 steps, decoder x20, swapped, 3 fits": replace(_SWAPPED, restarts=3),
    "25 steps, decoder x20, swapped": replace(_SWAPPED, steps=25),
    "50 steps, decoder x50, swapped": _FIFTY,
    "50 steps, decoder x50, swapped, nothing beside": _ALONE,
    "50 steps, decoder x50, swapped, nothing beside, 3 fits": replace(_ALONE, restarts=3),
    "50 steps, decoder x50, swapped, nothing beside, dropout 0.5": replace(_ALONE, dropout=0.5),
    "50 steps, decoder x50, swapped, nothing beside, dropout 0.5, 3 fits": replace(
        _ALONE, dropout=0.5, restarts=3
    ),
    "50 steps, decoder x50, swapped, nothing beside, dropout 0.5, from prototypes": replace(
        _ALONE, dropout=0.5, prototypes=True
    ),
    "50 steps, decoder x50, swapped, nothing beside, 30 passes": replace(_ALONE, passes=30),
    "50 steps, decoder x50, swapped, 3 beside, 30 passes": replace(_ALONE, negatives=3, passes=30),
    "50 steps, decoder x50, swapped, 3 fits": replace(_FIFTY, restarts=3),
    "50 steps, decoder x50, swapped, the last step": replace(_FIFTY, iterate_averaging=0.0),
    "50 steps, decoder x100, swapped": _HUNDRED,
    "50 steps, decoder x100, swapped, nothing beside": replace(_HUNDRED, negatives=0),
    "50 steps, decoder x100, swapped, 3 beside": replace(_HUNDRED, negatives=3),
    "50 steps, decoder x100, swapped, 3 fits": replace(_HUNDRED, restarts=3),
    "50 steps, decoder x100, swapped, from zero": replace(_HUNDRED, start="zero"),
    "50 steps, decoder x100, swapped, from prototypes": replace(_HUNDRED, prototypes=True),
    "50 steps, decoder x100, swapped, dropout 0.5": replace(_HUNDRED, dropout=0.5),
    "50 steps, decoder x200, swapped": replace(_SWAPPED, scales={"decoder": 200.0}),
    "50 steps, decoder x200, swapped, half the rate": replace(
        _SWAPPED, rate=2e-3, scales={"decoder": 200.0}
    ),
    "50 steps, decoder x400, swapped, a quarter of the rate": replace(
        _SWAPPED, rate=1e-3, scales={"decoder": 400.0}
    ),
    "100 steps, decoder x50, swapped": replace(_FIFTY, steps=100),
    "100 steps, decoder x100, swapped": replace(_HUNDRED, steps=100),
}
"""Of a BiLSTM."""
CAUTIONS: dict[str, tuple[float, float]] = {
    "caution -4": (-4.0, 0.0),
    "caution -2": (-2.0, 0.0),
    "caution -1": (-1.0, 0.0),
    "no caution": (0.0, 0.0),
    "caution 1": (1.0, 0.0),
    "caution 5": (5.0, 0.0),
    "caution 1, rarity 3": (1.0, 3.0),
    "rarity 1.5": (0.0, 1.5),
    "rarity 3": (0.0, 3.0),
    "rarity 6": (0.0, 6.0),
    "rarity 10": (0.0, 10.0),
    "rarity 15": (0.0, 15.0),
}
"""Caution and rarity. They follow a fit, and so need no fit of their own."""


def pools(domain: str, root: Path, most: int) -> Iterator[Pool]:
    """The benchmark's corpora of a domain, with at most so many devel sentences."""
    known = Corpora.under(root)
    for name in (n for n in BENCHMARK if known.domain_of(n) == domain):
        yield Pool.of(f"{name}, trial", known.load(name), most)


def way(plan: Experiment) -> dict[str, Any]:
    """How a run was trained, as far as trials differ in it."""
    plain = {"method": "multitask", "preset": "best", "encoder": {"kind": plan.encoder.kind}}
    usual = dict(flat(experiment(plain).table()))
    told = (
        "method",
        "encoder.hidden",
        "encoder.skip",
        "inner",
        "train.tasks",
        "train.shots",
        "train.dropout",
    )
    values = flat(plan.table())
    how = {key: value for key, value in values if key.startswith(told) and value != usual[key]}
    return {
        "iterations": plan.train.iterations,
        "share": plan.train.weight_interpolation,
        "rehearsals": 0,
        "folder": plan.encoder.folder,
        "how": how,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--shots", default="5,20,100")
    parser.add_argument("--devel", type=int, default=600, help="devel sentences of a corpus")
    parser.add_argument("--unlabelled", type=int, default=0, help="sentences without labels")
    parser.add_argument(
        "--only", action="append", choices=[*FITS, *RECURRENT], help="by default all of the encoder"
    )
    parser.add_argument("--cautions", action="append", choices=CAUTIONS, help="by default all")
    args = parser.parse_args()
    benches, starts, ways = [], [], []
    for run in args.runs:
        plan = read_experiment(run / EXPERIMENT_FILE)
        found = list(pools(plan.target, args.root, args.devel))
        given = [s for pool in found for s in (*pool.train, *pool.devel)]
        tagger, params = with_word_vectors(
            Model(*load_model(run / MODEL_FOLDER)),
            plan.encoder.vectors,
            [*given, *negative_sentences()],
        )
        benches.append(Bench(tagger, found, args.samples, args.device))
        starts.append({n: p.to(args.device) for n, p in params.items()})
        ways.append(way(plan) | {"kind": encoder_kind(tagger)})
    if any(own != ways[0] for own in ways):
        parser.error("the runs were trained in different ways")
    start = ways[0]
    kind = start.pop("kind")
    fits = RECURRENT if kind == "bilstm" else FITS
    if other := set(args.only or ()) - fits.keys():
        parser.error(f"--only: not for a {kind}: {', '.join(sorted(other))}")
    left = sorted(pool.name.split(",")[0] for bench in benches for pool in bench.pools)
    shots = [int(k) for k in args.shots.split(",")]
    for name, called in product(args.only or fits, args.cautions or CAUTIONS):
        o_bias, o_bias_density = CAUTIONS[called]
        change = f"{name}, {called}"
        if args.unlabelled:
            change += f", {args.unlabelled} unlabelled"
        about = {"change": change, "encoder": kind, "start": start, "left_out": left}
        rule = replace(fits[name], o_bias=o_bias, o_bias_density=o_bias_density)
        trial(about, benches, starts, rule, shots, args.unlabelled)


if __name__ == "__main__":
    main()
