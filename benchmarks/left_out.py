"""Which adaptation recipe is best for a domain that training has left out.

    python benchmarks/left_out.py runs/types-disease runs/types-gene --root CORPORA

Each run is a model that was trained without a domain (experiments/types-disease.toml and its
like). It is fitted to a few training sentences, other ones than the table of results draws, of
each of the benchmark's corpora of that domain, and scored on devel sentences. No test sentence is
read. Lines go where `trials.py` says.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from trials import Bench, Pool, trial

from hardner import corpora
from hardner.evaluate.targets import domain_of
from hardner.learn.adaptation import Adaptation, adaptation
from hardner.learn.experiment import read
from hardner.learn.folder import EXPERIMENT, MODEL
from hardner.learn.material import BENCHMARK
from hardner.model.describe import load_model

QUICK = adaptation("quick", "transformer")
BEST = adaptation("best", "transformer")
RECIPES: dict[str, Adaptation] = {
    "best": BEST,
    "best, caution 1": replace(BEST, caution=1.0),
    "best, caution by rarity": replace(BEST, caution=0.0, rarity=10.0),
    "quick": QUICK,
    "quick, no caution": replace(QUICK, caution=0.0),
    "quick, caution 2": replace(QUICK, caution=2.0),
    "quick, 3 fits": replace(QUICK, soup=3),
    "quick, 3 fits, no caution": replace(QUICK, soup=3, caution=0.0),
    "quick, 3 fits, caution 2": replace(QUICK, soup=3, caution=2.0),
    "quick, 6 fits": replace(QUICK, soup=6),
    "quick, 3 fits, 15 steps": replace(QUICK, soup=3, steps=15),
    "quick, 3 fits, 40 steps": replace(QUICK, soup=3, steps=40),
    "quick, 3 fits, twice the passes": replace(QUICK, soup=3, passes=14),
    "quick, 3 fits, six layers": replace(QUICK, soup=3, layers=6),
    "quick, 3 fits, two layers": replace(QUICK, soup=3, layers=2),
    "quick, 3 fits, decoder at 50 times the rate": replace(QUICK, soup=3, scales={"decoder": 50.0}),
    "quick, 3 fits, 8 background sentences": replace(QUICK, soup=3, background=8),
    "quick, 3 fits, two thirds of the rate": replace(QUICK, soup=3, rate=9e-4),
    "quick, 3 fits, dropout 0.2": replace(QUICK, soup=3, dropout=0.2),
    "quick, 3 fits, no mean of the last steps": replace(QUICK, soup=3, tail=0.0),
}


def pools(domain: str, root: Path, most: int) -> Iterator[Pool]:
    """The benchmark's corpora of a domain, with at most so many devel sentences."""
    for name in (n for n in BENCHMARK if domain_of(n) == domain):
        yield Pool.of(f"{name}, trial", corpora.load(name, root), most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--shots", default="5,20,100")
    parser.add_argument("--devel", type=int, default=600, help="devel sentences of a corpus")
    parser.add_argument("--only", action="append", choices=RECIPES, help="by default all")
    args = parser.parse_args()
    benches, starts = [], []
    for run in args.runs:
        plan = read(run / EXPERIMENT)
        tagger, params = load_model(run / MODEL)
        found = list(pools(plan.target, args.root, args.devel))
        benches.append(Bench(tagger, found, args.samples, args.device))
        starts.append({n: p.to(args.device) for n, p in params.items()})
    start = {"iterations": plan.train.iterations, "share": plan.train.blend, "rehearsals": 0}
    left = sorted(pool.name.split(",")[0] for bench in benches for pool in bench.pools)
    for name in args.only or RECIPES:
        about = {"change": name, "encoder": "transformer", "start": start, "left_out": left}
        trial(about, benches, starts, RECIPES[name], [int(k) for k in args.shots.split(",")])


if __name__ == "__main__":
    main()
