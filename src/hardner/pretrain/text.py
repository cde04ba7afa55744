"""Plain text as lines and as subword ids, without the sentences that models are tested on."""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hardner import files
from hardner.corpora import Corpora
from hardner.errors import FileError
from hardner.formats.format import Report
from hardner.pretrain.tokenizer import SPECIAL

IDS_FILE, IDS_ABOUT = "pieces.npy", "pieces.json"
_ID = np.dtype("<u2")
_CHUNK = 20_000
"""Lines encoded together."""
_REMEMBERED = 1_000_000
"""Words whose subwords are kept at hand."""


class PlainText:
    """The non-empty lines of some files; can be gone through any number of times."""

    def __init__(self, paths: Iterable[Path], without: Collection[str] = frozenset()) -> None:
        """Args: ``without`` are sentences to leave out, as `unspaced` gives them."""
        self.paths, self.without = tuple(paths), without
        self.lines = 0
        """Lines of the last pass."""
        self.left_out = 0
        """Lines that the last pass left out."""

    def __iter__(self) -> Iterator[str]:
        self.lines = self.left_out = 0
        for path in self.paths:
            for _, line in files.lines(path):
                text = line.strip()
                if not text:
                    continue
                if self.without and unspaced(text) in self.without:
                    self.left_out += 1
                else:
                    self.lines += 1
                    yield text

    def identity(self) -> dict[str, str]:
        """What tells this text from any other: hashes of the files and of what is left out."""
        hashes = "".join(map(files.sha256, self.paths)).encode()
        held = "\n".join(sorted(self.without)).encode()
        return {"text": short_hash(hashes), "without": short_hash(held) if self.without else ""}


def unspaced(text: str) -> str:
    """A sentence without its spaces, so that tokenised and running text compare equal."""
    return "".join(text.split())


def held_out(root: str | Path | None) -> frozenset[str]:
    """Every devel and test sentence of the known corpora in a folder, as `unspaced` gives it."""
    if not root:
        return frozenset()
    corpora = Corpora.under(Path(root))
    rows = corpora.present()
    if not rows:
        raise FileError(root, "holds none of the corpora that `hardner corpora` knows")
    found = (corpora.load(row.name, Report()) for row in rows)
    return frozenset(unspaced("".join(s.tokens)) for c in found for s in (*c.devel, *c.test))


def short_hash(data: bytes) -> str:
    """The first 16 digits of a SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


class EncodedText(NamedTuple):
    """A text as subword ids, end to end."""

    ids: NDArray[np.uint16]
    """Mapped into memory, for a text may be larger than that."""
    lines: int
    left_out: int
    """Lines that were left out."""


def load_encoded(
    text: PlainText, identity: Mapping[str, str], tokenizer: Tokenizer, folder: Path
) -> EncodedText:
    """The subwords of a text with this identity, kept in the folder from the first time on."""
    path, about = folder / IDS_FILE, folder / IDS_ABOUT
    key = {**identity, "tokenizer": short_hash(tokenizer.to_str().encode())}
    known = files.read_json(about) if about.is_file() else {}
    if not known.items() >= key.items():
        _write_array(path, encode_text(tokenizer, text))
        known = {**key, "lines": text.lines, "left_out": text.left_out}
        with files.atomic_write(about) as file:
            file.write(json.dumps(known) + "\n")
    lines, left_out = known.get("lines"), known.get("left_out")
    if type(lines) is not int or type(left_out) is not int:
        raise FileError(about, "damaged; delete it, and the text is encoded anew")
    ids = _map_array(path)
    if ids is None or ids.max(initial=0) >= tokenizer.get_vocab_size():
        message = "damaged: not the subwords that were written"
        raise FileError(path, f"{message}; delete {about}, and the text is encoded anew")
    return EncodedText(ids, lines, left_out)


def encoded_identity(folder: Path) -> dict[str, str]:
    """The identity of the text that a run's folder has encoded."""
    about = folder / IDS_ABOUT
    if not about.is_file():
        raise FileError(folder, "holds no encoded text; name the files of the text")
    known = files.read_json(about)
    return {name: str(known.get(name, "")) for name in ("text", "without")}


def encode_text(tokenizer: Tokenizer, lines: Iterable[str]) -> Iterator[bytes]:
    """Subword ids, 16 bits each, with a ``[SEP]`` after each line."""
    end = np.array(SPECIAL.index("[SEP]"), _ID).tobytes()
    # The tokenizer sees each word once: most words of a text have come before.
    known: dict[str, bytes] = {}
    lines = iter(lines)
    while chunk := [line.split() for line in islice(lines, _CHUNK)]:
        if len(known) > _REMEMBERED:
            known.clear()
        new = list({word for words in chunk for word in words} - known.keys())
        encoded = tokenizer.encode_batch_fast(new, add_special_tokens=False)
        for word, found in zip(new, encoded, strict=True):
            known[word] = np.array(found.ids, _ID).tobytes()
        yield b"".join(run for words in chunk for run in (*map(known.__getitem__, words), end))


def _write_array(path: Path, runs: Iterable[bytes]) -> None:
    """An .npy file; its header, as long for every length, is written again once that is known."""
    with files.atomic_binary(path) as file:
        file.write(_header(0))
        size = sum(file.write(run) for run in runs)
        file.seek(0)
        file.write(_header(size // _ID.itemsize))


def _map_array(path: Path) -> NDArray[np.uint16] | None:
    """The array in such a file, mapped into memory; None where it is none."""
    with files.file_errors(path), path.open("rb") as file:
        count = (os.fstat(file.fileno()).st_size - len(_header(0))) // _ID.itemsize
        if count < 0 or file.read(len(_header(0))) != _header(count):
            return None
        return np.memmap(file, _ID, "c", file.tell(), (count,))


def _header(count: int) -> bytes:
    held = BytesIO()
    write_array_header_1_0(held, {"descr": _ID.str, "fortran_order": False, "shape": (count,)})
    return held.getvalue()
