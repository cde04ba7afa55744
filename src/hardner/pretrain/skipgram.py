"""Word vectors by skip-gram (Mikolov et al., 2013), by gensim (extra ``hardner[vectors]``)."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError
from hardner.files import atomic_binary
from hardner.pretrain.progress import Meter, PretrainingCallback, PretrainingProgress
from hardner.pretrain.text import PlainText, held_out
from hardner.pretrain.words import END, NumberedWords, read_words

_LONGEST = 10_000
"""Words that gensim takes in at once; the rest of a line it would leave out."""
_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SkipGram:
    """How the vectors are learnt."""

    dimension: int = 200
    window: int = 5
    """The farthest word that counts; each centre draws its own reach, up to this."""
    negatives: int = 5
    """Words drawn for each pair, to tell it from."""
    frequent: float = 1e-4
    """Words with a larger share of the text are left out now and then."""
    least: int = 5
    """Words seen less often have no vector."""
    epochs: int = 3
    rate: float = 0.025
    """Falls linearly to nothing."""
    threads: int = 1
    """More than one are faster, and never give the same vectors twice."""
    seed: int = 0


class TrainedVectors(NamedTuple):
    """What came of a text."""

    words: int
    """How many have a vector."""
    left_out: int
    """Lines of the text that were not to enter."""


def train_vectors(
    texts: Sequence[str | Path],
    out: str | Path,
    how: SkipGram,
    *,
    without: str | Path | None = None,
    on_progress: PretrainingCallback = lambda _: None,
) -> TrainedVectors:
    """Learn word vectors from text files and write them in the binary layout of word2vec.

    Args:
        texts: Files with a sentence a line, plain, .gz or .xz.
        out: The file; it takes its place when all is done.
        how: What to do.
        without: A folder of known corpora, whose devel and test sentences never enter.
        heard: Told how it goes.
    """
    with atomic_binary(out) as file:  # before all that takes long
        on_progress(PretrainingProgress("reading the text"))
        text = PlainText(map(Path, texts), held_out(Path(without)) if without else frozenset())
        found = read_words(text, how.least)
        write_word2vec(file, found.words, train_skipgram(found, how, on_progress))
    return TrainedVectors(len(found.words), text.left_out)


def train_skipgram(
    text: NumberedWords, how: SkipGram, on_progress: PretrainingCallback = lambda _: None
) -> _Floats:
    """A vector for each word, [V, D]."""
    try:
        models: Any = import_module("gensim.models")
    except ImportError:
        raise HardnerError("word vectors need gensim: pip install hardner[vectors]") from None
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns where a text is short
    learnt = models.Word2Vec(
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
    learnt.build_vocab_from_freq(dict(zip(text.words, text.counts.tolist(), strict=True)))
    lines = Lines(text, how.epochs, on_progress)
    learnt.train(lines, total_words=lines.total, epochs=how.epochs)
    rows: _Floats = learnt.wv[text.words]
    return rows


class Lines:
    """The lines of a text as words, as often as gensim asks for them; the listener is told."""

    def __init__(self, text: NumberedWords, epochs: int, on_progress: PretrainingCallback) -> None:
        self._words = np.array(text.words, dtype=object)
        self._ids, self._ends = text.ids, np.flatnonzero(text.ids == END)
        self._heard, self._epochs = on_progress, epochs
        self._epoch = 0
        self.total = int(text.counts.sum())

    def __iter__(self) -> Iterator[list[str]]:
        steps, done = self._epochs * self.total, self._epoch * self.total
        told, whole = Meter(), Meter()
        for start, end in zip(self._ends[:-1], self._ends[1:], strict=True):
            for at in range(start + 1, end, _LONGEST):
                line = self._words[self._ids[at : min(end, at + _LONGEST)]].tolist()
                yield line
                done += len(line)
                told.add(len(line))
                whole.add(len(line))
                if told.due:
                    self._heard(PretrainingProgress("", done, steps, speed=told.read()[1]))
        self._epoch += 1
        self._heard(PretrainingProgress("", done, steps, speed=whole.read()[1], milestone=True))


def write_word2vec(file: BinaryIO, words: Sequence[str], table: _Floats) -> None:
    """In the binary layout of word2vec."""
    if not np.isfinite(table).all():
        raise HardnerError("a vector has become no number; lower the rate")
    file.write(f"{len(words)} {table.shape[1]}\n".encode())
    for word, row in zip(words, table.astype("<f4"), strict=True):
        file.write(word.encode() + b" " + row.tobytes() + b"\n")
