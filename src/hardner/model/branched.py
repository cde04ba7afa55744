"""Copies of an encoder side by side, so that heads added later leave those before as they were."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hardner.batch import Batch, Features
from hardner.model.encoders import Encoded, Encoder
from hardner.model.layers import Mode, Params
from hardner.types import Sentence


@dataclass(frozen=True)
class Branched:
    """An encoder and further copies of it, each with some parameters of its own.

    A word's vector is those of all copies, end to end; a head that is to read one copy alone has
    zeros for the others. What a copy shares with the first is held once.
    """

    base: Encoder
    changed: tuple[tuple[str, ...], ...]
    """Of each further copy, the names of the parameters that are its own."""

    @property
    def size(self) -> int:
        """Of all copies together."""
        return self.base.size * (1 + len(self.changed))

    def init(self, rng: torch.Generator) -> Params:
        """All copies start the same."""
        params = self.base.init(rng)
        branches = enumerate(self.changed, 1)
        return params | {branch(i, n): params[n].clone() for i, names in branches for n in names}

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """Those of the encoder."""
        return self.base.features(sentences)

    def params_of(self, params: Params, copy: int) -> Params:
        """A copy's parameters, as the encoder names them; 0 is the first."""
        inner = {branch(i, n) for i, names in enumerate(self.changed, 1) for n in names}
        shared = {name: value for name, value in params.items() if name not in inner}
        own = self.changed[copy - 1] if copy else ()
        return shared | {name: params[branch(copy, name)] for name in own}

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """One pass a copy."""
        copies = range(1 + len(self.changed))
        found = [self.base(self.params_of(params, copy), batch, mode) for copy in copies]
        words = torch.cat([encoded.words for encoded in found], dim=-1)  # [M, B, T, copies * H]
        whole = torch.cat([encoded.whole for encoded in found], dim=-1)  # [M, B, copies * H]
        return Encoded(words, whole)


def branch(copy: int, name: str) -> str:
    """The name of a copy's own parameter: ``encoder.layer5.…`` -> ``encoder.branch1.layer5.…``."""
    part, rest = name.split(".", 1)
    return f"{part}.branch{copy}.{rest}"
