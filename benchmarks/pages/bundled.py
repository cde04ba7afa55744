"""Figures of docs/model-card.md, from what benchmarks/bundled.py wrote."""

from collections.abc import Iterator

import lines


def page() -> Iterator[str]:
    yield "| corpus | head | precision | recall | strict F1 | level | commit |"
    yield "|---|---|---|---|---|---|---|"
    for line in lines.of("results/out_of_the_box.jsonl"):
        precision = line["tp"] / (line["tp"] + line["fp"])
        recall = line["tp"] / (line["tp"] + line["fn"])
        figures = f"{precision:.3f} | {recall:.3f} | {line['f1']:.3f} | {line['level']:.2f}"
        yield f"| {line['corpus']} | {line['label']} | {figures} | {line['commit'][:12]} |"
