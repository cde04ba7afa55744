"""One pass of the encoder, every head's best tags, and the probability of each span found."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hardner.batch import Ints, Store, TagSet, bucket
from hardner.model.crf_decode import Runs, run_marginals, viterbi
from hardner.model.decoders import Emissions, TransitionScores
from hardner.model.encoders import Encoded, EncoderWithCopies, PieceEncoder
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import SCORING, Params, part_of
from hardner.model.onnx import OnnxEncoder
from hardner.model.runtime import cpu_has_bfloat16
from hardner.model.tagger import Tagger
from hardner.schemes import tags_to_spans
from hardner.tag.uncertainty import entropies
from hardner.tag.windows import ScoredMention, TagRun, tag_runs
from hardner.types import Sentence

_PADDED_WIDTH: dict[str, Callable[[int], int]] = {
    "cpu": lambda width: width + width % 2,
    "cuda": bucket,
}
"""How many words or pieces a sentence is padded to.

That follows from the sentence alone, so that the arithmetic on it does not depend on the sentences
beside it, and sentences of like length come together: on a GPU in few groups, as it computes
thousands of sentences in hardly more time than a few.
"""
BATCH_SIZE = {"cpu": 64, "cuda": 1 << 12}
"""Sentences that are computed at once, unless another number is asked for."""
_WORDS_AT_ONCE = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Words or pieces that are computed at once, padding counted."""
_CRF_CELLS = 1 << 27
"""Words times heads times the cube of their tags, at once: what a GPU joins stretches in."""
SCORE_DIGITS = 4
"""Of a score; the arithmetic itself gives some more."""

Tokens = Sequence[str]

_ALONE = Lock()
"""A Hugging Face network is given its parameters by setting them for the time of a call."""


class EncodedTexts(NamedTuple):
    """Tokens of sentences, encoded to be tagged by any number of models with one encoder."""

    texts: Sequence[Tokens]
    filled: list[int]
    """The sentences that have tokens."""
    store: Store | None
    """Of these; None if there are none."""

    @classmethod
    def of(cls, tagger: Tagger, texts: Sequence[Tokens], device: str) -> "EncodedTexts":
        """Encode the tokens of each sentence."""
        filled = [row for row, words in enumerate(texts) if words]
        sentences = [Sentence(tuple(texts[row])) for row in filled]
        store = tagger.store(sentences, None, device) if filled else None
        return cls(texts, filled, store)


class _Group(NamedTuple):
    """Sentences that are computed together."""

    rows: Ints
    """Which sentences, [B]."""
    said: Emissions
    """By the D heads, in float64 and divided by their temperatures."""


@dataclass(frozen=True, eq=False)
class Engine:
    """A tagger with its parameters on a device; safe to use from several threads."""

    tagger: Tagger
    params: Params
    temperatures: tuple[float, ...]
    device: str = "cpu"
    _alone: AbstractContextManager[object] = field(init=False, repr=False)
    _network: Params = field(init=False, repr=False)
    """What the encoder computes with."""
    _decoders: Params = field(init=False, repr=False)
    """In float64, in which what is added up in another order is still the same to all digits."""

    def __post_init__(self) -> None:
        encoder = self.tagger.encoder
        network = encoder.base if isinstance(encoder, EncoderWithCopies) else encoder
        alone = _ALONE if isinstance(network, BertEncoder) else nullcontext()
        object.__setattr__(self, "_alone", alone)
        half = _half(self.device)
        if half is not None and isinstance(encoder, PieceEncoder):
            object.__setattr__(self, "_network", encoder.transformer.halved(self.params, half))
        else:
            object.__setattr__(self, "_network", self.params)
        own = {n: p.double() for n, p in self.params.items() if part_of(n) == "decoder"}
        object.__setattr__(self, "_decoders", own)

    @torch.inference_mode()
    def tag(
        self, texts: Sequence[Tokens] | EncodedTexts, heads: Sequence[int], size: int
    ) -> list[list[ScoredMention]]:
        """The mentions in each sentence, in tokens, by head and place.

        Args:
            texts: The tokens of each sentence, encoded before or not.
            heads: Which of the tagger's decoders to ask.
            size: Sentences computed at once, at most.
        """
        encoded = self.encode(texts)
        found: list[list[ScoredMention]] = [[] for _ in encoded.texts]
        tag_sets = [self.tagger.tag_sets[head] for head in heads]
        for rows, said in self.groups(encoded, heads, size):
            tags = viterbi(said.scores, said.lengths, *said.chain)[0]  # [D, B, T]
            runs = tag_runs(tags.cpu().numpy(), tag_sets)
            for run, score in zip(runs, _scores(runs, said, tag_sets), strict=True):
                mark = ScoredMention(*run.span, round(score, SCORE_DIGITS), heads[run.head])
                found[rows[run.row]].append(mark)
        return found

    @torch.inference_mode()
    def token_entropies(
        self, texts: Sequence[Tokens], heads: Sequence[int], size: int
    ) -> list[list[float]]:
        """The entropy of each token's tags given those before it, in nats, summed over heads."""
        found: list[list[float]] = [[] for _ in texts]
        for rows, said in self.groups(texts, heads, size):
            given = entropies(said.scores, said.lengths, *said.chain)[1]  # [D, B, T]
            for row, values in zip(rows, given.sum(0).tolist(), strict=True):
                found[row] = values[: len(texts[row])]
        return found

    def encode(self, texts: Sequence[Tokens] | EncodedTexts) -> EncodedTexts:
        """The texts as the network reads them."""
        if isinstance(texts, EncodedTexts):
            return texts
        return EncodedTexts.of(self.tagger, texts, self.device)

    def groups(
        self, texts: Sequence[Tokens] | EncodedTexts, heads: Sequence[int], size: int
    ) -> Iterator[_Group]:
        """The scores of all sentences that have tokens, those of like length together."""
        encoded = self.encode(texts)
        store = encoded.store
        if store is None or not heads:
            return
        asked = torch.tensor(heads, device=self.device)

        @torch.inference_mode()
        def group(some: tuple[Ints, dict[str, int]]) -> _Group:
            rows, widths = some
            batch = store.batch(torch.from_numpy(rows[None]).to(self.device), widths)
            with self._alone:
                words, whole = self.tagger.encoder(self._network, batch, SCORING)
            exact = Encoded(words.double(), whole)
            said = self.tagger.emissions(self._decoders, exact, batch, asked)
            return _Group(np.array(encoded.filled)[rows], self._tempered(said, heads))

        every = _like(store, len(encoded.filled), size, self._room(len(heads)))
        if not isinstance(self.tagger.encoder, OnnxEncoder):
            yield from map(group, every)
            return
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            yield from pool.map(group, every)

    def _room(self, heads: int) -> int:
        """For the words or pieces of a group."""
        kind = torch.device(self.device).type
        cells = heads * (self.tagger.tags + 1) ** 3
        return (
            _WORDS_AT_ONCE[kind]
            if kind == "cpu"
            else min(_WORDS_AT_ONCE[kind], _CRF_CELLS // cells)
        )

    def _tempered(self, said: Emissions, heads: Sequence[int]) -> Emissions:
        temperatures = torch.tensor(
            [self.temperatures[head] for head in heads], dtype=torch.float64
        )
        temperatures = temperatures.to(said.scores.device).view(-1, 1, 1)  # [D, 1, 1]
        transitions, start, end = said.chain
        cooled = TransitionScores(
            transitions / temperatures, start / temperatures[:, 0], end / temperatures[:, 0]
        )
        return Emissions(said.scores / temperatures.unsqueeze(-1), said.lengths, cooled)


def _half(device: str) -> torch.dtype | None:
    """The half precision in which the device multiplies faster, if there is one.

    Of the two, float16 is eight times as exact; a CPU that is fast in bfloat16 may not be in it.
    """
    if torch.device(device).type == "cuda":
        return torch.float16
    return torch.bfloat16 if cpu_has_bfloat16() else None


def _like(store: Store, count: int, size: int, room: int) -> Iterator[tuple[Ints, dict[str, int]]]:
    """Sentences of like length, the longest first, and the widths they are padded to."""
    own = {name: stream.widths[:count] for name, stream in store.streams.items()}
    own["words"] = store.tags.widths[:count]
    longest = max(int(widths.max()) for widths in own.values())
    steps = np.array(
        [_PADDED_WIDTH[store.device.type](max(1, width)) for width in range(longest + 1)]
    )
    padded = {name: steps[widths] for name, widths in own.items()}
    widest = np.stack(list(padded.values())).max(0)  # [sentences]
    for width in np.unique(widest)[::-1].tolist():
        rows = np.flatnonzero(widest == width)
        step = min(size, max(1, room // width))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            yield some, {name: int(widths[some].max()) for name, widths in padded.items()}


def _scores(runs: Sequence[TagRun], said: Emissions, tag_sets: Sequence[TagSet]) -> list[float]:
    """The probability of each span; only sentences that hold one are gone through."""
    scores = [0.0] * len(runs)
    for scheme in {tag_set.scheme for tag_set in tag_sets}:
        own = [i for i, run in enumerate(runs) if tag_sets[run.head].scheme == scheme]
        richest = max((t for t in tag_sets if t.scheme == scheme), key=lambda t: len(t.tags))
        for i, score in zip(own, _of_scheme([runs[i] for i in own], said, richest), strict=True):
            scores[i] = score
    return scores


def _of_scheme(runs: Sequence[TagRun], said: Emissions, richest: TagSet) -> list[float]:
    if not runs:
        return []
    heads, _, _, tags = said.scores.shape
    held: list[dict[int, int]] = [{} for _ in range(heads)]
    rows = [held[run.head].setdefault(run.row, len(held[run.head])) for run in runs]
    most, longest = max(map(len, held)), max(len(run.tags) for run in runs)
    index = torch.tensor([[*there, *[0] * (most - len(there))] for there in held])  # [D, R]
    head = torch.arange(heads).unsqueeze(1)
    places = Runs(
        torch.tensor([run.head for run in runs]),
        torch.tensor(rows),
        torch.tensor([run.span.start for run in runs]),
        torch.tensor([[*run.tags, *[-1] * (longest - len(run.tags))] for run in runs]),
    )
    ends = ~_continues(richest, tags).to(said.scores.device)
    found: list[float] = run_marginals(
        said.scores[head, index],
        said.lengths[head, index],
        *said.chain,
        Runs(*(part.to(said.scores.device) for part in places)),
        opens=ends,
        closes=ends,
    ).tolist()
    return found


@lru_cache(maxsize=64)
def _continues(tag_set: TagSet, width: int) -> Tensor:
    """Whether a tag (column) goes on with the span of the one before it (row): [C, C].

    Tags stand in the same order in every tag set of a scheme, so that the richest speaks for all.
    """
    names = tag_set.tags
    table = torch.zeros(width, width, dtype=torch.bool)
    for i, left in enumerate(names):
        for j, right in enumerate(names):
            spans, _ = tags_to_spans((left, right), tag_set.scheme)
            table[i, j] = any(span.end - span.start == 2 for span in spans)
    return table
