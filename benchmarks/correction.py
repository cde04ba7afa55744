"""What forecasts are worth: fit the table that corrects them, and print how well it holds.

    python benchmarks/correction.py                  # print, of benchmarks/running.jsonl
    python benchmarks/correction.py --write          # and write src/hardner/assets/forecast.json

Types of the protocol `running_devel` are fitted to; each of them is forecast by a table of the
others, those of `running` by the table itself. Printed for each forecast and number of sentences:
the cases, the share of 90 % intervals that hold, and the mean of what was expected less what was
found. Lines are the ways "as is" of `benchmarks/running.py`, without --single.

The weights w of the signs x have a normal prior: the forecast is taken as it is, and nothing else
counts. Cases of a type share an unknown t ~ N(0, c). So

    y ~ N(X m, X S X' + c T + diag(a + b v)),    y = logit F1 found, T = 1 for cases of one type,

and a, b and c are those under which the measurements are likeliest.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardner.adapt.correction import Correction, logit
from hardner.adapt.forecast import Interval
from hardner.evaluate.protocols import protocol
from hardner.evaluate.score import Score

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "hardner" / "assets" / "forecast.json"
SIGNS = {
    "given": ("curve", "one", "sentences"),
    "text": ("text", "one", "sure", "rate", "sentences"),
}
"""Of each forecast: the one that is corrected, and what it is corrected by."""
SCORED = {"given": "bearing", "text": "all"}
"""The sentences of a line that each is about."""
_SLOPE, _CONSTANT = 0.15, 1.0
"""Deviations of the prior of the weights."""
_VARIANCES = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6)
_FACTORS = (0.0, 0.25, 0.5, 1.0, 1.5)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A forecast, and what was found."""

    type: str
    shots: int
    signs: dict[str, float]
    found: float


def cases_of(lines: Sequence[dict[str, Any]], forecast: str) -> list[tuple[Case, dict[str, Any]]]:
    """Those of the lines that have the signs, and these lines."""
    return [
        (Case(line["type"], line["shots"], line["signs"], Score(*line[SCORED[forecast]]).f1), line)
        for line in lines
        if set(SIGNS[forecast]) <= set(line.get("signs", ()))
    ]


def fit(cases: Sequence[Case], signs: Sequence[str]) -> Correction:
    """The table of a forecast, the first of the signs."""
    x = np.array([[case.signs[name] for name in signs] for case in cases])  # [N, X]
    m = np.array([1.0] + [0.0] * (len(signs) - 1))
    y = np.array([logit(case.found) for case in cases]) - x @ m
    v = np.array([case.signs["variance"] for case in cases])
    names = [case.type for case in cases]
    same = np.array([[name == one for name in names] for one in sorted(set(names))], np.float64)
    prior = np.diag([_CONSTANT**-2 if name == "one" else _SLOPE**-2 for name in signs])
    xy = np.c_[x, y]

    def products(choice: tuple[float, float, float]) -> tuple[Floats, float]:
        """[X, y]' C^-1 [X, y] and log |C|, of C = c T + diag(a + b v), type by type."""
        own, resampled, between = choice
        each = own + resampled * v
        sums = same @ (xy / each[:, None])  # [types, X + 1]
        shares = between / (1 + between * (same @ (1 / each)))
        size = np.log(each).sum() + np.log1p(between * (same @ (1 / each))).sum()
        return xy.T @ (xy / each[:, None]) - sums.T @ (sums * shares[:, None]), float(size)

    def evidence(choice: tuple[float, float, float]) -> float:
        known, size = products(choice)
        precision, pull = prior + known[:-1, :-1], known[:-1, -1]
        _, more = np.linalg.slogdet(precision)
        return float(pull @ np.linalg.solve(precision, pull) - known[-1, -1] - size - more)

    own, resampled, between = max(product(_VARIANCES, _FACTORS, _VARIANCES), key=evidence)
    known, _ = products((own, resampled, between))
    spread = np.linalg.inv(prior + known[:-1, :-1])
    mean = m + spread @ known[:-1, -1]
    return Correction(
        tuple(signs),
        tuple(round(value, 5) for value in mean.tolist()),
        tuple(tuple(round(value, 6) for value in row) for row in spread.tolist()),
        (round(own + between, 5), resampled),
        len(cases),
        len(same),
    )


def left_out(cases: Sequence[Case], signs: Sequence[str]) -> Iterator[tuple[Case, Interval]]:
    """What is expected of each case by a table of the other types."""
    for name in sorted({case.type for case in cases}):
        table = fit([case for case in cases if case.type != name], signs)
        yield from ((case, table.expected(case.signs)) for case in cases if case.type == name)


def summary(pairs: Sequence[tuple[Case, Interval]]) -> str:
    held = fmean(f1.low <= case.found <= f1.high for case, f1 in pairs)
    off = fmean(f1.value - case.found for case, f1 in pairs)
    wide = fmean(f1.high - f1.low for _, f1 in pairs)
    apart = fmean(abs(f1.value - case.found) for case, f1 in pairs)
    return (
        f"{len(pairs)} cases: the interval holds {held:.0%}, width {wide:.2f}; expected - found "
        f"{off:+.3f}, apart {apart:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, default=Path(__file__).with_name("running.jsonl"))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    lines = [json.loads(line) for line in args.lines.read_text("utf-8").splitlines()]
    devel = set(protocol("running_devel").targets)
    tables = {}
    for forecast, signs in SIGNS.items():
        every = [case for case, _ in cases_of(lines, forecast)]
        cases = [case for case in every if case.type in devel]
        tables[forecast] = table = fit(cases, signs)
        weights = zip(signs, table.mean, strict=True)
        print(f"{forecast}:", ", ".join(f"{name} {value:+.2f}" for name, value in weights))
        print("  variance", table.spread[0], "and", table.spread[1], "of the resampled")
        other = [(case, table.expected(case.signs)) for case in every if case.type not in devel]
        for what, pairs in (("types left out", list(left_out(cases, signs))), ("others", other)):
            for shots in sorted({case.shots for case, _ in pairs}):
                own = [pair for pair in pairs if pair[0].shots == shots]
                print(f"  {what}, {shots} sentences, {summary(own)}")
    if args.write:
        written = {name: asdict(table) for name, table in tables.items()}
        TABLE.write_text(json.dumps(written, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
