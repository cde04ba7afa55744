"""Values that the papers published, each with the table it stands in (``published.csv``)."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from hardner.evaluate.protocols import Size

MEAN = "mean"
"""The column of the mean over all corpora."""
_EARLIER_NAMES = {"HGDA": "MetaBioNER", "HGDA-NEs": "MetaBioNER-NEs"}
"""The same authors' first form of a method, for sizes that were published for that form alone."""
_VARIANTS = {
    "HGDA, trained with 5": "HGDA",
    "MetaNER, trained with 5": "MetaNER",
    "MetaNER, lambda 1.0": "MetaNER",
    "HGDA-NEs, queries too": "HGDA-NEs",
}
"""Rows of ours that differ from a published one in what their name says."""


@dataclass(frozen=True)
class PublishedValue:
    """A value of a method, as published."""

    method: str
    value: float
    source: str
    """Paper and table."""


@lru_cache(maxsize=1)
def published_values() -> Mapping[tuple[str, str, str, str], tuple[PublishedValue, ...]]:
    """By protocol, metric, size and corpus."""
    text = files("hardner.evaluate").joinpath("published.csv").read_text("utf-8")
    found: dict[tuple[str, str, str, str], tuple[PublishedValue, ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        key = (row["protocol"], row["metric"], row["size"], row["corpus"])
        value = PublishedValue(row["method"], float(row["value"]), row["source"])
        found[key] = (*found.get(key, ()), value)
    return found


def compared_method(method: str) -> str:
    """The method that a row of ours is a variant of, or the row's own name."""
    return _VARIANTS.get(method, method)


def published_names(protocol: str, method: str, encoder: str) -> list[str]:
    """The names that papers give to a row of ours, the best match first."""
    method = compared_method(method)
    if protocol == "few_shot" and encoder in ("transformer", "bert"):
        # HGDA writes HGDA* for HGDA with BERT, and BioBERT for plain fine-tuning.
        return ["BioBERT"] if method in ("FineTuning", "encoder alone") else [f"{method}*"]
    return [method, _EARLIER_NAMES[method]] if method in _EARLIER_NAMES else [method]


def published_value(
    protocol: str, metric: str, size: Size | str, corpus: str, names: Sequence[str]
) -> PublishedValue | None:
    """The value under the first of some names; the first in the file if several papers have it."""
    there = published_values().get((protocol, metric, str(size), corpus), ())
    return next((v for name in names for v in there if v.method == name), None)


def published_mean(
    protocol: str, metric: str, size: Size, corpora: Sequence[str], names: Sequence[str]
) -> PublishedValue | None:
    """The published mean over these corpora; None where a corpus has no published value."""
    own = (protocol, metric, size)
    for name in names:
        each = [published_value(*own, corpus, [name]) for corpus in corpora]
        known = [value for value in each if value]
        if known and len(known) == len(each):
            mean = sum(value.value for value in known) / len(known)
            whole = published_value(*own, MEAN, [name])
            return whole or PublishedValue(name, mean, known[0].source)
    return None


def published_row(
    protocol: str, metric: str, size: Size, corpora: Sequence[str], names: Sequence[str]
) -> list[PublishedValue | None]:
    """The values on these corpora, and their mean."""
    own = (protocol, metric, size)
    values = [published_value(*own, corpus, names) for corpus in corpora]
    return [*values, published_mean(*own, corpora, names)]


def best_published(protocol: str, metric: str, size: Size, corpora: Sequence[str]) -> str | None:
    """The published method with the highest mean."""
    keys = [(protocol, metric, str(size), corpus) for corpus in (*corpora, MEAN)]
    methods = dict.fromkeys(v.method for key in keys for v in published_values().get(key, ()))
    means = [published_mean(protocol, metric, size, corpora, [method]) for method in methods]
    best = max(filter(None, means), key=lambda mean: mean.value, default=None)
    return best.method if best else None
