"""Figures of docs/suggest.md, from what benchmarks/suggest.py wrote."""

from collections.abc import Iterator

import lines

MEAN, LAST, WORDS = "mean F1 of the rounds", "F1 after the last", "words to read"


def page() -> Iterator[str]:
    yield "| corpus | how | rounds' mean: suggested, random | after the last | words | commit |"
    yield "|---|---|---|---|---|---|"
    found = lines.latest("suggest")
    for (case, device, peer), line in found.items():
        name, _, what = case.rpartition(", ")
        if what != MEAN:
            continue
        pairs = [found[f"{name}, {part}", device, peer] for part in (MEAN, LAST, WORDS)]
        mean, last = (f"{pair['ours']:.3f}, {pair['peer']:.3f}" for pair in pairs[:2])
        words = f"{pairs[2]['ours']:,.0f}, {pairs[2]['peer']:,.0f}"
        corpus, _, how = name.partition(", ")
        cells = (corpus, f"{how}, {device}", mean, last, words, line["commit"][:12])
        yield "| " + " | ".join(cells) + " |"
