"""Figures of docs/project.md, from what benchmarks/several_types.py wrote."""

from collections.abc import Iterator
from statistics import fmean, stdev

import lines


def page() -> Iterator[str]:
    every = lines.of("benchmarks/several_types.jsonl")
    yield "| types of BioNLP13CG | samples | F1, one fit | F1, a fit each | difference | CPU s |"
    yield "|---|---|---|---|---|---|"
    groups = {", ".join(line["labels"]): [] for line in every}
    for line in every:
        groups[", ".join(line["labels"])].append(line)
    for name, own in [*groups.items(), ("all of them", every)]:
        one, each = ([fmean(line[side].values()) for line in own] for side in ("together", "alone"))
        apart = [a - b for a, b in zip(one, each, strict=True)]
        error = f" ± {stdev(apart) / len(apart) ** 0.5:.3f}" if len(apart) > 1 else ""
        seconds = " against ".join(
            f"{fmean(line['cpu_seconds'][side] for line in own):.0f}" for side in (0, 1)
        )
        yield (
            f"| {name} | {len(own)} | {fmean(one):.3f} | {fmean(each):.3f} | "
            f"{fmean(apart):+.3f}{error} | {seconds} |"
        )
    commits = sorted({line["commit"][:12] for line in every})
    shots, devel = every[0]["shots"], every[0]["devel"]
    yield (
        f"\n{shots} sentences to learn from, {devel} devel sentences to score on; ± is a standard "
        f"error over samples; commits {', '.join(commits)}."
    )
