"""Plain text as a stream of sentences, from any number of files, and as blocks of pieces."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hardner import files

CHUNK = 20_000


def lines(paths: Sequence[Path], banned: Collection[str] = frozenset()) -> Iterator[str]:
    """Every line with text in it, but for the banned (devel and test sentences), as `plain`."""
    for path in paths:
        for _, line in files.lines(path):
            text = line.strip()
            if text and (not banned or plain(text) not in banned):
                yield text


def plain(text: str) -> str:
    """A sentence without its spaces, so that tokenised and running text compare equal."""
    return "".join(text.split())


def encode(tokenizer: Tokenizer, texts: Iterator[str]) -> NDArray[np.uint16]:
    """All pieces of a text, a ``[SEP]`` after each line, end to end."""
    end = np.array([tokenizer.token_to_id("[SEP]")], np.uint16)
    parts: list[NDArray[np.uint16]] = []
    chunk: list[str] = []

    def flush() -> None:
        for encoding in tokenizer.encode_batch_fast(chunk, add_special_tokens=False):
            parts.extend((np.array(encoding.ids, np.uint16), end))
        chunk.clear()

    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            flush()
    flush()
    return np.concatenate(parts) if parts else np.zeros(0, np.uint16)
