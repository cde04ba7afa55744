"""The report that users download: one HTML page with the curve and the figures, no script."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from hardner.serve.database import Database, utc_now
from hardner.serve.mention_types import list_types
from hardner.serve.models import current_model
from hardner.serve.runs import find_run, learning_curve

_PAGE = Path(__file__).with_name("report.html")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 320, 48, 36


def report_page(database: Database, name: str, counts: dict[str, int]) -> str:
    """The page, of what `count_labels` counted and the runs that went well."""
    points = learning_curve(database)
    current = current_model(database)
    run = find_run(database, current["run"]) if current and current["run"] else None
    return Template(_PAGE.read_text("utf-8")).substitute(
        name=escape(name),
        time=utc_now()[:16].replace("T", " "),
        labels=(
            f"{counts['documents']:,} documents, {counts['sentences']:,} sentences; "
            f"{counts['labelled']:,} with labels, {counts['none']:,} marked as holding none, "
            f"{counts['partial']:,} partly reviewed."
        ),
        types=_table(
            ("type", "labels"), [(kind["name"], kind["spans"]) for kind in list_types(database)]
        ),
        curve=_curve([point for point in points if point["f1"] is not None]),
        runs=_table(
            ("run", "sentences", "mentions", "expected F1", "90 % interval", "held-out F1"),
            [(p["run"], p["sentences"], p["mentions"], *_scores(p)) for p in points],
        ),
        held_out=_held_out(((run and run["result"]) or {}).get("held_out")),
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    top = "".join(f"<th scope=col>{escape(cell)}" for cell in head)
    body = "".join("<tr>" + "".join(map(_cell, row)) for row in rows)
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
    if not points:
        return "<p>No run has ended with an expected F1 yet.</p>"
    most = max(point["sentences"] for point in points)

    def y(value: float) -> float:
        return round(12 + (_HEIGHT - _BOTTOM - 12) * (1 - value), 1)

    drawn = [
        f'<path class=grid d="M{_LEFT} {y(v)}H{_WIDTH - 16}"/>'
        f'<text class=left x="{_LEFT - 8}" y="{y(v) + 4}">{v:g}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    ]
    line = []
    for point in points:
        f1, x = point["f1"], round(_LEFT + (_WIDTH - _LEFT - 16) * point["sentences"] / most, 1)
        low, high = (f1 if point[name] is None else point[name] for name in ("low", "high"))
        line.append(f"{x},{y(f1)}")
        drawn.append(
            f'<path class=interval d="M{x} {y(low)}V{y(high)}"/>'
            f'<circle class=dot cx="{x}" cy="{y(f1)}" r="4"/>'
            f'<text class=at x="{x}" y="{_HEIGHT - 16}">{point["sentences"]}</text>'
        )
    label = "Expected F1 against labelled sentences"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f'{"".join(drawn)}<polyline class=mean points="{" ".join(line)}"/></svg>'
        f"<p>{label}, 90 % interval.</p>"
    )


def _held_out(part: dict[str, Any] | None) -> str:
    if part is None:
        return ""
    rows = [
        (m["kind"], " ".join(m["right"]) or "-", " ".join(m["found"]) or "-", m["count"])
        for m in part["mistakes"][:50]
    ]
    return (
        f"<h2>Held-out part</h2><p>{part['sentences']:,} sentences: precision "
        f"{part['precision']:.2f}, recall {part['recall']:.2f}, F1 {part['f1']:.2f}.</p>"
        + _table(("mistake", "right", "found", "times"), rows)
    )
