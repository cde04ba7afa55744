"""fastText's binary layout, with the character n-grams that give unknown words a vector.

A file holds a signature, the training arguments, the dictionary, and one input matrix: a row for
each word, then a row for each bucket of hashed n-grams. A word's vector is the mean of its own
row and those of its n-grams. The same buckets hold a classifier's n-grams of words, which say
nothing about a single word and so play no part here.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hardner.errors import FileError
from hardner.vectors.scanner import Scanner
from hardner.vectors.wanted import SUBWORDS, Wanted, _Ranks, forms, settle
from hardner.vectors.word2vec import FLOAT, take_row

SIGNATURE = struct.pack("<i", 793712314)
NEWEST = 12
ARGUMENTS = struct.Struct("<12id")
SIZES = struct.Struct("<3i2q")
ENTRY = struct.Struct("<qb")
SHAPE = struct.Struct("<qq")
CLASSIFIER = 3
WORD = 0
END_OF_SENTENCE = b"</s>"
_BLOCK = 4096
"""Matrix rows held at a time."""


class Header(NamedTuple):
    """What the rest of the file is read by."""

    dimension: int
    bucket: int
    shortest: int
    longest: int
    entries: int
    words: int


def read_fasttext(scanner: Scanner, wanted: Wanted) -> tuple[NDArray[np.float32], _Ranks]:
    """A row for each wanted word and where it came from; missing ones are zero."""
    header = _header(scanner)
    ids = np.zeros(len(wanted.words), np.int64)
    ranks = settle(wanted, _dictionary(scanner, header), ids)
    base = _matrix(scanner, header)

    rows, owners = array("q"), array("q")
    for index, word in enumerate(wanted.words):
        rank = ranks[index] if ranks[index] < SUBWORDS else None
        form = forms(word)[rank or 0]
        used = [] if rank is None else [int(ids[index])]
        if form != END_OF_SENTENCE:
            used += [header.words + bucket for bucket in subwords(form, header)]
        if rank is None and used:
            ranks[index] = SUBWORDS
        rows.extend(used)
        owners.extend([index] * len(used))
    return _means(scanner, header, base, np.array(rows), np.array(owners), len(wanted.words)), ranks


def subwords(word: bytes, header: Header) -> list[int]:
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


def _header(scanner: Scanner) -> Header:
    scanner.skip(len(SIGNATURE))
    (version,) = struct.unpack("<i", scanner.take(4))
    if version > NEWEST:
        raise FileError(scanner.path, f"fastText version {version} is newer than {NEWEST}")
    dimension, _, _, _, _, _, _, model, bucket, shortest, longest, _, _ = ARGUMENTS.unpack(
        scanner.take(ARGUMENTS.size)
    )
    if version < NEWEST and model == CLASSIFIER:
        longest = 0
    entries, words, labels, _, pruned = SIZES.unpack(scanner.take(SIZES.size))
    if pruned >= 0:
        raise _quantised(scanner)
    if min(dimension, words) <= 0 or min(bucket, labels) < 0 or entries != words + labels:
        raise FileError(scanner.path, f"damaged fastText header before byte {scanner.position}")
    return Header(dimension, bucket, shortest, longest, entries, words)


def _dictionary(scanner: Scanner, header: Header) -> Iterator[tuple[bytes, int]]:
    """Words and their row numbers; a classifier's labels follow its words and have no row."""
    for number in range(header.entries):
        word = scanner.until(b"\0")
        _, kind = ENTRY.unpack(scanner.take(ENTRY.size))
        if (kind == WORD) != (number < header.words):
            message = f"damaged fastText dictionary before byte {scanner.position}"
            raise FileError(scanner.path, message)
        if kind == WORD:
            yield word, number


def _matrix(scanner: Scanner, header: Header) -> int:
    """The byte at which the first row starts."""
    if scanner.take(1) != b"\0":
        raise _quantised(scanner)
    shape = SHAPE.unpack(scanner.take(SHAPE.size))
    expected = (header.words + header.bucket, header.dimension)
    if shape != expected:
        message = f"the matrix before byte {scanner.position} is {shape}, expected {expected}"
        raise FileError(scanner.path, message)
    end = scanner.position + shape[0] * shape[1] * FLOAT.itemsize
    if scanner.size is not None and end > scanner.size:
        raise scanner.truncated(scanner.size)
    return scanner.position


def _means(
    scanner: Scanner,
    header: Header,
    base: int,
    rows: NDArray[np.int64],
    owners: NDArray[np.int64],
    words: int,
) -> NDArray[np.float32]:
    """The mean row of each word, the matrix read forward, a block of its rows at a time."""
    order = np.argsort(rows, kind="stable")
    rows, owners = rows[order], owners[order]
    distinct, which = np.unique(rows, return_inverse=True)
    totals = torch.zeros(words, header.dimension)
    for first in range(0, len(distinct), _BLOCK):
        block = np.empty((min(_BLOCK, len(distinct) - first), header.dimension), np.float32)
        for place, row in enumerate(distinct[first : first + _BLOCK].tolist()):
            scanner.seek(base + row * header.dimension * FLOAT.itemsize)
            block[place] = take_row(scanner, header.dimension)
        start, end = np.searchsorted(which, (first, first + len(block)))
        parts = torch.from_numpy(block)[which[start:end] - first]  # [pairs of block, dimension]
        totals.index_add_(0, torch.from_numpy(owners[start:end]), parts)
    counts = torch.from_numpy(np.bincount(owners, minlength=words))  # [words]
    means: NDArray[np.float32] = (totals / counts.clamp(min=1)[:, None]).numpy()
    return means


def _quantised(scanner: Scanner) -> FileError:
    return FileError(
        scanner.path, "a quantised fastText model: its vectors are lossy; use the .bin it came from"
    )
