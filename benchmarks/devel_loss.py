"""Does every method learn? The source devel loss before and after 200 iterations of each.

    python benchmarks/devel_loss.py [CORPORA] [--method NAME]...

As in the experiment METHOD/disease: the sources are of Drug, Gene and Species, the network is the
BiLSTM of the preset `paper`. On a CPU the sources are three corpora instead of six, the network is
half as wide, and an iteration has four tasks instead of eight. The loss is measured the method's
own way (after adaptation, where it adapts) on the same episodes before and after, so it can be
compared along a row, not down a column.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from record import record

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from hardner.config import merged
from hardner.meta.experiment import experiment, experiment_tables
from hardner.meta.methods import METHODS
from hardner.meta.run import run_experiment

ITERATIONS = 200
GPU = torch.cuda.is_available()
DEVICE = torch.cuda.get_device_name() if GPU else "CPU, 1 core"
SMALLER = {
    "data": {"corpora": ["BC5CDR-chem", "BC2GM", "S800"]},
    "encoder": {"hidden": 64, "dimension": 100, "filters": 25, "recurrent": 0},
    "train": {"tasks": 4},
}


def devel_losses(name: str, root: str) -> tuple[float, float]:
    """Before and after training by a method."""
    table = experiment_tables().get(f"{name}/disease", {"method": name})
    few = {
        "target": "Disease",
        "data": {"root": root},
        "train": {"iterations": ITERATIONS, "save": ITERATIONS},
        "devel": {"every": ITERATIONS, "episodes": 64},
    }
    with tempfile.TemporaryDirectory() as folder:
        run_experiment(experiment(table, few if GPU else merged(few, SMALLER)), folder)
        lines = map(json.loads, Path(folder, "log.jsonl").read_text("utf-8").splitlines())
        scores = {line["after"]: line["devel_loss"] for line in lines if "after" in line}
    return scores[0], scores[ITERATIONS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="?", default="../shared/corpora")
    parser.add_argument("--method", action="append", choices=list(METHODS))
    args = parser.parse_args()
    torch.set_num_threads(1)  # more gain nothing on steps this small
    for name in args.method or METHODS:
        start = time.perf_counter()
        before, after = devel_losses(name, args.corpora)
        case = f"{name}, {ITERATIONS} iterations, target Disease"
        record("devel loss", case, DEVICE, after, before, "before training", "devel loss")
        print(f"  {time.perf_counter() - start:.0f} s", file=sys.stderr)
        if after >= before:
            sys.exit(f"{name} did not lower the devel loss")


if __name__ == "__main__":
    main()
