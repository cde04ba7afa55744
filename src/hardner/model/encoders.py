"""Sentences -> one vector a word: what every encoder is, and the one of word vectors and letters.

The transformer of subword pieces is `PieceEncoder` of `hardner.model.transformer`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hardner.batch import Batch
from hardner.config import AxisSize, Count
from hardner.features import Features
from hardner.model.characters import ALPHABET, Characters, spell
from hardner.model.layers import (
    Mode,
    Params,
    dropout,
    embed,
    mean_of_words,
    normal,
    prefixed,
    scoped,
)
from hardner.model.recurrent import BiRecurrent, CellKind, ends_of
from hardner.types import Sentence


class Encoded(NamedTuple):
    """An encoder's output for a batch."""

    words: Tensor  # [M, B, T, H]
    whole: Tensor  # one vector a sentence, the network's own summary of it, [M, B, H]


class Encoder(Protocol):
    """Any network that gives a vector a word."""

    @property
    def size(self) -> int:
        """H, of a word's vector."""

    def init(self, rng: torch.Generator) -> Params:
        """Parameters named ``encoder.…``, and ``frozen.…`` for what never learns."""

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """What `__call__` will read of the sentences."""

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """The vectors of a batch's words."""


@dataclass(frozen=True)
class WordEncoder:
    """Word vectors and letters, read by a BiLSTM or BiGRU (HGDA, MetaNER)."""

    vocabulary: tuple[str, ...]
    """Words with a vector of their own, in order; any other shares one vector."""
    dimension: AxisSize = 200
    train_words: bool = False
    """Whether the word vectors learn, as in MetaNER, or stay, as in HGDA."""
    characters: Characters = field(default_factory=Characters)
    cell: CellKind = "lstm"
    hidden: AxisSize = 128
    """Of one direction."""
    skip: bool = False
    """Whether a word's input vectors are appended to its states."""

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocabulary, 1)}

    @property
    def size(self) -> int:
        return 2 * self.hidden + (self._inputs if self.skip else 0)

    @property
    def _inputs(self) -> int:
        return self.dimension + self.characters.size

    @property
    def _recurrent(self) -> BiRecurrent:
        return BiRecurrent(self.cell, self._inputs, self.hidden)

    @property
    def words(self) -> str:
        """The name of the table of word vectors."""
        return "encoder.words" if self.train_words else "frozen.words"

    def init(self, rng: torch.Generator) -> Params:
        """Word vectors start at random; `hardner.vectors` gives better ones."""
        return {
            self.words: normal((len(self.vocabulary) + 1, self.dimension), 0.1, rng),
            **prefixed("encoder.characters", self.characters.init(rng)),
            **prefixed("encoder.recurrent", self._recurrent.init(rng)),
        }

    def look_up(self, word: str) -> int:
        """The word's row: as written, else in lower case, else 0."""
        return self._index.get(word) or self._index.get(word.lower(), 0)

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """Streams ``words`` and ``forms``; each form's letters are a row of a table."""
        forms: dict[str, int] = {}
        words = [np.array([self.look_up(w) for w in s.tokens], np.int64) for s in sentences]
        rows = [
            np.array([forms.setdefault(w, len(forms) + 1) for w in s.tokens], np.int64)
            for s in sentences
        ]
        letters = np.stack([spell(""), *(spell(form) for form in forms)])
        counted = "forms" if self.characters.size else ""
        return Features({"words": words, "forms": rows}, {"letters": letters}, counted)

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """Vectors of words and letters side by side, then both directions of the recurrence."""
        inputs = [embed(batch.inputs["words"], params[self.words])]  # [M, B, T, D]
        if self.characters.size:
            inputs.append(self._spelling(params, batch, mode))
        x = dropout(torch.cat(inputs, dim=-1), mode)
        states = self._recurrent(scoped(params, "encoder.recurrent"), x, batch.lengths, mode)
        states = dropout(states, mode)  # [M, B, T, 2H]
        whole = ends_of(states, batch.lengths)
        if not self.skip:
            return Encoded(states, whole)
        mean = mean_of_words(x, batch.lengths)
        return Encoded(torch.cat((states, x), dim=-1), torch.cat((whole, mean), dim=-1))

    def _spelling(self, params: Params, batch: Batch, mode: Mode) -> Tensor:
        """The letters' vector of each word: [M, B, T, C]. A word form is read once for a task."""
        forms, letters = batch.inputs["forms"], batch.inputs["table.letters"]
        own = scoped(params, "encoder.characters")
        tasks = forms.shape[0]
        if batch.distinct:  # a fixed shape, so that a step can be captured as a CUDA graph
            seen, place = each_once(forms.flatten(1), batch.distinct)
            vectors = self.characters(own, letters[seen], mode)  # [M, U, C]
            return embed(place.view_as(forms), vectors)
        if forms.is_cuda:  # to find the distinct ones would wait for the GPU
            return self.characters(own, letters[forms.flatten(1)], mode).view(*forms.shape, -1)
        if own["table"].shape[0] == 1:  # shared letters: distinct forms of all tasks together
            seen, place = forms.unique(return_inverse=True)
            vectors = self.characters(own, letters[seen].unsqueeze(0), mode)  # [1, U, C]
            return vectors[0][place]
        uniques = [forms[task].unique(return_inverse=True) for task in range(tasks)]
        rows = torch.nn.utils.rnn.pad_sequence([u for u, _ in uniques], batch_first=True)
        vectors = self.characters(own, letters[rows], mode)  # [M, U, C]
        return embed(torch.stack([place for _, place in uniques]), vectors)


def each_once(ids: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The different values of each row, and where among them each value stands.

    ids [M, N], of which no row has more than ``most`` values -> [M, most], 0 filling up, [M, N].
    """
    # `torch.unique` has an output as long as its data says, which no CUDA graph can hold.
    ordered, order = ids.sort(dim=1)
    rank = pad((ordered[:, 1:] != ordered[:, :-1]).cumsum(1), (1, 0))  # [M, N]
    seen = ids.new_zeros(ids.shape[0], most).scatter(1, rank, ordered)
    return seen, torch.empty_like(ids).scatter(1, order, rank)


@dataclass(frozen=True)
class EncoderWithCopies:
    """An encoder and further copies of it, each with some parameters of its own.

    Heads that are added later are fitted on a copy, so that heads before them stay as they were. A
    word's vector is those of all copies, end to end; a head that reads one copy has zeros for the
    others. What a copy shares with the first is held once.
    """

    base: Encoder
    changed: tuple[tuple[str, ...], ...]
    """Of each further copy, the names of the parameters that are its own."""
    heads: tuple[Count, ...] = ()
    """How many heads read each further copy, behind those of the first; empty: one each."""

    def heads_of(self, heads: int) -> list[range]:
        """Of a tagger with so many heads, those that read each copy."""
        counts = self.heads or (1,) * len(self.changed)
        ends = list(accumulate(counts, initial=heads - sum(counts)))
        return [range(start, end) for start, end in pairwise((0, *ends))]

    @property
    def size(self) -> int:
        return self.base.size * (1 + len(self.changed))

    def init(self, rng: torch.Generator) -> Params:
        """All copies start the same."""
        params = self.base.init(rng)
        branches = enumerate(self.changed, 1)
        return params | {copy_name(i, n): params[n].clone() for i, names in branches for n in names}

    def features(self, sentences: Sequence[Sentence]) -> Features:
        return self.base.features(sentences)

    def params_of(self, params: Params, copy: int) -> Params:
        """A copy's parameters, as the encoder names them; 0 is the first."""
        inner = {copy_name(i, n) for i, names in enumerate(self.changed, 1) for n in names}
        shared = {name: value for name, value in params.items() if name not in inner}
        own = self.changed[copy - 1] if copy else ()
        return shared | {name: params[copy_name(copy, name)] for name in own}

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """One pass a copy."""
        copies = range(1 + len(self.changed))
        found = [self.base(self.params_of(params, copy), batch, mode) for copy in copies]
        words = torch.cat([encoded.words for encoded in found], dim=-1)  # [M, B, T, copies * H]
        whole = torch.cat([encoded.whole for encoded in found], dim=-1)  # [M, B, copies * H]
        return Encoded(words, whole)


def copy_name(copy: int, name: str) -> str:
    """The name of a copy's own parameter: ``encoder.layer5.…`` -> ``encoder.branch1.layer5.…``."""
    part, rest = name.split(".", 1)
    return f"{part}.branch{copy}.{rest}"


def vocabulary_of(sentences: Collection[Sentence]) -> tuple[str, ...]:
    """All words of the sentences that fit on a line of a file, sorted."""
    words = {word for sentence in sentences for word in sentence.tokens}
    return tuple(sorted(word for word in words if "\n" not in word))


def start_letters(params: Params, vectors: Tensor) -> Params:
    """Parameters whose letters, those of `ALPHABET` in order, start from vectors [letters, E]."""
    name = "encoder.characters.table"
    expected = (len(ALPHABET), params[name].shape[-1])
    if vectors.shape != expected:
        raise ValueError(f"expected {expected}, got {tuple(vectors.shape)}")
    table = params[name].clone()
    table[:, -len(ALPHABET) :] = vectors.to(table)
    return params | {name: table}
