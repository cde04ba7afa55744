"""Reads the vectors of a vocabulary from a file of any common layout, and caches them."""

import codecs
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from hardner import checkpoint
from hardner.errors import FileError
from hardner.files import open_binary
from hardner.vectors.fasttext import FASTTEXT_SIGNATURE, read_fasttext
from hardner.vectors.scanner import (
    MISSING,
    VECTOR_SOURCES,
    Lookup,
    ReadProgress,
    Scanner,
    SourceRanks,
)
from hardner.vectors.word2vec import dimension_of, read_binary_vectors, read_text_vectors

_LARGEST_DIMENSION = 1 << 16
_SAMPLE = 1 << 20
"""Bytes from which the layout is told."""
_CACHE_VERSION = 1
_HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of those words of a vocabulary that a file knows, in the words' sorted order."""

    words: tuple[str, ...]
    matrix: Tensor
    """float32 [words, dimension]."""
    found: Mapping[str, int]
    """How many words came from each source: exact, lower, capitalised, upper, subwords."""
    missing: tuple[str, ...]
    """The other words; the caller gives them a start."""

    @property
    def dimension(self) -> int:
        return self.matrix.shape[1]


def load_vectors(
    path: str | Path,
    vocabulary: Collection[str],
    *,
    cache: str | Path | None = None,
    progress: ReadProgress | None = None,
) -> Vectors:
    """Reads word2vec (.bin, .txt), GloVe (.txt) or fastText (.vec, .bin) files, also compressed.

    The layout is told by the content. The file is streamed once, and memory grows with the
    vocabulary alone. A word takes the first vector found of: the word as written, lower-cased,
    capitalised, upper-cased, composed of its character n-grams (fastText's .bin).

    A folder given as ``cache`` keeps what was read, by the file's name, size and time of change and
    by the vocabulary, so that the next load is instant. ``progress`` is called now and then with
    the bytes read and, for a plain file, its size.
    """
    path, words = Path(path), tuple(sorted(set(vocabulary)))
    if not path.is_file():
        raise FileError(path, "no such file")
    kept = Path(cache) / _cache_name(path, words) if cache is not None else None
    if kept is not None and kept.exists():
        saved = checkpoint.load_checkpoint(kept)
        known, missing = (tuple(saved.config[name]) for name in ("words", "missing"))
        return Vectors(known, saved.tensors["matrix"], saved.config["found"], missing)
    vectors = _scan(path, words, progress)
    if kept is not None:
        about = {"words": vectors.words, "found": vectors.found, "missing": vectors.missing}
        checkpoint.save_checkpoint(kept, {"matrix": vectors.matrix}, about)
    return vectors


def _cache_name(path: Path, words: tuple[str, ...]) -> str:
    status = path.stat()
    identity = [_CACHE_VERSION, path.name, status.st_size, status.st_mtime_ns, words]
    return f"{path.name}-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]}"


def _scan(path: Path, words: tuple[str, ...], progress: ReadProgress | None) -> Vectors:
    with open_binary(path) as stream, path.open("rb") as raw:
        # Only a plain file has a known size, and rows that can be skipped without reading them.
        plain = raw.peek(8)[:8] == stream.peek(8)[:8]
        size = path.stat().st_size if plain else None
        scanner = Scanner(raw if plain else stream, path, size, progress)
        matrix, ranks = _read(scanner, Lookup(words))
        if progress:
            progress(size or scanner.position, size)
    known = ranks < MISSING
    counts = Counter(VECTOR_SOURCES[rank] for rank in ranks[known])
    return Vectors(
        words=tuple(word for word, has in zip(words, known, strict=True) if has),
        matrix=torch.from_numpy(matrix[known]),
        found={source: counts[source] for source in VECTOR_SOURCES},
        missing=tuple(word for word, has in zip(words, known, strict=True) if not has),
    )


def _read(scanner: Scanner, lookup: Lookup) -> tuple[NDArray[np.float32], SourceRanks]:
    """A row for each word of the vocabulary, and where it came from."""
    sample = scanner.peek(_SAMPLE)
    if not sample.strip():
        raise scanner.error("is empty")
    if sample.startswith(FASTTEXT_SIGNATURE):
        return read_fasttext(scanner, lookup)
    first, _, rest = sample.partition(b"\n")
    header = _HEADER.fullmatch(first)
    binary = _is_binary(rest if header else sample)
    if header:
        count, dimension = int(header[1]), int(header[2])
        scanner.skip(len(first) + 1)
    else:
        count, dimension = None, 0 if binary else dimension_of(first)
    if count == 0 or not 0 < dimension <= _LARGEST_DIMENSION:
        raise scanner.error("not word vectors in a layout of word2vec, GloVe or fastText", 1)
    matrix = np.zeros((len(lookup.words), dimension), np.float32)
    if binary and count is not None:
        rows = read_binary_vectors(scanner, lookup.forms, count, dimension)
    else:
        rows = read_text_vectors(scanner, lookup.forms, count, dimension)
    return matrix, lookup.keep_best(rows, matrix)


def _is_binary(sample: bytes) -> bool:
    """Whether the first row does not end in a number and its bytes are not text."""
    first, _, _ = sample.partition(b"\n")
    if dimension_of(first):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return True
    return _CONTROLS.search(sample) is not None


def character_vectors(vectors: Vectors, alphabet: Sequence[str]) -> Tensor:
    """Each character the mean of the vectors of the words that hold it; zeros where none does.

    A word counts once for each occurrence of the character in it, as in Woolf's char-embeddings
    (2018), which MetaBioNER uses.
    """
    holders: dict[str, list[int]] = {character: [] for character in alphabet}
    for row, word in enumerate(vectors.words):
        for character in word:
            if character in holders:
                holders[character].append(row)
    rows = torch.tensor([row for character in alphabet for row in holders[character]])
    counts = torch.tensor([0, *(len(holders[character]) for character in alphabet)])
    starts = counts.cumsum(0)[:-1]  # [alphabet]
    return embedding_bag(rows.long(), vectors.matrix, starts, mode="mean")  # [alphabet, dimension]
