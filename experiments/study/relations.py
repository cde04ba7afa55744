"""Which task helps which, and which tasks are alike: a summary of what curves.py measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import torch
from fisher import cosine_similarity
from records import CurvePoint, TaskVector

from hardner.files import atomic_write

Gains = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By corpus, main task and second task: the main task's F1 with it, less its F1 alone."""


def f1_alone(points: Sequence[CurvePoint]) -> dict[str, dict[str, float]]:
    """By corpus and task, the F1 at the end of a training for that task only; mean of the seeds."""
    return {c: {t: fmean(v) for (t,), v in found.items()} for c, found in _ends(points, 1).items()}


def pair_gains(points: Sequence[CurvePoint]) -> Gains:
    """Multi-granularity, Figure 5; pairs that were not trained both ways are left out."""
    alone = f1_alone(points)
    gains: dict[str, dict[str, dict[str, float]]] = {}
    for corpus, found in _ends(points, 2).items():
        for (main, second), values in found.items():
            if main in alone.get(corpus, {}):
                gain = fmean(values) - alone[corpus][main]
                gains.setdefault(corpus, {}).setdefault(main, {})[second] = gain
    return gains


def _ends(
    points: Sequence[CurvePoint], together: int
) -> dict[str, dict[tuple[str, ...], list[float]]]:
    """By corpus and task, followed by those trained with it, the F1 of each seed at the end."""
    found: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for p in points:
        if p.last and len(p.tasks) == together:
            tasks = (p.task, *(other for other in p.tasks if other != p.task))
            found.setdefault(p.corpus, {}).setdefault(tasks, []).append(p.f1)
    return found


def task_similarity(vectors: Sequence[TaskVector]) -> dict[str, dict[str, float]]:
    """The cosine similarity of each pair of task vectors, by ``corpus task``."""
    if not vectors:
        return {}
    matrix = torch.tensor([each.vector for each in vectors], dtype=torch.float64)  # [N, U]
    names = [f"{each.corpus} {each.task}" for each in vectors]
    rows = cosine_similarity(matrix).tolist()
    return {n: dict(zip(names, row, strict=True)) for n, row in zip(names, rows, strict=True)}


def write_relations(
    path: str | Path, points: Sequence[CurvePoint], vectors: Sequence[TaskVector]
) -> None:
    """All of it, as JSON."""
    found = {
        "alone": f1_alone(points),
        "help": pair_gains(points),
        "likeness": task_similarity(vectors),
    }
    with atomic_write(path) as file:
        file.write(json.dumps(found, indent=1) + "\n")
