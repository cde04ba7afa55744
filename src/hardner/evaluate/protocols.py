"""The papers' protocols: what to train on, to adapt on and to test on, and how much."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from hardner.catalogue import BENCHMARK
from hardner.errors import HardnerError

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


def _load_protocols() -> dict[str, Protocol]:
    table = tomllib.loads(files("hardner.evaluate").joinpath("protocols.toml").read_text("utf-8"))
    groups = {"benchmark": BENCHMARK, **table["groups"]}
    protocols = {}
    for name, row in table["protocols"].items():
        for key in ("targets", "sources"):
            if isinstance(corpora := row.get(key), str):  # the name of a group
                row[key] = groups[corpora]
        tuples = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        protocols[name] = Protocol(name, **{**row, **tuples})
    return protocols


PROTOCOLS: Mapping[str, Protocol] = _load_protocols()
"""By name."""


def protocol(name: str) -> Protocol:
    """The protocol of that name; hyphens stand for underscores."""
    try:
        return PROTOCOLS[name.replace("-", "_")]
    except KeyError:
        raise HardnerError(f"no protocol {name!r}; there are {', '.join(PROTOCOLS)}") from None
