"""Figures of docs/score.md, from what benchmarks/thresholds.py wrote."""

from collections.abc import Iterator

import lines


def page() -> Iterator[str]:
    yield "| 20 sentences, new types | promised | found, in the mean | commit |"
    yield "|---|---|---|---|"
    for line in lines.latest("thresholds").values():
        cells = (line["case"], f"{line['peer']:.2f}", f"{line['ours']:.3f}", line["commit"][:12])
        yield "| " + " | ".join(cells) + " |"
