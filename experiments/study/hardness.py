"""python experiments/study/hardness.py RUN [--iterations 1,450] > results/hardness.json

The tasks of some iterations of a run with their weights, and each domain's weights over the run,
for HGDA's Table 1 and MetaBioNER's Table 4. Of the sentences it keeps the ids alone, as the corpora
are not ours to copy; `hardner hardness RUN` shows them.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hardner.meta.hardness import Hardness, hardest_tasks


def kept(run: Path, iterations: list[int]) -> dict[str, Any]:
    found = Hardness.of(run)
    ranked = hardest_tasks(run, found, iterations)
    tasks = [
        {
            "iteration": task.iteration,
            "weight": task.weight,
            "domain": task.domain,
            "bearing": sum(bool(sentence.spans) for sentence in task.sentences),
            "sentences": [sentence.id for sentence in task.sentences],
        }
        for iteration in iterations
        for task in ranked[iteration]
    ]
    curves = {
        curve.domain: {"iterations": curve.iterations, "weights": curve.weights}
        for curve in found.curves()
    }
    experiment = found.experiment.table()
    del experiment["data"]["root"]
    experiment["encoder"]["vectors"] = Path(experiment["encoder"]["vectors"]).name
    return {"experiment": experiment, "tasks": tasks, "domains": curves}


def main(run: Annotated[Path, typer.Argument(help="Folder.")], iterations: str = "1,450") -> None:
    print(json.dumps(kept(run, [int(part) for part in iterations.split(",")]), indent=1))


if __name__ == "__main__":
    typer.run(main)
