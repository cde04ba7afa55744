"""The papers' protocols, the samples that they draw of a corpus, and the published values.

A sample is the same for every system. A value names the table it stands in (``published.csv``).
"""

import csv
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from hardner.catalogue import BENCHMARK
from hardner.episodes import distinct, few_shot, random_numbers
from hardner.errors import FileError, HardnerError
from hardner.files import atomic_write, read_json
from hardner.types import Corpus, Sentence

Size = int | float
"""A number of sentences, or a share of up to 1.0 of all sentences."""
TrainOn = Literal["sources", "target", "sources and target", "nothing"]


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
class Protocol:
    """What to train on, to adapt on and to test on."""

    name: str
    """Results go to the file of that name."""
    targets: tuple[str, ...]
    """The corpora that are tested on, each with samples of its own to learn from."""
    sizes: tuple[Size, ...]
    """Of the samples."""
    samples: int
    """Draws of each size."""
    sources: tuple[str, ...] = ()
    """What else is trained on, without the corpora of the target's own domain."""
    optional: tuple[str, ...] = ()
    """Sources that are left out where they are missing, as not everybody has a licence."""
    train: TrainOn = "sources"
    adapt: bool = True
    """Whether the model is then fitted to the sample, with a new decoder."""
    splits: tuple[str, ...] = ("train",)
    """The target's splits that samples are drawn from."""
    together: bool = False
    """Whether one model is trained for all targets at once."""
    natural: bool = False
    """Whether samples are drawn from all sentences, not only those with an entity; shares are."""
    unlabelled: int = 0
    """Sentences of a target that are learnt from without their labels, beside each sample."""
    tested: Literal["devel", "test"] = "test"
    """The target's split that models are scored on."""
    most_tested: int = 0
    """Of its sentences, score on a random sample of so many, the same for all; 0: all."""
    forecast: bool = False
    """Whether cross-validation within the sample says beforehand what to expect."""


def _load_protocols() -> dict[str, Protocol]:
    table = tomllib.loads(files("hardner.evaluate").joinpath("protocols.toml").read_text("utf-8"))
    groups = {"benchmark": BENCHMARK, **table["groups"]}
    protocols = {}
    for name, row in table["protocols"].items():
        for key in ("targets", "sources"):
            row[key] = groups.get(str(row.get(key)), row.get(key, ()))  # or the name of a group
        tuples = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        protocols[name] = Protocol(name, **row | tuples)
    return protocols


PROTOCOLS: Mapping[str, Protocol] = _load_protocols()
"""By name."""


def protocol(name: str) -> Protocol:
    """The protocol of that name; hyphens stand for underscores."""
    try:
        return PROTOCOLS[name.replace("-", "_")]
    except KeyError:
        raise HardnerError(f"no protocol {name!r}; there are {', '.join(PROTOCOLS)}") from None


def draw_sample(
    corpus: str, sentences: Sequence[Sentence], size: Size, sample: int, natural: bool = False
) -> tuple[int, ...]:
    """The rows of the sentences in a sample.

    Unless it is ``natural``, a number of sentences is drawn from those with an entity; a share
    always is natural.
    """
    if size == 1.0 and isinstance(size, float):
        return tuple(range(len(sentences)))
    shots = size if isinstance(size, int) else max(1, round(size * len(sentences)))
    return few_shot(corpus, sentences, shots, sample, natural=natural or isinstance(size, float))


def as_tested(plan: Protocol, corpus: Corpus) -> Corpus:
    """The corpus with those sentences as its test set that a protocol scores on."""
    split: tuple[Sentence, ...] = getattr(corpus, plan.tested)
    if plan.most_tested and len(split) > plan.most_tested:
        source = random_numbers("tested", corpus.name.partition(":")[0])
        rows = sorted(distinct(len(split), plan.most_tested, source))
        split = tuple(split[row] for row in rows)
    return replace(corpus, test=split)


class SampleBook:
    """The ids of sampled sentences, once for each corpus, number of shots and sample."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._held: dict[str, list[str]] = read_json(self.path) if self.path.is_file() else {}

    def add(
        self, corpus: str, shots: int, drawn: dict[int, list[str]], natural: bool = False
    ) -> None:
        """Write down the ids of some samples; other ids than are there already are an error."""
        suffix = "/natural" if natural else ""
        new = {f"{corpus}/{shots}/{sample}{suffix}": ids for sample, ids in drawn.items()}
        for key, ids in new.items():
            if self._held.get(key, ids) != ids:
                message = f"other sentences than now are sample {key}: has {corpus} changed?"
                raise FileError(self.path, message)
        if not new.keys() <= self._held.keys():
            self._held |= new
            lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(self._held.items())]
            with atomic_write(self.path) as file:
                file.write("{\n" + ",\n".join(lines) + "\n}\n")


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
