"""A cased WordPiece tokenizer, learnt from text."""

from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""Padding is piece 0, as batches expect."""


def train_tokenizer(texts: Iterator[str], size: int = 28_000) -> Tokenizer:
    """Learn pieces of words; a word is a run of letters and digits, or one other character."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(r"[\p{L}\p{M}\p{N}]+|[^\p{L}\p{M}\p{N}]"), "isolated"),
        ]
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL), show_progress=False, min_frequency=5
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
