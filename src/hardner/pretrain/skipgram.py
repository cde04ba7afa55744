"""Word vectors by skip-gram (Mikolov et al., 2013), by gensim (extra ``hardner[vectors]``)."""

import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError, import_extra
from hardner.files import atomic_binary
from hardner.jobs.progress import Meter, ProgressCallback, RunProgress
from hardner.pretrain.text import PlainText, held_out
from hardner.text import tokenize

END_OF_LINE, RARE_WORD = -1, -2
"""Ids around each line, so that no window reaches across, and of words that are left out."""
_BLOCK = 1 << 20
"""Words renumbered together, so that no second array as long as the text is made."""
_REMEMBERED = 1_000_000
"""Stretches between spaces whose words are kept at hand."""
_LONGEST = 10_000
"""Words that gensim takes in at once; it would leave out the rest of a line."""
_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SkipGram:
    """How the vectors are trained."""

    dimension: int = 200
    window: int = 5
    """Context words to either side; each centre word draws its own window, up to this."""
    negatives: int = 5
    """Negative samples for each pair."""
    frequent: float = 1e-4
    """Words with a larger share of the text are subsampled."""
    least: int = 5
    """Rarer words have no vector."""
    epochs: int = 3
    rate: float = 0.025
    """Learning rate; falls linearly to zero."""
    threads: int = 1
    """More are faster, but never give the same vectors twice."""
    seed: int = 0


class NumberedWords(NamedTuple):
    """A text as word ids."""

    words: tuple[str, ...]
    """By falling frequency; the id is the place."""
    counts: NDArray[np.int64]
    ids: NDArray[np.int32]
    """Line after line, with an `END_OF_LINE` before the first and after each."""


class TrainedVectors(NamedTuple):
    """What came of a text."""

    words: int
    """Words that have a vector."""
    left_out: int
    """Lines that were left out."""


def train_vectors(
    texts: Sequence[str | Path],
    out: str | Path,
    how: SkipGram,
    *,
    without: str | Path | None = None,
    on_progress: ProgressCallback = lambda _: None,
) -> TrainedVectors:
    """Train word vectors on files with a sentence a line; write them in word2vec's binary layout.

    Devel and test sentences of the known corpora in the folder ``without`` are left out.
    """
    with atomic_binary(out) as file:  # a place that cannot be written is found before the work
        on_progress(RunProgress("reading the text"))
        text = PlainText(map(Path, texts), held_out(without))
        found = read_words(text, how.least)
        write_word2vec(file, found.words, train_skipgram(found, how, on_progress))
    return TrainedVectors(len(found.words), text.left_out)


def read_words(lines: Iterable[str], least: int) -> NumberedWords:
    """Count and number the words of a text; those seen fewer than ``least`` times are left out."""
    numbers: dict[str, int] = {}
    ids = _numbered(lines, numbers)
    blocks = np.array_split(ids, len(ids) // _BLOCK + 1)
    counts = np.zeros(len(numbers), np.int64)
    for block in blocks:  # + 1, as bincount takes no negative id
        counts += np.bincount(block + 1, minlength=len(numbers) + 1)[1:]
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= least]
    if not len(kept):
        raise HardnerError(f"no word occurs {least} times; give more text or a lower limit")
    place = np.full(len(numbers) + 1, RARE_WORD, np.int32)
    place[kept + 1], place[END_OF_LINE + 1] = np.arange(len(kept)), END_OF_LINE
    for block in blocks:
        block[:] = place[block + 1]
    words = list(numbers)
    return NumberedWords(tuple(words[i] for i in kept), counts[kept], ids[ids != RARE_WORD])


def _numbered(lines: Iterable[str], numbers: dict[str, int]) -> NDArray[np.int32]:
    """Every word's number; new words get the next."""
    known: dict[str, tuple[int, ...]] = {}
    ids = array("i", [END_OF_LINE])
    for line in lines:
        for stretch in line.split():
            found = known.get(stretch)
            if found is None:
                if len(known) == _REMEMBERED:
                    known.clear()
                words = (stretch[start:end] for start, end in tokenize(stretch))
                found = tuple(numbers.setdefault(word, len(numbers)) for word in words)
                known[stretch] = found
            ids.extend(found)
        ids.append(END_OF_LINE)
    return np.frombuffer(ids, np.int32)


def train_skipgram(
    text: NumberedWords, how: SkipGram, on_progress: ProgressCallback = lambda _: None
) -> _Floats:
    """A vector for each word, [V, D]."""
    models = import_extra("gensim.models", "vectors")
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns where a text is short
    model = models.Word2Vec(
        sg=1,
        vector_size=how.dimension,
        window=how.window,
        negative=how.negatives,
        sample=how.frequent,
        alpha=how.rate,
        min_count=1,
        workers=how.threads,
        seed=how.seed,
    )
    model.build_vocab_from_freq(dict(zip(text.words, text.counts.tolist(), strict=True)))
    lines = EpochLines(text, how.epochs, on_progress)
    model.train(lines, total_words=lines.total, epochs=how.epochs)
    rows: _Floats = model.wv[text.words]
    return rows


class EpochLines:
    """The lines of a text as words; gensim iterates over them once an epoch."""

    def __init__(self, text: NumberedWords, epochs: int, on_progress: ProgressCallback) -> None:
        self._words = np.array(text.words, dtype=object)
        self._ids, self._ends = text.ids, np.flatnonzero(text.ids == END_OF_LINE)
        self._on_progress, self._done = on_progress, 0
        self.total = int(text.counts.sum())
        """Words of an epoch."""
        self._all = epochs * self.total

    def __iter__(self) -> Iterator[list[str]]:
        recent, epoch = Meter(), Meter()
        for start, end in pairwise(self._ends):
            for at in range(start + 1, end, _LONGEST):
                line = self._words[self._ids[at : min(end, at + _LONGEST)]].tolist()
                yield line
                self._done += len(line)
                recent.add(len(line))
                epoch.add(len(line))
                if recent.due:
                    self._report(recent)
        self._report(epoch, milestone=True)

    def _report(self, meter: Meter, milestone: bool = False) -> None:
        speed = meter.read()[1]
        told = RunProgress("", self._done, self._all, speed=speed, milestone=milestone)
        self._on_progress(told)


def write_word2vec(file: BinaryIO, words: Sequence[str], table: _Floats) -> None:
    """In word2vec's binary layout."""
    if not np.isfinite(table).all():
        raise HardnerError("a vector is not finite; lower the rate")
    file.write(f"{len(words)} {table.shape[1]}\n".encode())
    for word, row in zip(words, table.astype("<f4"), strict=True):
        file.write(word.encode() + b" " + row.tobytes() + b"\n")
