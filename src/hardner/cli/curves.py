"""``hardner curves``: train, and score the tasks on test data as the training goes."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hardner.cli.common import DEVICE, progress_bar, stderr, warnings_on_stderr
from hardner.errors import HardnerError


def curves(
    files: Annotated[list[Path], typer.Argument(metavar="EXPERIMENT...")],
    corpora: Annotated[
        str, typer.Option(help="Trained on, with commas between; by default the experiment's.")
    ] = "",
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs", help="Also train each task alone and any two, and find the tasks' vectors."
        ),
    ] = False,
    points: Annotated[int, typer.Option(min=1, help="Moments of a training to score at.")] = 20,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Of a training; by default the experiment's.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How often to do it all.")] = 1,
    sentences: Annotated[
        int, typer.Option(min=1, help="At most so many for a task's vector.")
    ] = 2000,
    root: Annotated[
        Path | None, typer.Option(help="The folder that holds the corpora's folders.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for results.")] = Path("results"),
    device: DEVICE = "auto",
) -> None:
    """Train on the train and devel data of corpora, and score their test data on the way.

    Appends to curves.jsonl and, with --pairs, to task_space.jsonl in the results' folder, and sums
    up in task_relations.json which task helps which. What is there is not done again.

    Examples:

    - `hardner curves multigranularity/ncbi-disease --pairs`
    - `hardner curves mtbioner/four mtbioner/four-in-turn`
    """
    from hardner.evaluate import relations
    from hardner.evaluate.curve_lines import Place, Point, read
    from hardner.evaluate.curves import CURVES, SPACE, Study
    from hardner.meta.experiment_table import load_experiment

    overrides: dict[str, object] = {} if device == "auto" else {"device": device}
    overrides |= {"train": {"iterations": iterations}} if iterations else {}
    studies = []
    for path in files:
        experiment = load_experiment(path, overrides)
        names = tuple(corpora.split(",")) if corpora else experiment.data.corpora
        if not names:
            raise HardnerError(f"{path} names no corpora: give --corpora")
        where = root or Path(experiment.data.root)
        for seed in range(experiment.seed, experiment.seed + seeds):
            own = replace(experiment, seed=seed)
            studies.append(Study(own, names, where, out, points, pairs, sentences))
    progress = progress_bar()
    task = progress.add_task("", total=sum(len(study.jobs()) for study in studies))
    with warnings_on_stderr(), progress:
        for study in studies:
            said = f"{study.experiment.method}, {' + '.join(study.corpora)}"
            progress.update(task, description=said)
            for job in study.run():
                progress.advance(task)
                if job.ended is not None and progress.disable:
                    ends = ", ".join(f"{c} {t} {f1:.3f}" for (c, t), f1 in job.ended.items())
                    told = f"{said}, {' + '.join(job.tasks)}: {ends}"
                    stderr.print(told, markup=False)
    if pairs:
        found = read(out / CURVES, Point), read(out / SPACE, Place)
        relations.write(out / "task_relations.json", *found)
    stderr.print(f"{out / CURVES}; next: hardner plot curves {out / CURVES}", markup=False)
