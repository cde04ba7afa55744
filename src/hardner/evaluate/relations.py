"""Which task helps which, and which are alike."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import torch

from hardner.evaluate.curve_lines import Place, Point
from hardner.evaluate.fisher import similarity
from hardner.files import atomic_write

Help = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By corpus, main task and second task: the main task's F1 with it, less its F1 alone."""


def alone(points: Sequence[Point]) -> dict[str, dict[str, float]]:
    """By corpus and task, the F1 at the end of a training for that task only; mean of the seeds."""
    return {c: {t: fmean(v) for (t,), v in found.items()} for c, found in _ends(points, 1).items()}


def helps(points: Sequence[Point]) -> Help:
    """Multi-granularity, Figure 5; what was not trained both ways is left out."""
    base = alone(points)
    gains: dict[str, dict[str, dict[str, float]]] = {}
    for corpus, found in _ends(points, 2).items():
        for (main, second), values in found.items():
            if main in base.get(corpus, {}):
                gain = fmean(values) - base[corpus][main]
                gains.setdefault(corpus, {}).setdefault(main, {})[second] = gain
    return gains


def _ends(points: Sequence[Point], together: int) -> dict[str, dict[tuple[str, ...], list[float]]]:
    """By corpus and task, followed by those trained with it, the F1 of each seed at the end."""
    found: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for p in points:
        if p.last and len(p.tasks) == together:
            tasks = (p.task, *(other for other in p.tasks if other != p.task))
            found.setdefault(p.corpus, {}).setdefault(tasks, []).append(p.f1)
    return found


def likeness(places: Sequence[Place]) -> dict[str, dict[str, float]]:
    """By task and task, the cosine of their vectors."""
    if not places:
        return {}
    vectors = torch.tensor([place.vector for place in places], dtype=torch.float64)  # [N, U]
    names = [name(place) for place in places]
    rows = similarity(vectors).tolist()
    return {n: dict(zip(names, row, strict=True)) for n, row in zip(names, rows, strict=True)}


def name(place: Place) -> str:
    """Of a task on a corpus."""
    return f"{place.corpus} {place.task}"


def write(path: str | Path, points: Sequence[Point], places: Sequence[Place]) -> None:
    """All of it, as JSON."""
    found = {"alone": alone(points), "help": helps(points), "likeness": likeness(places)}
    with atomic_write(path) as file:
        file.write(json.dumps(found, indent=1) + "\n")
