"""A cased WordPiece tokenizer, trained on text."""

import json
from collections.abc import Iterable
from pathlib import Path
from unicodedata import category, normalize

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from hardner.errors import FileError
from hardner.files import read_text

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""The first subwords; padding has id 0, as batches expect."""
_INSIDE = "##"
"""How a subword begins that continues a word."""
LARGEST_VOCABULARY = 1 << 16
"""Ids are stored in 16 bits."""


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
