"""Figures of docs/running-text.md, from what benchmarks/running.py wrote."""

import runpy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import lines

from hardner.adapt.correction import corrections
from hardner.adapt.forecast import Interval
from hardner.evaluate.protocols import protocol
from hardner.evaluate.score import Score

RARE = 0.1
"""Types with mentions in a smaller share of sentences."""
SIZE, LEFT, TOP = 300, 48, 16
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
text { fill: #59636e; } .axis { stroke: #818b98; fill: none; } .same { stroke-dasharray: 5 5; }
.all { stroke: #b35900; fill: #b35900; } .bearing { stroke: #0b7a75; fill: #0b7a75; }
.span { stroke-width: 1; opacity: .35; } .key { stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1; } .axis { stroke: #656c76; }
.all { stroke: #f0a050; fill: #f0a050; } .bearing { stroke: #2dd4bf; fill: #2dd4bf; }
}"""
FORECASTS = {"bearing": "given", "all": "text"}
DRAWN = 80
"""Points of a kind, at most."""
CORRECTION = runpy.run_path(str(lines.ROOT / "benchmarks" / "correction.py"))
PARTS = (("bearing", "on sentences with a mention"), ("all", "on text as it runs"))


def _lines() -> list[dict[str, Any]]:
    return lines.of("benchmarks/running.jsonl")


def _f1(line: dict[str, Any], part: str) -> float:
    return Score(*line[part]).f1


def page() -> Iterator[str]:
    every = _lines()
    yield from _ways(every)
    yield ""
    yield from _forecasts(every)


def _ways(every: Sequence[dict[str, Any]]) -> Iterator[str]:
    def place(line: dict[str, Any]) -> tuple[Any, ...]:
        return line["preset"], line["shots"], line["type"], line["sample"]

    before = {place(line): line for line in every if line["way"] == "as is"}
    ways: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in every:
        if line["way"] != "as is" and place(line) in before:
            ways[line["preset"], line["shots"], line["way"]].append(line)
    yield (
        "| recipe, sentences | learnt as well | types, fits | text as it runs | rare types "
        "| sentences with a mention |"
    )
    yield "|---|---|---|---|---|---|"
    for (preset, shots, way), own in ways.items():
        cells = []
        for part, most in (("all", 1.1), ("all", RARE), ("bearing", 1.1)):
            kept = [line for line in own if line["prevalence"] < most]
            cells.append(_change([(before[place(line)], line) for line in kept], part))
        types = len({line["type"] for line in own})
        yield f"| {preset}, {shots} | {way} | {types}, {len(own)} | {' | '.join(cells)} |"


def _change(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], part: str) -> str:
    """The means over types, without and with."""
    types: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for old, new in pairs:
        types[old["type"]].append((_f1(old, part), _f1(new, part)))
    if not types:
        return "-"
    means = [[fmean(column) for column in zip(*own, strict=True)] for own in types.values()]
    old, new = (fmean(column) for column in zip(*means, strict=True))
    return f"{old:.3f}, {new:.3f}"


def _forecasts(every: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How well intervals hold: as cross-validation has them, and corrected by other types."""
    said = _corrected(every)
    if not said["given"]:
        return
    yield (
        "| sentences | fits | on sentences with a mention: uncorrected | corrected | on text as it "
        "runs: uncorrected | corrected |"
    )
    yield "|---|---|---|---|---|---|"
    for shots in sorted({case.shots for case, _, _ in said["given"]}):
        cells = []
        for part, _ in PARTS:
            own = [row for row in said[FORECASTS[part]] if row[0].shots == shots]
            cells += [_held(own, 1), _held(own, 2)]
        count = sum(case.shots == shots for case, _, _ in said["given"])
        yield f"| {shots} | {count} | {' | '.join(cells)} |"


def _corrected(every: Sequence[dict[str, Any]]) -> dict[str, list[tuple[Any, Any, Any]]]:
    """By forecast: the cases, what cross-validation says of each, and what a table of the other
    types makes of it."""
    found: dict[str, list[tuple[Any, Any, Any]]] = {}
    devel = set(protocol("running_devel").targets)
    for forecast, signs in CORRECTION["SIGNS"].items():
        cases = CORRECTION["cases_of"](every, forecast)
        plain = {id(case.signs): Interval(*line["expected"]) for case, line in cases}
        own = [case for case, _ in cases if case.type in devel]
        pairs = list(CORRECTION["left_out"](own, signs)) if len({c.type for c in own}) > 1 else []
        if others := [case for case, _ in cases if case.type not in devel]:
            table = corrections()[forecast]
            pairs += [(case, table.expected(case.signs)) for case in others]
        found[forecast] = [(case, plain[id(case.signs)], f1) for case, f1 in pairs]
    return found


def _held(rows: Sequence[tuple[Any, ...]], which: int) -> str:
    held = fmean(row[which].low <= row[0].found <= row[which].high for row in rows)
    off = fmean(row[which].value - row[0].found for row in rows)
    return f"{held:.0%} hold, expected - found {off:+.2f}"


def svg() -> Iterator[str]:
    """What was expected against what was found: a point each, with its interval."""
    said = _corrected(_lines())
    width, height = LEFT + SIZE + 16, TOP + SIZE + 72
    count = len(said["given"])
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' width="{width}" height="{height}">'
    )
    yield f"<title>Expected and found F1 of {count} fits</title>"
    yield f"<style>{STYLE}\n</style>"
    yield f'<rect class="axis" x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}"/>'
    yield f'<path class="axis same" d="M{LEFT} {TOP + SIZE}L{LEFT + SIZE} {TOP}"/>'
    for tenth in range(0, 11, 2):
        at = tenth / 10
        yield f'<text x="{LEFT - 8}" y="{_y(at) + 4}" text-anchor="end">{at:.1f}</text>'
        yield f'<text x="{_x(at)}" y="{TOP + SIZE + 18}" text-anchor="middle">{at:.1f}</text>'
    for part, _ in PARTS:
        yield f'<g class="{part}">'
        rows = said[FORECASTS[part]]
        for case, _, f1 in rows[:: max(1, len(rows) // DRAWN)]:
            y = _y(case.found)
            yield f'<path class="span" d="M{_x(f1.low)} {y}H{_x(f1.high)}"/>'
            yield f'<circle cx="{_x(f1.value)}" cy="{y}" r="3"/>'
        yield "</g>"
    bottom = TOP + SIZE + 38
    middle = f'x="{LEFT + SIZE / 2}" y="{bottom}" text-anchor="middle"'
    yield f"<text {middle}>expected F1; found F1 upwards</text>"
    for number, (part, where) in enumerate(PARTS):
        x = LEFT + number * 180 - 20
        yield f'<circle class="{part}" cx="{x}" cy="{bottom + 16}" r="4"/>'
        yield f'<text class="key" x="{x + 10}" y="{bottom + 20}">{where}</text>'
    yield "</svg>"


def _x(value: float) -> float:
    return round(LEFT + value * SIZE, 1)


def _y(value: float) -> float:
    return round(TOP + (1 - value) * SIZE, 1)
