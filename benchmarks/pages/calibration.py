"""Figures of docs/calibration.md, from what benchmarks/calibration.py wrote."""

from collections.abc import Iterator

import lines


def page() -> Iterator[str]:
    yield "| head, test corpus | error at T = 1 | error, calibrated | commit |"
    yield "|---|---|---|---|"
    found = {line["case"].partition(",")[0]: line for line in lines.latest("calibration").values()}
    for line in found.values():  # of each head in its corpus, the last
        errors = f"{line['peer']:.3f} | {line['ours']:.3f}"
        yield f"| {line['case']} | {errors} | {line['commit'][:12]} |"
