"""Figures of results for print: F1 against shots or shares of the data, and kinds of errors."""

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from hardner.errors import FileError, HardnerError, import_extra
from hardner.evaluate.protocols import MEAN
from hardner.evaluate.render import size_name
from hardner.evaluate.results import Result
from hardner.evaluate.table import IN_DOMAIN, ResultTable, build_tables, group_results
from hardner.files import atomic_binary
from hardner.meta.hardness import HardnessCurve

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Safe for the colour-blind (Okabe and Ito)."""
MARKERS = "osD^vP*X"
PAGE_WIDTH = 7.0
"""Inches between the margins of a page."""
PANELS_ACROSS = 3
_LINE_STYLES = ("-", "--", ":", "-.")
"""The first for as many rows as there are colours, the next for as many more."""
_DPI = 300
_LEGEND_LINE = 0.17
"""Inches."""
_PUBLISHED = "published"
RC_PARAMS = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a row's name is a dollar
    "svg.hashsalt": "hardner",  # so that a figure is the same file each time
}


def plot_shots(results: Sequence[Result]) -> Any:
    """F1 against the number of shots: a panel a corpus, and the mean."""
    table = _single_table(results, shares=False)
    columns = (*table.corpora, MEAN) if len(table.corpora) > 1 else table.corpora
    figure = _corpus_panels(table, columns, _draw_curves)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.set_xticks(table.sizes, [str(size) for size in table.sizes])
        axes.minorticks_off()
    figure.supxlabel("labelled sentences", fontsize=8)
    return figure


def plot_ratios(results: Sequence[Result]) -> Any:
    """F1 against the share of the data, and where each method reaches In-Domain on all of it."""
    table = _single_table(results, shares=True)

    def draw(axes: Any, table: ResultTable, corpus: str) -> None:
        _draw_curves(axes, table, corpus)
        thin = {"linewidth": 0.7, "zorder": 0}
        for place, row in enumerate(table.rows):
            if row.method == IN_DOMAIN:
                full = table.cells[1.0, row, corpus].mean if 1.0 in table.sizes else None
                if full is not None:
                    axes.axhline(full, color="0.6", linestyle="--", **thin)
            else:
                share = table.in_domain_share(row, corpus)
                if share is not None and share <= 1:
                    axes.axvline(share, color=PALETTE[place % len(PALETTE)], linestyle=":", **thin)

    figure = _corpus_panels(table, table.corpora, draw)
    for axes in figure.axes:
        axes.set_xlim(0, 1.02)
        axes.set_xticks((0, 0.5, 1), ("0%", "50%", "100%"))
    figure.supxlabel("share of the training data", fontsize=8)
    return figure


def plot_hardness(curves: Sequence[HardnessCurve], tasks: int) -> Any:
    """The mean weight of each domain's tasks over a run, of so many tasks an iteration."""
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    axes.axhline(1 / tasks, color="0.6", linewidth=0.8, linestyle="--", label="all alike")
    for curve in curves:
        axes.plot(curve.iterations, curve.weights, label=curve.domain)
    axes.set(xlabel="iteration", ylabel="mean weight of a task", ylim=(0, None))
    axes.legend(ncols=2)
    return figure


_ERROR_COUNTS = {
    "boundary": ("fp_boundary", "fn_boundary"),
    "type": ("fp_type", "fn_type"),
    "missed": ("missed",),
    "spurious": ("spurious",),
}


def plot_errors(results: Sequence[Result]) -> Any:
    """The errors of each method by kind, for each gold mention; a panel a size."""
    tables = build_tables(results)
    if len(tables) > 1:
        raise HardnerError(f"results of several protocols: {', '.join(t.protocol for t in tables)}")
    (table,), groups = tables, group_results(results)
    rows = len(table.rows)
    height = 0.55 + 0.24 * rows
    figure, panels = new_panels(len(table.sizes), height, sharex=True)
    figure.set_size_inches(PAGE_WIDTH, 0.7 + panels.shape[0] * height)
    labels = [table.label(row) for row in table.rows]
    for axes, size in zip(panels.flat, table.sizes, strict=False):
        left = [0.0] * rows
        for (kind, parts), colour in zip(_ERROR_COUNTS.items(), PALETTE, strict=False):
            ratios = [
                _error_ratio([groups.get((size, row, c), []) for c in table.corpora], parts)
                for row in table.rows
            ]
            axes.barh(range(rows), ratios, left=left, color=colour, label=kind, height=0.7)
            left = [a + b for a, b in zip(left, ratios, strict=True)]
        axes.set_yticks(range(rows), labels)
        axes.set_title(size_name(size))
    panels.flat[0].invert_yaxis()
    add_legend(figure, panels, len(table.sizes))
    figure.supxlabel("wrong mentions for each right one in the text", fontsize=8)
    return figure


def _error_ratio(corpora: Sequence[Sequence[Result]], counts: Sequence[str]) -> float:
    """Errors of a kind for each gold mention: the mean over corpora of the mean over samples."""
    each = [
        [sum(r.kinds[name] for name in counts) / (r.tp + r.fn) for r in group if r.tp + r.fn]
        for group in corpora
    ]
    return fmean(map(fmean, filter(None, each))) if any(each) else 0.0


def _single_table(results: Sequence[Result], shares: bool) -> ResultTable:
    tables = build_tables(r for r in results if (r.share is not None) == shares)
    if len(tables) != 1:
        wanted = "shares of the data" if shares else "numbers of shots"
        said = ", ".join(t.protocol for t in tables) or "none"
        raise HardnerError(f"a figure needs one protocol with {wanted}; the files hold {said}")
    return tables[0]


def _corpus_panels(
    table: ResultTable, corpora: Sequence[str], draw: Callable[[Any, ResultTable, str], None]
) -> Any:
    """A panel for each corpus that something was run on."""
    names = [name for name in corpora if name in table.run]
    figure, panels = new_panels(len(names), 1.7, sharex=True)
    for axes, corpus in zip(panels.flat, names, strict=False):
        draw(axes, table, corpus)
        axes.set_title(corpus)
    panels.flat[0].set_ylim(bottom=0)
    add_legend(figure, panels, len(names))
    figure.supylabel("F1", fontsize=8)
    return figure


def _draw_curves(axes: Any, table: ResultTable, corpus: str) -> None:
    """A line a row, a band of one standard deviation, and published values as empty markers."""
    for place, row in enumerate(table.rows):
        cells = {size: table.cells[size, row, corpus] for size in table.sizes}
        means = {size: cell.mean for size, cell in cells.items() if cell.mean is not None}
        spread = {size: cells[size].deviation or 0.0 for size in means}
        theirs = {size: cell.published.value for size, cell in cells.items() if cell.published}
        colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
        dashes = _LINE_STYLES[place // len(PALETTE) % len(_LINE_STYLES)]
        look = {"color": colour, "marker": marker}
        axes.plot(list(means), list(means.values()), dashes, **look, label=table.label(row))
        if len(table.rows) <= len(PALETTE):  # with more rows, bands would cover one another
            low, high = ([means[s] + way * spread[s] for s in means] for way in (-1, 1))
            axes.fill_between(list(means), low, high, color=colour, alpha=0.15, linewidth=0)
        if theirs:
            hollow = {"markerfacecolor": "none", "markeredgewidth": 0.7, "linestyle": "none"}
            axes.plot(list(theirs), list(theirs.values()), **look, label=_PUBLISHED, **hollow)


def new_figure(width: float, height: float) -> Any:
    """An empty figure of a size in inches."""
    matplotlib = import_extra("matplotlib.figure", "plot")
    return matplotlib.Figure(figsize=(width, height), layout="constrained")


def new_panels(
    count: int, height: float, across: int = PANELS_ACROSS, sharex: bool = False
) -> tuple[Any, Any]:
    """A figure of so many panels, each so many inches high, and their axes."""
    across = min(count, across)
    down = ceil(count / across)
    figure = new_figure(PAGE_WIDTH if across > 1 else PAGE_WIDTH / 2 + 0.5, 0.8 + height * down)
    return figure, figure.subplots(down, across, sharex=sharex, sharey=True, squeeze=False)


def add_legend(figure: Any, panels: Any, used: int) -> None:
    """Hide the panels that are not used, and put one legend above all others."""
    for axes in list(panels.flat)[used:]:
        axes.set_visible(False)
    # The panels above a hidden one are the lowest of their columns.
    for place in range(max(0, used - panels.shape[1]), used):
        panels.flat[place].xaxis.set_tick_params(labelbottom=True)
    entries: dict[str, Any] = {}
    for axes in list(panels.flat)[:used]:
        handles, labels = axes.get_legend_handles_labels()
        entries = dict(zip(labels, handles, strict=True)) | entries
    if theirs := entries.pop(_PUBLISHED, None):
        entries[_PUBLISHED] = theirs  # last
    # As many columns as fit on the page, which grows by the lines of the legend.
    for columns in range(min(4, len(entries)), 0, -1):
        legend = figure.legend(entries.values(), entries, loc="outside upper center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    more = ceil(len(entries) / columns) - 2
    figure.set_figheight(figure.get_figheight() + max(0, more) * _LEGEND_LINE)


FIGURES = {"shots": plot_shots, "ratios": plot_ratios, "errors": plot_errors}


def write_figure(draw: Callable[[], Any], path: str | Path) -> list[Path]:
    """Draw a figure and write it as SVG or PNG, by the path's ending; without one, as both."""
    ending = Path(path).suffix.lower()
    if ending not in ("", ".svg", ".png"):
        raise FileError(path, "a figure is an .svg or a .png file, or both without an ending")
    wanted = [Path(path)] if ending else [Path(f"{path}.svg"), Path(f"{path}.png")]
    with import_extra("matplotlib", "plot").rc_context(RC_PARAMS):
        figure = draw()
        for target in wanted:
            kind = target.suffix[1:].lower()
            # No date, so that the same results make the same file.
            metadata = {"Date": None} if kind == "svg" else {}
            with atomic_binary(target) as file:
                figure.savefig(file, format=kind, dpi=_DPI, metadata=metadata)
    return wanted
