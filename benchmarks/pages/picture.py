"""The README's picture: F1 over the number of labelled sentences, from the lines of the tables.

Drawn by hand as SVG with its colours in a style sheet, so that it suits a light and a dark page.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import log

from few_shot import RESULTS, SHOTS, best_means, means

from hardner.evaluate.results import load_results

LINES = (
    ("hardner", "hardner", ("hardner", "transformer")),
    ("bilstm", "BiLSTM-CRF by our recipe, multi-task", ("MultiTask", "bilstm")),
)
"""Class of the style sheet, label, and the method and encoder of the results."""
WIDTH, HEIGHT = 780, 330
LEFT, RIGHT, TOP, BOTTOM = 48, 510, 58, 282
LOW, HIGH = 0.25, 0.72
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.title { font-size: 16px; font-weight: 600; }
.title, .label { fill: #1f2328; } .note { fill: #59636e; }
.grid { stroke: #d1d9e0; } .axis { stroke: #818b98; }
.line { fill: none; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round; }
.hardner .line { stroke: #0b7a75; stroke-width: 3.5; } .hardner circle { fill: #0b7a75; }
.hardner text { fill: #0b7a75; font-weight: 600; }
.published .line { stroke: #b35900; } .published circle { fill: #b35900; }
.published text { fill: #b35900; }
.bilstm .line { stroke: #818b98; stroke-dasharray: 5 5; } .bilstm circle { fill: #818b98; }
.bilstm text { fill: #59636e; }
@media (prefers-color-scheme: dark) {
.title, .label { fill: #f0f6fc; } .note { fill: #9198a1; }
.grid { stroke: #3d444d; } .axis { stroke: #656c76; }
.hardner .line { stroke: #2dd4bf; } .hardner circle, .hardner text { fill: #2dd4bf; }
.published .line { stroke: #f0a050; } .published circle, .published text { fill: #f0a050; }
.bilstm .line { stroke: #9198a1; } .bilstm circle, .bilstm text { fill: #9198a1; }
}"""


def svg() -> Iterator[str]:
    """The lines of the file."""
    results = load_results([RESULTS])
    rows = [(kind, label, means(results, row)) for kind, label, row in LINES]
    rows.insert(1, ("published", "best published at each size", best_means()))
    said = "; ".join(f"{label} {_listed(values)}" for _, label, values in rows)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' width="{WIDTH}" height="{HEIGHT}">'
    )
    yield f"<title>F1 at {_listed(SHOTS)} labelled sentences: {escape(said)}</title>"
    yield f"<style>{STYLE}\n</style>"
    yield _text(LEFT - 32, 22, "A new entity type, from a handful of sentences", "title")
    yield _text(LEFT - 32, 42, "strict F1 on test sets, mean of eight corpora", "note")
    for tenth in range(3, 8):
        y = _y(tenth / 10)
        yield f'<path class="grid" d="M{LEFT} {y}H{RIGHT + 12}"/>'
        yield _text(LEFT - 10, y + 4, f".{tenth}", "note", "end")
    for shots in SHOTS:
        yield f'<path class="axis" d="M{_x(shots)} {BOTTOM}v6"/>'
        yield _text(_x(shots), BOTTOM + 22, str(shots), "label", "middle")
    yield f'<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT + 12}"/>'
    yield _text((LEFT + RIGHT) / 2, BOTTOM + 42, "labelled sentences", "note", "middle")
    for kind, label, values in rows:
        yield from _line(kind, label, values)
    yield "</svg>"


def _line(kind: str, label: str, values: Sequence[float]) -> Iterator[str]:
    points = [(_x(shots), _y(value)) for shots, value in zip(SHOTS, values, strict=True)]
    path = "L".join(f"{x} {y}" for x, y in points)
    yield f'<g class="{kind}"><path class="line" d="M{path}"/>'
    for x, y in points:
        yield f'<circle cx="{x}" cy="{y}" r="{4.5 if kind == "hardner" else 3.5}"/>'
    if kind == "hardner":
        for (x, y), value in zip(points, values, strict=True):
            yield _text(x, y - 12, f"{value:.3f}".lstrip("0"), "", "middle")
    # Names stand at the right end, each a line apart, in the order of the lines.
    below = {"hardner": -4, "published": 10, "bilstm": 26}[kind]
    yield _text(RIGHT + 22, points[-1][1] + below, label)
    yield "</g>"


def _x(shots: int) -> float:
    share = log(shots / SHOTS[0]) / log(SHOTS[-1] / SHOTS[0])
    return round(LEFT + 16 + share * (RIGHT - LEFT - 16), 1)


def _y(value: float) -> float:
    return round(BOTTOM - (value - LOW) / (HIGH - LOW) * (BOTTOM - TOP), 1)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in values)
