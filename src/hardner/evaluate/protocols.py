"""The papers' protocols as values: what to train on, to adapt on and to test on, and how much."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hardner.errors import HardnerError
from hardner.meta.source_data import BENCHMARK

Size = int | float
"""So many sentences, or, as a share of up to 1.0, of all sentences."""
TrainOn = Literal["sources", "target", "sources and target", "nothing"]


@dataclass(frozen=True)
class Protocol:
    """What to train on, to adapt on and to test on."""

    name: str
    """Its results are in the file of that name."""
    targets: tuple[str, ...]
    """The corpora that are tested on, each with what is drawn of it to learn from."""
    sizes: tuple[Size, ...]
    """What is drawn of a target."""
    samples: int
    """Draws of each size."""
    sources: tuple[str, ...] = ()
    """What else is trained on; corpora of a target's own domain are left out for it."""
    optional: frozenset[str] = frozenset()
    """Sources that not everybody has."""
    train: TrainOn = "sources"
    adapt: bool = True
    """Whether a model is then fitted to what is drawn of the target, with a new decoder."""
    splits: tuple[str, ...] = ("train",)
    """Of a target, that its sentences are drawn from."""
    together: bool = False
    """Whether one model is trained for all targets at once."""
    natural: bool = False
    """Whether samples are drawn regardless of entities; shares always are."""
    unlabelled: int = 0
    """Sentences of a target that are learnt from without their labels, beside each sample."""


GENERAL = ("CoNLL2003", "OntoNotes5", "WNUT17", "wikigold")
METANER_TARGETS = ("BioNLP13PC", "MIT-movie", "MIT-restaurant", "re3d", "SEC-filings")
ACE = tuple(f"ACE2005-{domain}" for domain in ("BC", "BN", "CTS", "NW", "UN", "WL"))
RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0)

PROTOCOLS: Mapping[str, Protocol] = {
    p.name: p
    for p in (
        # HGDA, Tables 3 to 5; MetaBioNER, Table 3.
        Protocol("few_shot", BENCHMARK, (5, 10, 20, 50, 100), 20, sources=BENCHMARK),
        # MetaNER, Table 3 and Figures 6 and 7.
        Protocol(
            "heterogeneous",
            METANER_TARGETS,
            (1.0,),
            3,
            sources=GENERAL,
            optional=frozenset({"OntoNotes5"}),
        ),
        Protocol(
            "ratios",
            METANER_TARGETS,
            RATIOS,
            3,
            sources=GENERAL,
            optional=frozenset({"OntoNotes5"}),
        ),
        # MetaNER, Table 2 and Figures 4 and 5.
        Protocol("homogeneous", ACE, (1.0,), 3, sources=ACE),
        Protocol("homogeneous_ratios", ACE, RATIOS, 3, sources=ACE),
        # MetaBioNER, Table 5.
        Protocol("full", BENCHMARK, (1.0,), 1, sources=BENCHMARK, splits=("train", "devel")),
        # MT-BioNER, Tables 2 and 3.
        *(
            Protocol(
                f"multitask_{len(targets)}",
                targets,
                (1.0,),
                1,
                train="sources and target",
                adapt=False,
                splits=("train", "devel"),
                together=True,
            )
            for targets in (
                ("BC2GM", "BC5CDR", "NCBI-disease"),
                ("BC2GM", "BC5CDR", "NCBI-disease", "JNLPBA"),
            )
        ),
        # Multi-granularity, Tables 2 to 4.
        Protocol(
            "shares",
            ("BC2GM", "BC5CDR-chem", "NCBI-disease"),
            (1.0, 0.5, 0.25, 0.1),
            1,
            train="target",
            adapt=False,
            splits=("train", "devel"),
        ),
    )
}
"""By name."""


def protocol(name: str) -> Protocol:
    """The protocol of that name; hyphens stand for underscores."""
    try:
        return PROTOCOLS[name.replace("-", "_")]
    except KeyError:
        known = ", ".join(PROTOCOLS)
        raise HardnerError(f"no protocol {name!r}; there are {known}") from None


def passing_share(curve: Mapping[float, float], bound: float) -> float | None:
    """The share of the data at which a method's score reaches a bound, between two by a line.

    None where it never does.
    """
    before: tuple[float, float] | None = None
    for share, value in sorted(curve.items()):
        if value >= bound:
            if before is None:
                return share
            return before[0] + (share - before[0]) * (bound - before[1]) / (value - before[1])
        before = share, value
    return None
