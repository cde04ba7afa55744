"""The papers' own figures, each with the table it stands in (``published.csv``)."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from hardner.evaluate.protocols import Size

MEAN = "mean"
"""The column of the mean over all corpora."""
CONTEXTUAL = ("transformer", "bert")
EARLIER = {"HGDA": "MetaBioNER", "HGDA-NEs": "MetaBioNER-NEs"}
"""The same authors' first form of a method, for what was published of that alone."""


@dataclass(frozen=True)
class Figure:
    """A published value."""

    method: str
    value: float
    source: str


@lru_cache(maxsize=1)
def figures() -> Mapping[tuple[str, str, str, str], tuple[Figure, ...]]:
    """By protocol, metric, size and corpus."""
    text = files("hardner.evaluate").joinpath("published.csv").read_text("utf-8")
    found: dict[tuple[str, str, str, str], tuple[Figure, ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["protocol"], row["metric"], row["size"], row["corpus"])
        figure = Figure(row["method"], float(row["value"]), row["source"])
        found[key] = (*found.get(key, ()), figure)
    return found


def published_names(protocol: str, method: str, encoder: str) -> list[str]:
    """What papers call a row of ours, the nearest first."""
    if protocol == "few_shot" and encoder in CONTEXTUAL:
        return ["BioBERT"] if method in ("FineTuning", "encoder alone") else [f"{method}*"]
    return [method, EARLIER[method]] if method in EARLIER else [method]


def published(
    protocol: str, metric: str, size: Size | str, corpus: str, called: Sequence[str]
) -> Figure | None:
    """The figure under the first of some names; the first source in the file, if several."""
    there = figures().get((protocol, metric, str(size), corpus), ())
    ranked = [figure for name in called for figure in there if figure.method == name]
    return ranked[0] if ranked else None


def published_mean(
    protocol: str, metric: str, size: Size, corpora: Sequence[str], called: Sequence[str]
) -> Figure | None:
    """The published mean over these corpora; none where a corpus has no published value."""
    for name in called:
        each = [published(protocol, metric, size, corpus, [name]) for corpus in corpora]
        known = [figure for figure in each if figure]
        if known and len(known) == len(each):
            whole = published(protocol, metric, size, MEAN, [name])
            average = sum(figure.value for figure in known) / len(known)
            return whole or Figure(name, average, known[0].source)
    return None


def best_published(protocol: str, metric: str, size: Size, corpora: Sequence[str]) -> str | None:
    """The published method with the highest mean."""
    keys = [(protocol, metric, str(size), corpus) for corpus in (*corpora, MEAN)]
    methods = dict.fromkeys(f.method for key in keys for f in figures().get(key, ()))
    means = {
        m: f.value for m in methods if (f := published_mean(protocol, metric, size, corpora, [m]))
    }
    return max(means, key=means.__getitem__) if means else None
