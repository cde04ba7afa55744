"""Decoding: one pass of the encoder, Viterbi for every head, a probability for every span."""

import os
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
from torch.nn.functional import pad

from hardner.batch import Store
from hardner.features import CPU_CELLS, CPU_SENTENCES, Ints, bucket, even_width, groups_of_streams
from hardner.model.crf import Runs, run_marginals, viterbi
from hardner.model.decoders import Emissions, TransitionScores
from hardner.model.encoders import Encoded, EncoderWithCopies
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import SCORING, Params, cpu_has_bfloat16, part_of
from hardner.model.onnx import OnnxEncoder
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder
from hardner.schemes import TagSet, continues
from hardner.tag.uncertainty import Uncertainty, head_uncertainties
from hardner.tag.windows import SCORE_DIGITS, ScoredMention, TagRun, Tokens, Window, tag_runs
from hardner.types import Sentence

# oneDNN keeps 1,024 prepared products, one for each shape, and most batches have a shape of their
# own: hundreds of megabytes that are hardly ever used again. It reads this when it first computes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "16")  # those that each thread keeps beside it
if hasattr(os, "register_at_fork"):  # no such thing on Windows
    # OpenMP's threads do not outlive a fork, and who waits for them waits for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

_PADDED_WIDTH: dict[str, Callable[[int], int]] = {"cpu": even_width, "cuda": bucket}
"""The padded width of a sentence, in words or subwords.

A GPU computes thousands of sentences in hardly more time than a few, so its widths are coarser and
batches fewer.
"""
BATCH_SIZE = {"cpu": CPU_SENTENCES, "cuda": 1 << 12}
"""Default batch size, in sentences."""
_WORDS_AT_ONCE = {"cpu": CPU_CELLS, "cuda": 1 << 17}
"""Words or subwords of a batch, counting padding."""
_CRF_CELLS = 1 << 27
"""Words times heads times tags cubed, at once: the memory of a GPU's parallel CRF kernel."""
_ALONE = Lock()
"""Held while a Hugging Face network computes: parameters are set on the module for the call."""


class EncodedTexts(NamedTuple):
    """Tokens of sentences, encoded to be tagged by any number of models with one encoder."""

    texts: Sequence[Tokens]
    filled: list[int]
    """The sentences that have tokens."""
    store: Store | None
    """Of these; None if there are none."""


class EncodedSentences(NamedTuple):
    """Sentences as windows, encoded; see `Predictor.encode`."""

    windows: list[list[Window]]
    texts: EncodedTexts


class _Group(NamedTuple):
    """A batch of sentences."""

    rows: Ints
    """Their places, [B]."""
    emissions: Emissions
    """Of the D heads, in float64 and divided by their temperatures."""


@dataclass(frozen=True, eq=False)
class Engine:
    """A tagger with its parameters on a device; safe to use from several threads."""

    tagger: Tagger
    params: Params
    temperatures: tuple[float, ...]
    device: str = "cpu"
    _alone: AbstractContextManager[object] = field(init=False, repr=False)
    _network: Params = field(init=False, repr=False)
    """The encoder's parameters, in half precision where that is faster."""
    _decoders: Params = field(init=False, repr=False)
    """In float64: sums in another order still agree to `SCORE_DIGITS`."""

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
        self, encoded: EncodedTexts, heads: Sequence[int], size: int
    ) -> list[list[ScoredMention]]:
        """The mentions in each sentence, in tokens, by head and place.

        Args:
            encoded: The sentences.
            heads: Which of the tagger's decoders to ask.
            size: Sentences computed at once, at most.
        """
        found: list[list[ScoredMention]] = [[] for _ in encoded.texts]
        tag_sets = [self.tagger.tag_sets[head] for head in heads]
        for rows, emissions in self.groups(encoded, heads, size):
            tags = viterbi(emissions.scores, emissions.lengths, *emissions.chain)[0]  # [D, B, T]
            runs = tag_runs(tags.cpu().numpy(), tag_sets)
            for run, score in zip(runs, _scores(runs, emissions, tag_sets), strict=True):
                mark = ScoredMention(*run.span, round(score, SCORE_DIGITS), heads[run.head])
                found[rows[run.row]].append(mark)
        return found

    @torch.inference_mode()
    def uncertainties(
        self, encoded: EncodedTexts, heads: Sequence[int], size: int
    ) -> list[list[Uncertainty]]:
        """What each of these heads is unsure of in each sentence; nothing of an empty one."""
        found: list[list[Uncertainty]] = [[] for _ in encoded.texts]
        tag_sets = [self.tagger.tag_sets[head] for head in heads]
        for rows, emissions in self.groups(encoded, heads, size):
            for every in head_uncertainties(emissions, tag_sets):
                for row, one in zip(rows, every, strict=True):
                    found[row].append(one)
        return found

    def encode(self, texts: Sequence[Tokens]) -> EncodedTexts:
        """The tokens of each sentence as the network reads them."""
        filled = [row for row, words in enumerate(texts) if words]
        sentences = [Sentence(tuple(texts[row])) for row in filled]
        store = self.tagger.store(sentences, None, self.device) if filled else None
        return EncodedTexts(texts, filled, store)

    def groups(self, encoded: EncodedTexts, heads: Sequence[int], size: int) -> Iterator[_Group]:
        """The scores of all sentences that have tokens, those of like length together."""
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
            emissions = self.tagger.emissions(self._decoders, exact, batch, asked)
            return _Group(np.array(encoded.filled)[rows], self._tempered(emissions, heads))

        every = _groups(store, size, self._max_cells(len(heads)))
        if not isinstance(self.tagger.encoder, OnnxEncoder):
            yield from map(group, every)
            return
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            yield from pool.map(group, every)

    def _max_cells(self, heads: int) -> int:
        """Words or subwords of a group, counting padding."""
        kind = torch.device(self.device).type
        cells = heads * (self.tagger.tags + 1) ** 3
        most = _WORDS_AT_ONCE[kind]
        return most if kind == "cpu" else min(most, _CRF_CELLS // cells)

    def _tempered(self, emissions: Emissions, heads: Sequence[int]) -> Emissions:
        own = [self.temperatures[head] for head in heads]
        t = torch.tensor(own, dtype=torch.float64, device=self.device).view(-1, 1, 1)  # [D, 1, 1]
        transitions, start, end = emissions.chain
        chain = TransitionScores(transitions / t, start / t[:, 0], end / t[:, 0])
        return Emissions(emissions.scores / t.unsqueeze(-1), emissions.lengths, chain)


def _half(device: str) -> torch.dtype | None:
    """The half precision in which the device multiplies faster than in single, if any."""
    # float16 is eight times as exact as bfloat16, but few CPUs are fast in it.
    if torch.device(device).type == "cuda":
        return torch.float16
    return torch.bfloat16 if cpu_has_bfloat16() else None


def _groups(store: Store, size: int, max_cells: int) -> Iterator[tuple[Ints, dict[str, int]]]:
    """Sentences of one padded width, the longest first, and the widths of their streams."""
    widths = {name: stream.widths[:-1] for name, stream in store.streams.items()}
    widths["words"] = store.tags.widths[:-1]
    return groups_of_streams(widths, max_cells, size, _PADDED_WIDTH[store.device.type])


def _scores(
    runs: Sequence[TagRun], emissions: Emissions, tag_sets: Sequence[TagSet]
) -> list[float]:
    """The probability of each span."""
    scores = [0.0] * len(runs)
    for scheme in {tag_sets[run.head].scheme for run in runs}:
        own = [i for i, run in enumerate(runs) if tag_sets[run.head].scheme == scheme]
        richest = max((t for t in tag_sets if t.scheme == scheme), key=lambda t: len(t.tags))
        found = _scores_of_scheme([runs[i] for i in own], emissions, richest)
        for i, score in zip(own, found, strict=True):
            scores[i] = score
    return scores


def _scores_of_scheme(runs: Sequence[TagRun], emissions: Emissions, richest: TagSet) -> list[float]:
    scores, lengths, chain = emissions
    device, (heads, _, _, tags) = scores.device, scores.shape
    # Most sentences hold no span: only the others are gone through, numbered anew for each head.
    numbers: list[dict[int, int]] = [{} for _ in range(heads)]
    rows = [numbers[run.head].setdefault(run.row, len(numbers[run.head])) for run in runs]
    most, longest = max(map(len, numbers)), max(len(run.tags) for run in runs)
    index = torch.tensor([[*own, *[0] * (most - len(own))] for own in numbers])  # [D, R]
    head = torch.arange(heads).unsqueeze(1)
    places = Runs(
        torch.tensor([run.head for run in runs]),
        torch.tensor(rows),
        torch.tensor([run.span.start for run in runs]),
        torch.tensor([[*run.tags, *[-1] * (longest - len(run.tags))] for run in runs]),
    )
    ends = ~_continues(richest, tags).to(device)
    found: list[float] = run_marginals(
        scores[head, index],
        lengths[head, index],
        *chain,
        Runs(*(part.to(device) for part in places)),
        opens=ends,
        closes=ends,
    ).tolist()
    return found


@lru_cache(maxsize=64)
def _continues(tag_set: TagSet, width: int) -> Tensor:
    """Whether a tag (column) continues the span of the tag before it (row): [C, C].

    Tags stand in the same order in every tag set of a scheme, so the richest one serves all.
    """
    found = torch.tensor(continues(tag_set.tags))
    return pad(found, (0, width - len(found)) * 2)
