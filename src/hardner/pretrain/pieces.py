"""Text as the numbers of its pieces: encoded once, kept in a file, mapped into memory."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hardner.errors import FileError
from hardner.files import atomic_binary, atomic_write
from hardner.pretrain.text import PlainText, short_hash
from hardner.pretrain.tokenizer import SPECIAL

PIECES, ABOUT = "pieces.npy", "pieces.json"
DTYPE = np.dtype("<u2")
_CHUNK = 20_000
"""Lines encoded together."""
_REMEMBERED = 1_000_000
"""Words whose pieces are kept at hand."""


class EncodedText(NamedTuple):
    """A text as pieces, end to end."""

    pieces: NDArray[np.uint16]
    """Mapped from the disk: only what is looked at takes memory."""
    lines: int
    left_out: int
    """Lines that were not to enter."""


def pieces_of(
    text: PlainText, identity: Mapping[str, str], tokenizer: Tokenizer, folder: Path
) -> EncodedText:
    """The pieces of a text, from the folder where they were kept, else kept there for next time.

    Args:
        identity: That of the text.
    """
    about = folder / ABOUT
    key = {**identity, "tokenizer": short_hash(tokenizer.to_str().encode())}
    known = json.loads(about.read_bytes()) if about.is_file() else {}
    if not known.items() >= key.items():
        _write(folder / PIECES, encode_text(tokenizer, text))
        known = {**key, "lines": text.lines, "left_out": text.left_out}
        with atomic_write(about) as file:
            file.write(json.dumps(known) + "\n")
    try:
        pieces = np.load(folder / PIECES, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileError(folder / PIECES, f"damaged: {error}; delete {about}") from None
    return EncodedText(pieces, known["lines"], known["left_out"])


def encode_text(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[bytes]:
    """All pieces of a text, a ``[SEP]`` after each line, as runs of `DTYPE`.

    What stands between two spaces is given to the tokenizer once: most of a text has come before.
    """
    end = np.array(SPECIAL.index("[SEP]"), DTYPE).tobytes()
    known: dict[str, bytes] = {}
    texts = iter(texts)
    while chunk := [line.split() for line in islice(texts, _CHUNK)]:
        if len(known) > _REMEMBERED:
            known.clear()
        new = list({word for words in chunk for word in words} - known.keys())
        for word, found in zip(
            new, tokenizer.encode_batch_fast(new, add_special_tokens=False), strict=True
        ):
            known[word] = np.array(found.ids, DTYPE).tobytes()
        yield b"".join(run for words in chunk for run in (*map(known.__getitem__, words), end))


def _write(path: Path, runs: Iterable[bytes]) -> None:
    """An array file of a length that shows at the end."""

    def header(length: int) -> None:
        about = {"descr": DTYPE.str, "fortran_order": False, "shape": (length,)}
        write_array_header_1_0(file, about)  # as long for every length

    with atomic_binary(path) as file:
        header(0)
        size = sum(file.write(run) for run in runs)
        file.seek(0)
        header(size // DTYPE.itemsize)
