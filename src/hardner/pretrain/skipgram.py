"""Word vectors by skip-gram (Mikolov et al., 2013), by gensim (extra ``hardner[vectors]``)."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError, import_extra
from hardner.files import atomic_binary
from hardner.jobs import Meter, ProgressCallback, RunProgress
from hardner.pretrain.text import PlainText, held_out
from hardner.text import tokenize

_REMEMBERED = 300_000
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


class TrainedVectors(NamedTuple):
    """What came of a text."""

    words: int
    """Words that have a vector."""
    left_out: int
    """Lines that were left out."""


class WordLines:
    """The lines of a text as words; gensim iterates over them to count, then once an epoch."""

    def __init__(self, text: Iterable[str], on_progress: ProgressCallback = lambda _: None) -> None:
        self._text, self._on_progress = text, on_progress
        self.done = self.all = 0
        """Words that were trained on, and in all epochs; 0 while they are counted."""

    def __iter__(self) -> Iterator[list[str]]:
        recent, epoch = Meter(), Meter()
        for line in self._lines():
            for start in range(0, len(line), _LONGEST):
                part = line[start : start + _LONGEST]
                yield part
                if self.all:
                    self.done += len(part)
                    recent.add(len(part))
                    epoch.add(len(part))
                    if recent.due:
                        self._report(recent)
        if self.all:
            self._report(epoch, milestone=True)

    def _lines(self) -> Iterator[list[str]]:
        known: dict[str, list[str]] = {}
        for line in self._text:
            words: list[str] = []
            for stretch in line.split():
                if stretch not in known:
                    if len(known) == _REMEMBERED:
                        known.clear()
                    known[stretch] = [stretch[start:end] for start, end in tokenize(stretch)]
                words += known[stretch]
            yield words

    def _report(self, meter: Meter, milestone: bool = False) -> None:
        speed = meter.read()[1]
        self._on_progress(RunProgress("", self.done, self.all, speed=speed, milestone=milestone))


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
        words, table = train_skipgram(WordLines(text, on_progress), how)
        write_word2vec(file, words, table)
    return TrainedVectors(len(words), text.left_out)


def train_skipgram(lines: WordLines, how: SkipGram) -> tuple[list[str], _Floats]:
    """The words that are frequent enough, most frequent first, and a vector for each: [V, D]."""
    models = import_extra("gensim.models", "vectors")
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns where a text is short
    model = models.Word2Vec(
        sg=1,
        vector_size=how.dimension,
        window=how.window,
        negative=how.negatives,
        sample=how.frequent,
        alpha=how.rate,
        min_count=how.least,
        workers=how.threads,
        seed=how.seed,
    )
    model.build_vocab(lines)
    if not len(model.wv):
        raise HardnerError(f"no word occurs {how.least} times; give more text or a lower limit")
    lines.all = how.epochs * model.corpus_total_words
    model.train(lines, total_examples=model.corpus_count, epochs=how.epochs)
    return model.wv.index_to_key, model.wv.vectors


def write_word2vec(file: BinaryIO, words: Sequence[str], table: _Floats) -> None:
    """Write the vectors in word2vec's binary layout."""
    if not np.isfinite(table).all():
        raise HardnerError("a vector is not finite; lower the rate")
    file.write(f"{len(words)} {table.shape[1]}\n".encode())
    for word, row in zip(words, table.astype("<f4"), strict=True):
        file.write(word.encode() + b" " + row.tobytes() + b"\n")
