"""The papers' protocols, and the samples of labelled sentences that they draw of a corpus.

A sample is the same for every system.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
