"""The report that users download: one HTML page with the curve and the figures, no script."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from hardner.serve.database import Database, utc_now
from hardner.serve.mention_types import list_types
from hardner.serve.models import current_model
from hardner.serve.runs import find_run, learning_curve

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 320, 48, 36
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 } th, td { text-align: left; padding: .25rem 1rem
  .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top } td.n { text-align: right }
svg { max-width: 100%; height: auto } text { font: 12px system-ui, sans-serif; fill: #444 }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #1a1a1a } text { fill: #bbb }
  th, td { border-color: #444 } }
"""


def report_page(database: Database, name: str, counts: dict[str, int]) -> str:
    """The page."""
    points = learning_curve(database)
    current = current_model(database)
    run = find_run(database, current["run"]) if current and current["run"] else None
    result = run["result"] if run else None
    parts = [
        f"<h1>{escape(name)}</h1><p>{escape(utc_now()[:16].replace('T', ' '))} UTC</p>",
        _labels(list_types(database), counts),
        _curve(points),
        _table(
            ("run", "sentences", "mentions", "expected F1", "90 % interval", "held-out F1"),
            [(p["run"], p["sentences"], p["mentions"], *_scores(p)) for p in points],
        ),
        _held_out(result["held_out"] if result else None),
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width">'
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
        "style-src 'unsafe-inline'\">"
        f"<title>{escape(name)}</title><style>{_STYLE}</style>{''.join(parts)}</html>"
    )


def _labels(types: Sequence[dict[str, Any]], counts: dict[str, int]) -> str:
    line = (
        f"{counts['documents']:,} documents, {counts['sentences']:,} sentences; "
        f"{counts['labelled']:,} with labels, {counts['none']:,} marked as holding none."
    )
    rows = [(kind["name"], kind["spans"]) for kind in types]
    return f"<h2>Labels</h2><p>{escape(line)}</p>{_table(('type', 'labels'), rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    top = "".join(f"<th scope=col>{escape(cell)}" for cell in head)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) for row in rows)
    return f"<table><thead><tr>{top}<tbody>{body}</table>"


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"<td class=n>{value:,}"
    return f"<td>{escape(str(value))}"


def _scores(point: dict[str, Any]) -> Iterator[str]:
    f1, low, high, held_out = (point[name] for name in ("f1", "low", "high", "held_out"))
    yield "-" if f1 is None else f"{f1:.2f}"
    yield "-" if low is None else f"{low:.2f} to {high:.2f}"
    yield "-" if held_out is None else f"{held_out:.2f}"


def _curve(points: Sequence[dict[str, Any]]) -> str:
    """Expected F1 against sentences, with its interval."""
    known = [point for point in points if point["f1"] is not None]
    if not known:
        return "<h2>Learning curve</h2><p>No run has ended with an expected F1 yet.</p>"
    most = max(point["sentences"] for point in known)

    def x(point: dict[str, Any]) -> float:
        return float(_LEFT + (_WIDTH - _LEFT - 16) * point["sentences"] / most)

    def y(value: float) -> float:
        return 12 + (_HEIGHT - _BOTTOM - 12) * (1 - value)

    drawn = [
        f'<line x1="{_LEFT}" x2="{_WIDTH - 16}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#8886"/>'
        f'<text x="{_LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    ]
    line = " ".join(f"{x(point):.1f},{y(point['f1']):.1f}" for point in known)
    drawn.append(f'<polyline points="{line}" fill="none" stroke="#0072B2" stroke-width="2"/>')
    for point in known:
        place = x(point)
        low, high = (y(point["f1"] if point[n] is None else point[n]) for n in ("low", "high"))
        drawn.append(
            f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{low:.1f}" y2="{high:.1f}" '
            'stroke="#0072B2" stroke-opacity=".5" stroke-width="5"/>'
            f'<circle cx="{place:.1f}" cy="{y(point["f1"]):.1f}" r="4" fill="#0072B2"/>'
            f'<text x="{place:.1f}" y="{_HEIGHT - 16}" text-anchor="middle">'
            f"{point['sentences']}</text>"
        )
    label = "expected F1 against labelled sentences"
    return (
        f'<h2>Learning curve</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{label}">{"".join(drawn)}</svg><p>{label.capitalize()}, 90 % interval.</p>'
    )


def _held_out(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    line = (
        f"{part['sentences']:,} sentences: precision {part['precision']:.2f}, "
        f"recall {part['recall']:.2f}, F1 {part['f1']:.2f}."
    )
    rows = [
        (m["kind"], " ".join(m["right"]) or "-", " ".join(m["found"]) or "-", m["count"])
        for m in part["mistakes"][:50]
    ]
    table = _table(("mistake", "right", "found", "times"), rows)
    return f"<h2>Held-out part</h2><p>{escape(line)}</p>{table}"
