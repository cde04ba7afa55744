"""Heads of the bundled model that follow the guidelines of one corpus.

Corpora do not agree on what a gene or a species is. The bundled model's heads say what the corpora
of a kind say together; here lie those that learnt from one of them alone, to be put in their place.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from hardner import checkpoint
from hardner.errors import HardnerError
from hardner.model.layers import scoped
from hardner.tag.predictor import BUNDLED_MODEL, Predictor

GUIDELINES = "guidelines"
_FOLDER = BUNDLED_MODEL.with_name(GUIDELINES)


class GuidelineHead(NamedTuple):
    """A decoder for one label as a corpus has it."""

    label: str
    """Of the bundled model's head that it can take the place of."""
    temperature: float
    decoder: Mapping[str, Tensor]
    """By name within the decoder, [1, 1, ...] each."""


def save_guidelines(heads: Mapping[str, GuidelineHead], folder: Path = _FOLDER) -> None:
    """Write heads, by corpus."""
    tensors = {
        f"{corpus}.{n}": t for corpus, head in heads.items() for n, t in head.decoder.items()
    }
    about = {corpus: [head.label, head.temperature] for corpus, head in heads.items()}
    checkpoint.save_checkpoint(folder, tensors, {GUIDELINES: about})


def known_guidelines(folder: Path = _FOLDER) -> dict[str, GuidelineHead]:
    """The heads that come with the package, by the corpus whose guidelines they follow."""
    if not folder.is_dir():
        return {}
    held = checkpoint.load_checkpoint(folder)
    return {
        corpus: GuidelineHead(label, float(temperature), scoped(held.tensors, corpus))
        for corpus, (label, temperature) in held.config[GUIDELINES].items()
    }


def follow_guidelines(predictor: Predictor, corpora: Iterable[str]) -> Predictor:
    """The bundled predictor with heads that follow the guidelines of corpora.

    Labels of which no corpus is named stay what they were.
    """
    heads, taken = known_guidelines(), dict[str, str]()
    for corpus in corpora:
        if corpus not in heads:
            listed = ", ".join(f"{name} ({head.label})" for name, head in heads.items())
            raise HardnerError(f"no guidelines {corpus!r}; there are {listed or 'none'}")
        label = heads[corpus].label
        if label in taken:
            raise HardnerError(f"{taken[label]} and {corpus} both say what {label} is; choose one")
        taken[label] = corpus
        predictor = replace_head(predictor, heads[corpus])
    return predictor


def replace_head(predictor: Predictor, head: GuidelineHead) -> Predictor:
    """The predictor with a head in the place of its own for that label."""
    at = predictor.tagger.domains.index(head.label)
    params, temperatures = dict(predictor.params), list(predictor.temperatures)
    for name, value in head.decoder.items():
        whole = params[f"decoder.{name}"].clone()  # [1, D, ...]
        whole[:, at : at + 1] = value.to(whole)
        params[f"decoder.{name}"] = whole
    temperatures[at] = head.temperature
    return replace(predictor, params=params, temperatures=tuple(temperatures))


def load(
    path: str | Path | None = None, *, device: str = "cpu", guidelines: Collection[str] = ()
) -> Predictor:
    """A predictor from a model folder; without one, from the model that comes with the package.

    Args:
        path: The folder.
        device: ``cpu``, ``cuda`` or ``auto``.
        guidelines: Corpora whose guidelines heads of the package's own model are to follow, such
            as ``JNLPBA``; other heads say what several corpora say together.
    """
    if not guidelines:
        return Predictor.load(path, device)
    if path is not None:
        raise HardnerError("only the model that comes with hardner can follow other guidelines")
    return follow_guidelines(Predictor.load(device=device), guidelines)
