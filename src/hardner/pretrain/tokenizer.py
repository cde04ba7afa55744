"""A cased WordPiece tokenizer, learnt from text."""

import json
from collections.abc import Iterable
from pathlib import Path
from unicodedata import category, normalize

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from hardner.errors import FileError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The first pieces; padding is piece 0, as batches expect."""
INSIDE = "##"
"""How pieces begin that go on with a word."""
LARGEST = 1 << 16
"""Pieces are stored in 16 bits."""


def train_tokenizer(texts: Iterable[str], size: int = 28_000) -> Tokenizer:
    """Learn pieces of words; a word is a run of letters and digits, or one other character.

    The texts are gone through twice. The same ones give the same pieces: the trainer numbers what
    it is given first, but letters inside words in random order, so these are given to it.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(r"[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]"), "isolated"),
        ]
    )
    first = [*SPECIAL, *(f"{INSIDE}{letter}" for letter in _letters(texts))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=first, show_progress=False, min_frequency=5
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt = json.loads(tokenizer.to_str())
    learnt["added_tokens"] = learnt["added_tokens"][: len(SPECIAL)]
    return Tokenizer.from_str(json.dumps(learnt))


def _letters(texts: Iterable[str]) -> list[str]:
    """All that words can go on with."""
    seen: set[str] = set()
    for text in texts:
        seen.update(normalize("NFKC", text))
    return sorted(sign for sign in seen if category(sign)[0] in "LMN")


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer, and see that pre-training can use it."""
    try:
        tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
    except Exception as error:  # tokenizers raises no narrower one
        raise FileError(path, f"not a tokenizer: {' '.join(str(error).split())}") from None
    size = tokenizer.get_vocab_size()
    if not isinstance(tokenizer.model, models.WordPiece):
        raise FileError(path, "not a WordPiece tokenizer; leave it out, and one is learnt")
    for number, piece in enumerate(SPECIAL):
        if tokenizer.token_to_id(piece) != number:
            found = tokenizer.id_to_token(number)
            raise FileError(path, f"its piece {number} is {found}, and must be {piece}")
    if size > LARGEST or max(tokenizer.get_vocab().values()) >= size:
        raise FileError(path, f"its pieces must be numbered from 0, up to {LARGEST:,} of them")
    return tokenizer


def continuing(tokenizer: Tokenizer) -> Tensor:
    """Which pieces go on with a word, [V]."""
    pieces = tokenizer.get_vocab()
    return torch.tensor([p.startswith(INSIDE) for p in sorted(pieces, key=pieces.__getitem__)])
