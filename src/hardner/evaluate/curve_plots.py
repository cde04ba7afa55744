"""Figures of tasks: how they come along in a training, which helps which, and which are alike."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from hardner.errors import HardnerError
from hardner.evaluate import plots
from hardner.evaluate.curve_lines import Place, Point, read
from hardner.evaluate.curves import TASKS
from hardner.evaluate.plots import _COLOURS, ACROSS, MARKERS, WIDTH, finish, new_figure
from hardner.evaluate.relations import alone, helps, likeness

MEAN = "mean"


def curves(files: Sequence[Path]) -> Any:
    """F1 against passes over the data: a panel a corpus, a line a method and task."""
    points = [p for p in _read(files, Point) if p.whole]
    if not points:
        raise HardnerError(f"no training of a whole method in {', '.join(map(str, files))}")
    corpora = list(dict.fromkeys(p.corpus for p in points))
    rows = list(dict.fromkeys((p.method, len(p.corpora), p.task) for p in points))
    figure, panels = _panels(len(corpora), 1.9)
    for axes, corpus in zip(panels.flat, corpora, strict=False):
        for place, row in enumerate(rows):
            found: dict[float, list[float]] = {}
            for p in points:
                if (p.method, len(p.corpora), p.task, p.corpus) == (*row, corpus):
                    found.setdefault(p.passes, []).append(p.f1)
            if found:
                line = (list(found), [fmean(v) for v in found.values()])
                axes.plot(*line, color=_COLOURS[place % len(_COLOURS)], label=_label(row, rows))
        axes.set_title(corpus)
    finish(figure, panels, len(corpora))
    figure.supxlabel("passes over the training data", fontsize=8)
    figure.supylabel("F1", fontsize=8)
    return figure


def _label(row: tuple[str, int, str], rows: Sequence[tuple[str, int, str]]) -> str:
    """What tells it from the others."""
    method, corpora, task = row
    told = [method] if len({r[0] for r in rows}) > 1 else []
    told += [f"{corpora} corpora"] if len({r[1] for r in rows}) > 1 else []
    told += [task] if len({r[2] for r in rows}) > 1 or not told else []
    return ", ".join(told)


def pairs(files: Sequence[Path]) -> Any:
    """What each task (down) gains from a second one (across), in points of F1; a panel a corpus."""
    points = _read(files, Point)
    gains, base = dict(helps(points)), alone(points)
    if not gains:
        said = ", ".join(map(str, files))
        raise HardnerError(f"no pair of tasks in {said}; run `hardner curves --pairs`")
    if len(gains) > 1:
        gains[MEAN], base[MEAN] = _mean(list(gains.values())), {}
    tasks = list(TASKS.values())
    figure, panels = _panels(len(gains), 1.7, ACROSS + 1)
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


def _mean(
    gains: Sequence[Mapping[str, Mapping[str, float]]],
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for gain in gains:
        for main, row in gain.items():
            for second, value in row.items():
                found.setdefault(main, {}).setdefault(second, []).append(value)
    return {m: {s: fmean(v) for s, v in row.items()} for m, row in found.items()}


def tasks(files: Sequence[Path]) -> Any:
    """The tasks in a plane, like ones near each other (t-SNE of their vectors' cosines)."""
    places = [p for p in _read(files, Place) if p.seed == 0]
    if len({len(p.vector) for p in places}) != 1 or len(places) < 4:
        raise HardnerError("a map needs the vectors of four tasks or more, all of one encoder")
    where = planar(places)
    figure = new_figure(WIDTH * 0.75, 3.6)
    axes = figure.subplots()
    kinds, corpora = list(TASKS.values()), list(dict.fromkeys(p.corpus for p in places))
    colours = dict(zip(kinds, _COLOURS, strict=False))
    markers = {corpus: MARKERS[i % len(MARKERS)] for i, corpus in enumerate(corpora)}
    for place, (x, y) in zip(places, where, strict=True):
        axes.plot(x, y, markers[place.corpus], color=colours[place.task], markersize=6)
    for kind in kinds:
        axes.plot([], [], MARKERS[0], color=colours[kind], label=kind)
    for corpus in corpora:
        hollow = {"markerfacecolor": "none", "linestyle": "none"}
        axes.plot([], [], color="black", marker=markers[corpus], label=corpus, **hollow)
    axes.margins(0.15)
    axes.set(xticks=[], yticks=[])
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def planar(places: Sequence[Place]) -> list[tuple[float, float]]:
    """Where each task lies in the plane."""
    try:
        manifold = import_module("sklearn.manifold")
    except ImportError:
        advice = "pip install hardner[plot]"
        raise HardnerError(f"the map of tasks needs scikit-learn: {advice}") from None
    cosines = np.array([list(row.values()) for row in likeness(places).values()])
    near = manifold.TSNE(
        metric="precomputed",
        init="random",
        perplexity=min(5.0, (len(places) - 1) / 3),
        random_state=0,
    )
    return [(float(x), float(y)) for x, y in near.fit_transform(np.clip(1 - cosines, 0, None))]


def _panels(count: int, height: float, across: int = ACROSS) -> tuple[Any, Any]:
    across = min(count, across)
    down = ceil(count / across)
    figure = new_figure(WIDTH if across > 1 else WIDTH / 2 + 0.5, 0.8 + height * down)
    return figure, figure.subplots(down, across, sharey=True, squeeze=False)


def _read(files: Sequence[Path], kind: type[Any]) -> list[Any]:
    return [line for path in files for line in read(path, kind)]


FIGURES: dict[str, Callable[[Sequence[Path]], Any]] = {
    "curves": curves,
    "pairs": pairs,
    "tasks": tasks,
}


def save(kind: str, files: Sequence[Path], path: str | Path) -> list[Path]:
    """Draw a figure of what `hardner curves` has written."""
    return plots.write_figure(lambda: FIGURES[kind](files), path)
