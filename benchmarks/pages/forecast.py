"""A passage of docs/limitations.md, from what benchmarks/forecast.py wrote."""

from collections.abc import Iterator
from statistics import fmean

import lines


def page() -> Iterator[str]:
    every = lines.of("results/forecast.jsonl")
    like = sum(line["low"] <= line["bearing"] <= line["high"] for line in every)
    text = sum(line["low"] <= line["devel"] <= line["high"] for line in every)
    means = (fmean(line[key] for line in every) for key in ("expected", "bearing", "devel"))
    expected, bearing, devel = (f"{value:.2f}" for value in means)
    yield f"In {len(every)} trials with twenty sentences of domains that the model had not seen"
    yield f"(`benchmarks/forecast.py`), F1 {expected} was expected in the mean; it was {bearing} on"
    yield f"sentences with a mention, as the twenty were, and {devel} on running text. The interval"
    yield f"is to hold nine times of ten; it held {like} and {text} of {len(every)} times."
