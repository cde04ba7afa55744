"""Figures of results that look right in print: F1 against shots or data, and kinds of errors."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from hardner.errors import FileError, HardnerError
from hardner.evaluate.published import MEAN
from hardner.evaluate.results import Result
from hardner.evaluate.table import BOUND, ResultTable, TableCell, TableRow, build_tables
from hardner.files import atomic_binary

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Told apart by everyone (Okabe and Ito)."""
MARKERS = "osD^vP*X"
_LINES = ("-", "--", ":", "-.")
"""The first for as many rows as there are colours, the next for as many more."""
DPI = 300
ACROSS = 3
"""Panels in a line."""
PUBLISHED = "published"
WIDTH = 7.0
"""Inches: a page between its margins."""
LINE = 0.17
"""Inches: of a legend."""
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "hardner",
}


def plot_shots(results: Sequence[Result]) -> Any:
    """F1 against the number of shots: a panel a corpus, and the mean."""
    table = _only(results, shares=False)
    figure = _panels(table, _names(table), _curves)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_xticks(table.sizes, [str(size) for size in table.sizes])
        axes.minorticks_off()
    figure.supxlabel("labelled sentences", fontsize=8)
    return figure


def plot_ratios(results: Sequence[Result]) -> Any:
    """F1 against the share of the data, and where each method passes In-Domain on all of it."""
    table = _only(results, shares=True)

    def draw(axes: Any, table: ResultTable, corpus: str) -> None:
        _curves(axes, table, corpus)
        bounds = [r for r in table.rows if r.method == BOUND]
        for bound in bounds:
            full = table.cell(1.0, bound, corpus).mean if 1.0 in table.sizes else None
            if full is not None:
                axes.axhline(full, color="0.6", linewidth=0.7, linestyle="--", zorder=0)
        for place, row in enumerate(table.rows):
            share = None if row.method == BOUND else table.passing(row, corpus)
            if share is not None and share <= 1:
                axes.axvline(share, color=_colour(place), linewidth=0.7, linestyle=":", zorder=0)

    figure = _panels(table, table.corpora, draw)
    for axes in figure.axes:
        axes.set_xlim(0, 1.02)
        axes.set_xticks((0, 0.5, 1), ("0%", "50%", "100%"))
    figure.supxlabel("share of the training data", fontsize=8)
    return figure


ERRORS = {
    "boundary": ("fp_boundary", "fn_boundary"),
    "type": ("fp_type", "fn_type"),
    "missed": ("missed",),
    "spurious": ("spurious",),
}


def plot_errors(results: Sequence[Result]) -> Any:
    """The wrong mentions of each method by kind, for each right mention; a panel a size."""
    tables = build_tables(results)
    if len(tables) > 1:
        raise HardnerError(f"results of several protocols: {', '.join(t.protocol for t in tables)}")
    (table,) = tables
    count, rows = len(table.sizes), len(table.rows)
    across = min(count, ACROSS)
    down = ceil(count / across)
    figure = new_figure(WIDTH, 0.7 + down * (0.55 + 0.24 * rows))
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    labels = [table.label(row) for row in table.rows]
    for axes, size in zip(panels.flat, table.sizes, strict=False):
        left = [0.0] * rows
        for (kind, parts), colour in zip(ERRORS.items(), _COLOURS, strict=False):
            shares = [_share(results, row, size, parts) for row in table.rows]
            axes.barh(range(rows), shares, left=left, color=colour, label=kind, height=0.7)
            left = [a + b for a, b in zip(left, shares, strict=True)]
        axes.set_yticks(range(rows), labels)
        axes.set_title(f"{size} shots" if isinstance(size, int) else f"{size:.0%} of the data")
    panels.flat[0].invert_yaxis()
    finish(figure, panels, count)
    figure.supxlabel("wrong mentions for each right one in the text", fontsize=8)
    return figure


def _share(results: Iterable[Result], row: TableRow, size: float, parts: Sequence[str]) -> float:
    """The mean over corpora of the wrong mentions of a kind for each right one."""
    corpora: dict[str, list[float]] = {}
    for r in results:
        if TableRow.of(r) == row and r.size == size and (r.tp or r.fn):
            wrong = sum(r.kinds[part] for part in parts)
            corpora.setdefault(r.corpus, []).append(wrong / (r.tp + r.fn))
    return fmean(fmean(values) for values in corpora.values()) if corpora else 0.0


def _only(results: Sequence[Result], shares: bool) -> ResultTable:
    kept = [r for r in results if (r.share is not None) == shares]
    tables = build_tables(kept)
    if len(tables) != 1:
        wanted = "shares of the data" if shares else "numbers of shots"
        said = ", ".join(t.protocol for t in tables) or "none"
        raise HardnerError(f"a figure needs one protocol with {wanted}; the files hold {said}")
    return tables[0]


def _names(table: ResultTable) -> tuple[str, ...]:
    return (*table.corpora, MEAN) if len(table.corpora) > 1 else table.corpora


def _panels(
    table: ResultTable, named: Sequence[str], draw: Callable[[Any, ResultTable, str], None]
) -> Any:
    """A panel for each corpus that something was run on."""
    names = [name for name in named if name in table.run]
    across = min(len(names), ACROSS)
    down = ceil(len(names) / across)
    figure = new_figure(WIDTH if across > 1 else WIDTH / 2 + 0.5, 0.8 + 1.7 * down)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for axes, corpus in zip(panels.flat, names, strict=False):
        draw(axes, table, corpus)
        axes.set_title(corpus)
    panels.flat[0].set_ylim(bottom=0)
    finish(figure, panels, len(names))
    figure.supylabel("F1", fontsize=8)
    return figure


def _curves(axes: Any, table: ResultTable, corpus: str) -> None:
    """A line a row with the spread of its samples; published values as empty markers."""
    for place, row in enumerate(table.rows):
        cells = {size: table.cell(size, row, corpus) for size in table.sizes}
        run = {size: cell for size, cell in cells.items() if cell.mean is not None}
        known = {size: cell.published.value for size, cell in cells.items() if cell.published}
        colour, shape = _colour(place), MARKERS[place % len(MARKERS)]
        means = [cell.mean for cell in run.values()]
        line = _LINES[place // len(_COLOURS) % len(_LINES)]
        axes.plot(list(run), means, line, color=colour, marker=shape, label=table.label(row))
        if len(table.rows) <= len(_COLOURS):  # else bands would cover one another
            low, high = _band(list(run.values()))
            axes.fill_between(list(run), low, high, color=colour, alpha=0.15, linewidth=0)
        if known:
            hollow = {"markerfacecolor": "none", "markeredgewidth": 0.7, "linestyle": "none"}
            theirs = (list(known), list(known.values()))
            axes.plot(*theirs, color=colour, marker=shape, label=PUBLISHED, **hollow)


def _band(cells: Sequence[TableCell]) -> tuple[list[float], list[float]]:
    """A standard deviation to each side."""
    pairs = [(cell.mean or 0.0, cell.deviation or 0.0) for cell in cells]
    return [m - d for m, d in pairs], [m + d for m, d in pairs]


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def finish(figure: Any, panels: Any, used: int) -> None:
    """Hide what is not used, and put one legend above all panels."""
    for axes in list(panels.flat)[used:]:
        axes.set_visible(False)
    for place in range(max(0, used - panels.shape[1]), used):
        panels.flat[place].xaxis.set_tick_params(labelbottom=True)
    entries: dict[str, Any] = {}
    for axes in list(panels.flat)[:used]:
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True)) | entries
    published = entries.pop(PUBLISHED, None)
    entries |= {PUBLISHED: published} if published else {}
    _legend(figure, entries)


def _legend(figure: Any, entries: dict[str, Any]) -> None:
    """Above all panels, in as many columns as fit on the page, which grows by its lines."""
    for columns in range(min(4, len(entries)), 0, -1):
        legend = figure.legend(entries.values(), entries, loc="outside upper center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    more = ceil(len(entries) / columns) - 2
    figure.set_figheight(figure.get_figheight() + max(0, more) * LINE)


def new_figure(width: float, height: float) -> Any:
    """So many inches."""
    return _load("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def style() -> AbstractContextManager[None]:
    """What a figure must be drawn and saved under."""
    context: AbstractContextManager[None] = _load("matplotlib").rc_context(_STYLE)
    return context


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise HardnerError("a figure needs matplotlib: pip install hardner[plot]") from None


FIGURES: dict[str, Callable[[Sequence[Result]], Any]] = {
    "shots": plot_shots,
    "ratios": plot_ratios,
    "errors": plot_errors,
}


def save_figure(kind: str, results: Sequence[Result], path: str | Path) -> list[Path]:
    """Draw a figure of results."""
    return write_figure(lambda: FIGURES[kind](results), path)


def write_figure(draw: Callable[[], Any], path: str | Path) -> list[Path]:
    """Draw a figure; the path's ending says whether as SVG or PNG, without one it is both."""
    ending = Path(path).suffix.lower()
    if ending not in ("", ".svg", ".png"):
        raise FileError(path, "a figure is an .svg or a .png file, or both without an ending")
    wanted = [Path(path)] if ending else [Path(f"{path}.svg"), Path(f"{path}.png")]
    with style():
        figure = draw()
        for target in wanted:
            kept = {"Date": None} if target.suffix.lower() == ".svg" else {}
            with atomic_binary(target) as file:
                figure.savefig(file, format=target.suffix[1:].lower(), dpi=DPI, metadata=kept)
    return wanted
