"""Plain text as lines and as subword ids, without the sentences that models are tested on."""

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unicodedata import category, normalize

import numpy as np
import torch
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from hardner import files
from hardner.corpora import Corpora
from hardner.errors import FileError
from hardner.files import read_text
from hardner.formats.format import Report

IDS_FILE, IDS_ABOUT = "pieces.npy", "pieces.json"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The first subwords; padding has id 0, as batches expect."""
_INSIDE = "##"
"""How a subword begins that continues a word."""
LARGEST_VOCABULARY = 1 << 16
"""Ids are stored in 16 bits."""
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


def train_tokenizer(texts: Iterable[str], size: int = 28_000) -> Tokenizer:
    """Learn subwords; a word is a run of letters and digits, or one other character.

    The texts are gone through twice. The same texts give the same tokenizer.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(r"[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]"), "isolated"),
        ]
    )
    # The trainer numbers letters inside words in random order, but keeps the order of what it is
    # given as special: so they are given, and taken off that list afterwards.
    first = [*SPECIAL, *(f"{_INSIDE}{letter}" for letter in _letters(texts))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=first, show_progress=False, min_frequency=5
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())
    learnt["added_tokens"] = learnt["added_tokens"][: len(SPECIAL)]
    return Tokenizer.from_str(json.dumps(learnt))


def _letters(texts: Iterable[str]) -> list[str]:
    """All letters, marks and digits that occur."""
    seen: set[str] = set()
    for text in texts:
        seen.update(normalize("NFKC", text))
    return sorted(sign for sign in seen if category(sign)[0] in "LMN")


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer, and check that pre-training can use it."""
    text = read_text(path)
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises no narrower one
        raise FileError(path, f"not a tokenizer: {' '.join(str(error).split())}") from None
    size = tokenizer.get_vocab_size()
    if not isinstance(tokenizer.model, models.WordPiece):
        raise FileError(path, "not a WordPiece tokenizer; leave it out, and one is trained")
    for number, piece in enumerate(SPECIAL):
        if tokenizer.token_to_id(piece) != number:
            found = tokenizer.id_to_token(number)
            raise FileError(path, f"its subword {number} is {found}, and must be {piece}")
    if size > LARGEST_VOCABULARY or max(tokenizer.get_vocab().values()) >= size:
        raise FileError(path, f"its ids must go from 0 to at most {LARGEST_VOCABULARY - 1:,}")
    return tokenizer


def continuing(tokenizer: Tokenizer) -> Tensor:
    """Which subwords continue a word, [V]."""
    pieces = tokenizer.get_vocab()
    return torch.tensor([p.startswith(_INSIDE) for p in sorted(pieces, key=pieces.__getitem__)])
