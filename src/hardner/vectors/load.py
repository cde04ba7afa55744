"""Finds out a file's layout, reads the vectors of a vocabulary from it and caches them."""

import codecs
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardner import checkpoint
from hardner.errors import FileError
from hardner.files import open_binary
from hardner.vectors.fasttext import SIGNATURE, read_fasttext
from hardner.vectors.scanner import Scanner, ScanProgress
from hardner.vectors.text import dimension_of, read_text_vectors
from hardner.vectors.wanted import MISSING, SOURCES, Wanted, _Ranks, settle, want
from hardner.vectors.word2vec import read_word2vec

LARGEST_DIMENSION = 1 << 16
SAMPLE = 1 << 20
CACHE_VERSION = 1
HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*")
CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of those words of a vocabulary that a file knows, in the words' sorted order."""

    words: tuple[str, ...]
    matrix: Tensor
    """float32 [words, dimension]."""
    found: Mapping[str, int]
    """How many words came from each source: exact, lower, capitalised, upper, subwords."""
    missing: tuple[str, ...]
    """The other words; it is the caller who gives them a start."""

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]


def load_vectors(
    path: str | Path,
    vocabulary: Collection[str],
    *,
    cache: str | Path | None = None,
    progress: ScanProgress | None = None,
) -> Vectors:
    """Reads word2vec (.bin, .txt), GloVe (.txt) or fastText (.vec, .bin) files, also compressed.

    The layout is told by the content. The file is streamed once, and memory grows with the
    vocabulary alone. A word takes the first vector found of: the word as written, lower-cased,
    capitalised, upper-cased, composed of its character n-grams (fastText's .bin).

    Args:
        path: The file, plain or compressed with gzip or xz.
        vocabulary: The words to look for.
        cache: A folder that keeps what was read, by the file's name, size and time of change and
            by the vocabulary, so that the next load is instant.
        progress: Called now and then with the bytes read and, for a plain file, its size.
    """
    path, words = Path(path), tuple(sorted(set(vocabulary)))
    if not path.is_file():
        raise FileError(path, "no such file")
    kept = Path(cache) / _key(path, words) if cache is not None else None
    if kept is not None and kept.exists():
        return _restore(kept)
    with _opened(path) as (stream, size):
        scanner = Scanner(stream, path, size, progress)
        matrix, ranks = _read(scanner, want(words))
        if progress:
            progress(size or scanner.position, size)
    vectors = _gather(words, matrix, ranks)
    if kept is not None:
        _keep(kept, vectors)
    return vectors


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int | None]]:
    """The bytes of a file, decompressed; those of a plain file can be skipped and counted."""
    with open_binary(path) as stream, path.open("rb") as raw:
        plain = raw.peek(8)[:8] == stream.peek(8)[:8]
        yield (raw, path.stat().st_size) if plain else (stream, None)


def _read(scanner: Scanner, wanted: Wanted) -> tuple[NDArray[np.float32], _Ranks]:
    sample = scanner.peek(SAMPLE)
    if not sample.strip():
        raise FileError(scanner.path, "is empty")
    if sample.startswith(SIGNATURE):
        return read_fasttext(scanner, wanted)
    first, _, rest = sample.partition(b"\n")
    header = HEADER.fullmatch(first)
    binary = _is_binary(rest if header else sample)
    if header:
        count, dimension = int(header[1]), int(header[2])
        scanner.skip(len(first) + 1)
    else:
        count, dimension = None, 0 if binary else dimension_of(first)
    if count == 0 or not 0 < dimension <= LARGEST_DIMENSION:
        message = "not word vectors in a layout of word2vec, GloVe or fastText"
        raise FileError(scanner.path, message, 1)
    matrix = np.zeros((len(wanted.words), dimension), np.float32)
    if binary and count is not None:
        rows = read_word2vec(scanner, wanted.forms, count, dimension)
    else:
        rows = read_text_vectors(scanner, wanted.forms, count, dimension)
    return matrix, settle(wanted, rows, matrix)


def _is_binary(sample: bytes) -> bool:
    """Whether the first row does not end in a number and its bytes are not text."""
    first, _, _ = sample.partition(b"\n")
    if dimension_of(first):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return True
    return CONTROLS.search(sample) is not None


def _gather(words: tuple[str, ...], matrix: NDArray[np.float32], ranks: _Ranks) -> Vectors:
    known = ranks < MISSING
    counts = Counter(SOURCES[rank] for rank in ranks[known])
    return Vectors(
        words=tuple(word for word, has in zip(words, known, strict=True) if has),
        matrix=torch.from_numpy(matrix[known]),
        found={source: counts[source] for source in SOURCES},
        missing=tuple(word for word, has in zip(words, known, strict=True) if not has),
    )


def _key(path: Path, words: tuple[str, ...]) -> str:
    status = path.stat()
    identity = [CACHE_VERSION, path.name, status.st_size, status.st_mtime_ns, words]
    return f"{path.name}-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}"


def _keep(folder: Path, vectors: Vectors) -> None:
    words = {"words": vectors.words, "found": vectors.found, "missing": vectors.missing}
    checkpoint.save_checkpoint(folder, {"matrix": vectors.matrix}, words)


def _restore(folder: Path) -> Vectors:
    kept = checkpoint.load_checkpoint(folder)
    words, missing = tuple(kept.config["words"]), tuple(kept.config["missing"])
    return Vectors(words, kept.tensors["matrix"], kept.config["found"], missing)
