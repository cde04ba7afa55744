"""python experiments/study/plot.py curves|pairs|tasks FILE... [--out FIGURE]

Draws what curves.py wrote. ``curves``: F1 of the tasks over a training; ``pairs``: which task helps
which; ``tasks``: a map of the task vectors.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import typer
from records import TASKS, CurvePoint, TaskVector, read_records
from relations import f1_alone, pair_gains, task_similarity

from hardner.errors import HardnerError, import_extra
from hardner.evaluate.plots import (
    MARKERS,
    PAGE_WIDTH,
    PALETTE,
    PANELS_ACROSS,
    add_legend,
    new_figure,
    new_panels,
    write_figure,
)

MEAN = "mean"


def draw_curves(files: Sequence[Path]) -> Any:
    """F1 against passes over the data: a panel a corpus, a line a method and task."""
    points = [p for p in _read(files, CurvePoint) if p.whole]
    if not points:
        raise HardnerError(f"no training of a whole method in {', '.join(map(str, files))}")
    corpora = list(dict.fromkeys(p.corpus for p in points))
    rows = list(dict.fromkeys((p.method, len(p.corpora), p.task) for p in points))
    figure, panels = new_panels(len(corpora), 1.9)
    for axes, corpus in zip(panels.flat, corpora, strict=False):
        for place, row in enumerate(rows):
            found: dict[float, list[float]] = {}
            for p in points:
                if (p.method, len(p.corpora), p.task, p.corpus) == (*row, corpus):
                    found.setdefault(p.passes, []).append(p.f1)
            if found:
                line = (list(found), [fmean(v) for v in found.values()])
                axes.plot(*line, color=PALETTE[place % len(PALETTE)], label=_label(row, rows))
        axes.set_title(corpus)
    add_legend(figure, panels, len(corpora))
    figure.supxlabel("passes over the training data", fontsize=8)
    figure.supylabel("F1", fontsize=8)
    return figure


def _label(row: tuple[str, int, str], rows: Sequence[tuple[str, int, str]]) -> str:
    """The parts of a row's name that tell it from the other rows."""
    method, corpora, task = row
    told = [method] if len({r[0] for r in rows}) > 1 else []
    told += [f"{corpora} corpora"] if len({r[1] for r in rows}) > 1 else []
    told += [task] if len({r[2] for r in rows}) > 1 or not told else []
    return ", ".join(told)


def draw_pairs(files: Sequence[Path]) -> Any:
    """What each task (down) gains from a second one (across), in points of F1; a panel a corpus.

    The diagonal shows the F1 of each task trained alone.
    """
    points = _read(files, CurvePoint)
    gains, base = dict(pair_gains(points)), f1_alone(points)
    if not gains:
        said = ", ".join(map(str, files))
        raise HardnerError(f"no pair of tasks in {said}; run curves.py --pairs")
    if len(gains) > 1:
        gains[MEAN], base[MEAN] = _mean(list(gains.values())), {}
    tasks = list(TASKS.values())
    figure, panels = new_panels(len(gains), 1.7, PANELS_ACROSS + 1)
    largest = max(abs(v) for g in gains.values() for row in g.values() for v in row.values())
    for axes, (corpus, gain) in zip(panels.flat, gains.items(), strict=False):
        shown = np.array([[gain.get(m, {}).get(s, np.nan) for s in tasks] for m in tasks])
        shade = {"vmin": -largest, "vmax": largest, "cmap": "RdBu"}
        axes.imshow(np.ma.masked_invalid(shown), aspect="auto", **shade)
        for down, main in enumerate(tasks):
            for right in range(len(tasks)):
                value, own = shown[down, right], base[corpus].get(main)
                text = "" if np.isnan(value) else f"{100 * value:+.1f}"
                if down == right and own is not None:
                    text = f"{100 * own:.1f}"
                dark = not np.isnan(value) and abs(value) > 0.7 * largest
                colour = "0.5" if down == right else "white" if dark else "black"
                axes.text(right, down, text, ha="center", va="center", fontsize=7, color=colour)
        axes.set_xticks(range(len(tasks)), tasks)
        axes.set_yticks(range(len(tasks)), tasks)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(corpus)
    for axes in list(panels.flat)[len(gains) :]:
        axes.set_visible(False)
    figure.supxlabel("second task (on the diagonal: F1 alone)", fontsize=8)
    figure.supylabel("main task", fontsize=8)
    return figure


def _mean(gains: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """The mean gain over corpora."""
    found: dict[str, dict[str, list[float]]] = {}
    for gain in gains:
        for main, row in gain.items():
            for second, value in row.items():
                found.setdefault(main, {}).setdefault(second, []).append(value)
    return {m: {s: fmean(v) for s, v in row.items()} for m, row in found.items()}


def draw_tasks(files: Sequence[Path]) -> Any:
    """The tasks in a plane, like ones near each other (t-SNE of their vectors' cosines)."""
    vectors = [v for v in _read(files, TaskVector) if v.seed == 0]
    if len({len(v.vector) for v in vectors}) != 1 or len(vectors) < 4:
        raise HardnerError("a map needs the vectors of four tasks or more, all of one encoder")
    where = project(vectors)
    figure = new_figure(PAGE_WIDTH * 0.75, 3.6)
    axes = figure.subplots()
    kinds, corpora = list(TASKS.values()), list(dict.fromkeys(v.corpus for v in vectors))
    colours = dict(zip(kinds, PALETTE, strict=False))
    markers = {corpus: MARKERS[i % len(MARKERS)] for i, corpus in enumerate(corpora)}
    for each, (x, y) in zip(vectors, where, strict=True):
        axes.plot(x, y, markers[each.corpus], color=colours[each.task], markersize=6)
    for kind in kinds:
        axes.plot([], [], MARKERS[0], color=colours[kind], label=kind)
    for corpus in corpora:
        hollow = {"markerfacecolor": "none", "linestyle": "none"}
        axes.plot([], [], color="black", marker=markers[corpus], label=corpus, **hollow)
    axes.margins(0.15)
    axes.set(xticks=[], yticks=[])
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def project(vectors: Sequence[TaskVector]) -> list[tuple[float, float]]:
    """Two coordinates for each vector, by t-SNE."""
    manifold = import_extra("sklearn.manifold", "plot")
    cosines = np.array([list(row.values()) for row in task_similarity(vectors).values()])
    near = manifold.TSNE(
        metric="precomputed",
        init="random",
        perplexity=min(5.0, (len(vectors) - 1) / 3),
        random_state=0,
    )
    return [(float(x), float(y)) for x, y in near.fit_transform(np.clip(1 - cosines, 0, None))]


def _read(files: Sequence[Path], kind: type[Any]) -> list[Any]:
    return [record for path in files for record in read_records(path, kind)]


FIGURES: dict[str, Callable[[Sequence[Path]], Any]] = {
    "curves": draw_curves,
    "pairs": draw_pairs,
    "tasks": draw_tasks,
}


def save(kind: str, files: Sequence[Path], path: str | Path) -> list[Path]:
    """Draw a figure and write it as SVG, PNG or both."""
    return write_figure(lambda: FIGURES[kind](files), path)


def plot(
    kind: Annotated[
        StrEnum("FigureKind", list(FIGURES)),
        typer.Argument(help="F1 over a training, which task helps which, or a map of the tasks."),
    ],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Of curves.py.")],
    out: Annotated[
        Path, typer.Option(help="An .svg or .png file; without an ending, both are written.")
    ] = Path("figure"),
) -> None:
    """Draw what curves.py wrote."""
    for path in save(kind.value, files, out):
        typer.echo(path, err=True)


if __name__ == "__main__":
    try:
        typer.run(plot)
    except HardnerError as error:
        sys.exit(f"plot.py: {error}")
