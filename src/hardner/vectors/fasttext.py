"""fastText's binary layout, with the character n-grams that give unknown words a vector.

A file holds a signature, the training arguments, the dictionary, and one input matrix: a row for
each word, then a row for each bucket of hashed n-grams. A word's vector is the mean of its own
row and those of its n-grams. A classifier's buckets also hold n-grams of words, which say nothing
about a single word and are not used here.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hardner.errors import FileError
from hardner.vectors.scanner import SUBWORDS, Lookup, Scanner, SourceRanks, case_forms
from hardner.vectors.word2vec import FLOAT, take_row

FASTTEXT_SIGNATURE = struct.pack("<i", 793712314)
_NEWEST = 12
_ARGUMENTS, _SIZES = struct.Struct("<12id"), struct.Struct("<3i2q")
_ENTRY, _SHAPE = struct.Struct("<qb"), struct.Struct("<qq")
_CLASSIFIER, _WORD = 3, 0
"""Kinds of a model and of a dictionary's entry."""
_END_OF_SENTENCE = b"</s>"
_BLOCK = 4096
"""Matrix rows held at a time."""


class FastTextHeader(NamedTuple):
    """What the rest of the file is read by."""

    dimension: int
    bucket: int
    shortest: int
    longest: int
    entries: int
    words: int


def read_fasttext(scanner: Scanner, lookup: Lookup) -> tuple[NDArray[np.float32], SourceRanks]:
    """A row for each word of the vocabulary, zeros where it is missing, and the rows' sources."""
    header = _read_header(scanner)
    ids = np.zeros(len(lookup.words), np.int64)
    ranks = lookup.keep_best(_dictionary(scanner, header), ids)
    base = _matrix_start(scanner, header)

    rows, owners = array("q"), array("q")
    for index, word in enumerate(lookup.words):
        known = ranks[index] < SUBWORDS
        form = case_forms(word)[ranks[index] if known else 0]
        used = [int(ids[index])] if known else []
        if form != _END_OF_SENTENCE:
            used += [header.words + bucket for bucket in ngram_buckets(form, header)]
        if used and not known:
            ranks[index] = SUBWORDS
        rows.extend(used)
        owners.extend([index] * len(used))
    sums = _sums(scanner, header.dimension, base, np.array(rows), np.array(owners), len(ranks))
    counts = torch.from_numpy(np.bincount(owners, minlength=len(ranks)))  # [words]
    return (sums / counts.clamp(min=1)[:, None]).numpy(), ranks


def ngram_buckets(word: bytes, header: FastTextHeader) -> list[int]:
    """The buckets of the character n-grams of ``<word>``, single brackets left out.

    The hash is fastText's FNV-1a on 32 bits, which extends the sign of each byte.
    """
    if not header.bucket:
        return []
    text = f"<{word.decode('utf-8', 'surrogatepass')}>"
    characters = [character.encode("utf-8", "surrogatepass") for character in text]
    buckets = []
    for start in range(len(characters)):
        code = 2166136261
        for end in range(start + 1, min(start + header.longest, len(characters)) + 1):
            for byte in characters[end - 1]:
                signed = byte | 0xFFFFFF00 if byte & 0x80 else byte
                code = ((code ^ signed) * 16777619) & 0xFFFFFFFF
            bracket = end - start == 1 and (start == 0 or end == len(characters))
            if end - start >= header.shortest and not bracket:
                buckets.append(code % header.bucket)
    return buckets


def _read_header(scanner: Scanner) -> FastTextHeader:
    scanner.skip(len(FASTTEXT_SIGNATURE))
    (version,) = struct.unpack("<i", scanner.take(4))
    if version > _NEWEST:
        raise scanner.error(f"fastText version {version} is newer than {_NEWEST}")
    dimension, *_, model, bucket, shortest, longest, _, _ = _ARGUMENTS.unpack(
        scanner.take(_ARGUMENTS.size)
    )
    if version < _NEWEST and model == _CLASSIFIER:
        longest = 0  # it had no character n-grams, whatever its arguments say
    entries, words, labels, _, pruned = _SIZES.unpack(scanner.take(_SIZES.size))
    if pruned >= 0:
        raise _quantised(scanner)
    if min(dimension, words) <= 0 or min(bucket, labels) < 0 or entries != words + labels:
        raise scanner.error(f"damaged fastText header before byte {scanner.position}")
    return FastTextHeader(dimension, bucket, shortest, longest, entries, words)


def _dictionary(scanner: Scanner, header: FastTextHeader) -> Iterator[tuple[bytes, int]]:
    """Words and their row numbers; a classifier's labels follow its words and have no row."""
    for number in range(header.entries):
        word = scanner.until(b"\0")
        _, kind = _ENTRY.unpack(scanner.take(_ENTRY.size))
        if (kind == _WORD) != (number < header.words):
            raise scanner.error(f"damaged fastText dictionary before byte {scanner.position}")
        if kind == _WORD:
            yield word, number


def _matrix_start(scanner: Scanner, header: FastTextHeader) -> int:
    """The byte at which the first row starts."""
    if scanner.take(1) != b"\0":
        raise _quantised(scanner)
    shape = _SHAPE.unpack(scanner.take(_SHAPE.size))
    expected = (header.words + header.bucket, header.dimension)
    if shape != expected:
        where = f"the matrix before byte {scanner.position}"
        raise scanner.error(f"{where} is {shape}, expected {expected}")
    scanner.check_size(scanner.position + shape[0] * shape[1] * FLOAT.itemsize)
    return scanner.position


def _sums(
    scanner: Scanner,
    dimension: int,
    base: int,
    rows: NDArray[np.int64],
    owners: NDArray[np.int64],
    words: int,
) -> torch.Tensor:
    """The sum of each word's rows; the matrix is read forward, a block of its rows at a time."""
    order = np.argsort(rows, kind="stable")
    rows, owners = rows[order], owners[order]
    distinct, which = np.unique(rows, return_inverse=True)
    sums = torch.zeros(words, dimension)
    for first in range(0, len(distinct), _BLOCK):
        block = np.empty((min(_BLOCK, len(distinct) - first), dimension), np.float32)
        for place, row in enumerate(distinct[first : first + _BLOCK].tolist()):
            scanner.seek(base + row * dimension * FLOAT.itemsize)
            block[place] = take_row(scanner, dimension)
        start, end = np.searchsorted(which, (first, first + len(block)))
        parts = torch.from_numpy(block)[which[start:end] - first]  # [pairs of block, dimension]
        sums.index_add_(0, torch.from_numpy(owners[start:end]), parts)
    return sums


def _quantised(scanner: Scanner) -> FileError:
    message = "a quantised fastText model: its vectors are lossy; use the .bin it came from"
    return scanner.error(message)
