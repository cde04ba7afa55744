"""Tables as Markdown, CSV, LaTeX and plain text."""

import csv
import io
from collections.abc import Callable, Sequence

from hardner.evaluate.grid import Grid, grids
from hardner.evaluate.table import ResultTable


def markdown(tables: Sequence[ResultTable]) -> str:
    """Pipe tables under bold titles."""
    return "\n".join(pipe_table(grid) for table in tables for grid in grids(table))


def pipe_table(grid: Grid) -> str:
    """One of them."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("*", "\\*") for cell in cells) + " |"

    rule = "|" + "---|" * len(grid.head)
    notes = "\n".join("- " + note.replace("*", "\\*") for note in grid.notes)
    rows = "\n".join([line(grid.head), rule, *map(line, grid.lines)])
    return f"**{grid.title}**\n\n{rows}\n" + (f"\n{notes}\n" if notes else "")


def text(tables: Sequence[ResultTable]) -> str:
    """Aligned columns for a terminal."""
    return "\n".join(_text(grid) for table in tables for grid in grids(table))


def _text(grid: Grid) -> str:
    widths = [max(map(len, column)) for column in zip(grid.head, *grid.lines, strict=True)]
    lines = []
    for cells in (grid.head, *grid.lines):
        first, *rest = zip(cells, widths, strict=True)
        shown = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        lines.append("  ".join(shown).rstrip())
    return "\n".join([grid.title, *lines, *grid.notes]) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "±": r"$\pm$",
    "*": r"$^{*}$",
    "<": "$<$",
}


def latex(tables: Sequence[ResultTable]) -> str:
    """Tables for the package booktabs, notes below them."""
    return "\n".join(_latex(grid) for table in tables for grid in grids(table))


def _latex(grid: Grid) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(_escaped(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escaped(grid.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
            r"\toprule",
            line(grid.head),
            r"\midrule",
            *map(line, grid.lines),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {_escaped(note)}" for note in grid.notes),
            r"\end{table}",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


COLUMNS = (
    "protocol",
    "metric",
    "size",
    "method",
    "encoder",
    "preset",
    "natural",
    "unlabelled",
    "corpus",
    "samples",
    "mean",
    "deviation",
    "published",
    "source",
    "difference",
    "baseline",
    "gain",
    "low",
    "high",
    "effect",
    "p",
    "p_holm",
)


def as_csv(tables: Sequence[ResultTable]) -> str:
    """A line a cell, with everything that is known of it; empty where it was not run."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for table in tables:
        base = table.label(table.baseline) if table.baseline else ""
        for (size, row, corpus), cell in table.cells.items():
            how = (row.method, row.encoder, row.preset, row.natural, row.unlabelled)
            versus, theirs = cell.versus, cell.published
            compared = (
                (versus.difference, versus.low, versus.high, versus.effect, versus.p, cell.p)
                if versus
                else ("",) * 6
            )
            writer.writerow(
                [
                    *(table.protocol, table.metric, size, *how, corpus),
                    *(len(cell.values), _plain(cell.mean)),
                    _plain(cell.deviation),
                    *((_plain(theirs.value), theirs.source) if theirs else ("", "")),
                    *(_plain(cell.difference), base if versus else "", *map(_plain, compared)),
                ]
            )
    return file.getvalue()


def _plain(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.6g}"


RENDERERS: dict[str, Callable[[Sequence[ResultTable]], str]] = {
    "text": text,
    "md": markdown,
    "csv": as_csv,
    "latex": latex,
}
