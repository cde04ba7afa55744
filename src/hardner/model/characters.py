"""A word's vector from its characters: convolutions and a BiLSTM over them."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.config import AxisSize, Bounds, Whole, check_fields
from hardner.errors import HardnerError
from hardner.features import Ints
from hardner.model.layers import Mode, Params, embed, linear, normal, scoped, uniform
from hardner.model.recurrent import BiRecurrent, ends_of

ALPHABET = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ°±×µ–—‘’“”•′″→≤≥®™"
)
SYMBOLS = len(ALPHABET) + 2
"""The alphabet, after padding (0) and any other character (1)."""
LETTERS = 20
"""Of a longer word, the first and the last ten letters are read."""
_INDEX = {letter: i + 2 for i, letter in enumerate(ALPHABET)}


def spell(word: str) -> Ints:
    """The letters of a word as integers, padded with 0 to `LETTERS`."""
    half = LETTERS // 2
    read = word if len(word) <= LETTERS else word[:half] + word[-half:]
    out = np.zeros(LETTERS, np.int64)
    out[: len(read)] = [_INDEX.get(letter, 1) for letter in read]
    return out


@dataclass(frozen=True)
class Characters:
    """Letters -> one vector a word: max-pooled convolutions beside the ends of a BiLSTM."""

    embedding: AxisSize = 50
    filters: Whole = 100
    """Of all widths together; 0 for no convolution."""
    widths: tuple[Annotated[int, Bounds(1, LETTERS)], ...] = (2, 3, 4, 5)
    recurrent: Whole = 0
    """Size of both directions together; 0 for no recurrence."""

    def __post_init__(self) -> None:
        check_fields(self, "characters")
        if self.filters and not self.widths:
            raise HardnerError("characters.widths: filters of letters need at least one width")
        if self.recurrent % 2:
            message = f"two directions cannot share {self.recurrent} features of letters"
            raise HardnerError(f"{message}; give an even number")

    @property
    def size(self) -> int:
        return self.filters + self.recurrent

    @property
    def _shares(self) -> list[int]:
        n = len(self.widths)  # the rest goes to the widest
        return [(self.filters + i) // n for i in range(n)]

    @property
    def _lstm(self) -> BiRecurrent:
        return BiRecurrent("lstm", self.embedding, self.recurrent // 2)

    def init(self, rng: torch.Generator) -> Params:
        params = {"table": normal((SYMBOLS, self.embedding), 0.1, rng)} if self.size else {}
        if self.filters:
            taps = sum(w * share for w, share in zip(self.widths, self._shares, strict=True))
            bound = (self.embedding * max(self.widths)) ** -0.5
            params["filters.weight"] = uniform((taps, self.embedding), bound, rng)
            params["filters.bias"] = uniform((self.filters,), bound, rng)
        if self.recurrent:
            params |= {f"lstm.{n}": p for n, p in self._lstm.init(rng).items()}
        return params

    def __call__(self, params: Params, letters: Tensor, mode: Mode) -> Tensor:
        """letters [M, N, L] -> [M, N, size]."""
        there = letters > 0  # [M, N, L]
        vectors = embed(letters, params["table"]) * there.unsqueeze(-1)  # [M, N, L, E]
        outs = []
        if self.filters:
            outs.append(self._convolve(params, vectors, there))
        if self.recurrent:
            lengths = there.sum(-1)
            states = self._lstm(scoped(params, "lstm"), vectors, lengths, mode)  # [M, N, L, R]
            outs.append(ends_of(states, lengths) * (lengths > 0).unsqueeze(-1))
        return torch.cat(outs, dim=-1)

    def _convolve(self, params: Params, vectors: Tensor, there: Tensor) -> Tensor:
        """One product for all filters: each reads a window as wide as the widest.

        A window starts at each letter of the word; beyond its end there are zeros.
        vectors [M, N, L, E] -> [M, N, filters].
        """
        widest = max(self.widths)
        windows = pad(vectors, (0, 0, 0, widest - 1)).unfold(2, widest, 1)  # [M, N, L, E, W]
        windows = windows.transpose(3, 4).flatten(3)  # [M, N, L, W * E]
        found = linear(windows, self._windows(params["filters.weight"]))  # [M, N, L, filters]
        # Max-pooling commutes with the bias and the ReLU, which so see one vector a word.
        best = found.masked_fill(~there.unsqueeze(-1), -1e4).amax(2)
        return (best + params["filters.bias"].unsqueeze(1)).relu()

    def _windows(self, taps: Tensor) -> Tensor:
        """The filters, with zeros beyond their own width: [M, taps, E] -> [M, filters, W * E]."""
        sizes = [width * share for width, share in zip(self.widths, self._shares, strict=True)]
        filters = []
        for own, width in zip(taps.split(sizes, dim=1), self.widths, strict=True):
            own = own.unflatten(1, (width, -1)).transpose(1, 2).flatten(2)  # [M, share, width * E]
            filters.append(pad(own, (0, (max(self.widths) - width) * self.embedding)))
        return torch.cat(filters, dim=1)
