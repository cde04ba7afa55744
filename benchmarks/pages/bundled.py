"""Figures of docs/model-card.md, from what benchmarks/bundled.py wrote."""

from collections.abc import Iterator

import lines

LINES = "results/out_of_the_box.jsonl"


def page() -> Iterator[str]:
    every = {(line["corpus"], line["guideline"]): line for line in lines.of(LINES)}
    heads = ("precision", "recall", "strict F1", "by its own guidelines", "level", "commit")
    yield "| corpus | head | " + " | ".join(heads) + " |"
    yield "|---" * (2 + len(heads)) + "|"
    for (corpus, guideline), line in every.items():
        if guideline:
            continue
        precision = line["tp"] / (line["tp"] + line["fp"])
        recall = line["tp"] / (line["tp"] + line["fn"])
        own = every.get((corpus, corpus))
        cells = [f"{precision:.3f}", f"{recall:.3f}", f"{line['f1']:.3f}"]
        cells += [f"{own['f1']:.3f}" if own else "-", f"{line['level']:.2f}", line["commit"][:12]]
        yield f"| {corpus} | {line['label']} | " + " | ".join(cells) + " |"
    reached, near = [], []
    for (corpus, guideline), line in every.items():
        short = line["level"] - round(line["f1"], 3)
        if guideline and short <= 0:
            reached.append(corpus)
        elif guideline and short < 0.01:
            near.append(corpus)
    yield f"\nBy their own guidelines {_listed(reached)} reach the level; {_listed(near)} miss it"
    yield "by less than .01."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
