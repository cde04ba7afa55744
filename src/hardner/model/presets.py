"""The papers' networks, and the project's own, but for their words and domains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tokenizers import Tokenizer

from hardner.batch import TagSet
from hardner.model.characters import Characters
from hardner.model.decoders import DecoderKind
from hardner.model.encoders import Encoder, PieceEncoder, WordEncoder
from hardner.model.heads import Discriminator, Head, SentenceHead
from hardner.model.subwords import Pieces
from hardner.model.tagger import Tagger
from hardner.model.transformer import Transformer

_Labels = Mapping[str, Sequence[str]]
"""The labels of each domain, in the order of the decoders."""


@dataclass(frozen=True)
class Ends:
    """What stands on the encoder."""

    scheme: str
    decoder: DecoderKind
    critic: Literal["linear", "attention"] | None
    """How the domain is told: from the mean of the words, or by MetaNER's attention."""

    def on(self, encoder: Encoder, labels: _Labels) -> Tagger:
        """The whole tagger."""
        heads: dict[str, Head] = {}
        if self.critic == "linear":
            heads["domain"] = SentenceHead("domain", encoder.size, len(labels), "mean")
        elif self.critic == "attention":
            heads["domain"] = Discriminator(encoder.size, len(labels))
        tag_sets = (TagSet(domain, tuple(own), self.scheme) for domain, own in labels.items())
        return Tagger(encoder, tuple(tag_sets), self.decoder, heads)


@dataclass(frozen=True)
class WordPreset:
    """A network that reads words and their letters."""

    about: str
    encoder: WordEncoder
    """Without words."""
    ends: Ends
    usual: int = 20_000
    """Words of a vocabulary, where none is at hand."""

    def tagger(self, vocabulary: Sequence[str], labels: _Labels) -> Tagger:
        """The network for these words."""
        return self.ends.on(replace(self.encoder, vocabulary=tuple(vocabulary)), labels)

    def sketch(self, vocabulary: int, labels: _Labels) -> Tagger:
        """The network for that many words, to be looked at only."""
        return self.tagger([str(number) for number in range(vocabulary)], labels)


@dataclass(frozen=True)
class PiecePreset:
    """A network that reads pieces of words."""

    about: str
    transformer: Transformer
    ends: Ends

    @property
    def usual(self) -> int:
        """Pieces of the tokenizer."""
        return self.transformer.vocabulary

    def tagger(self, tokenizer: Tokenizer, labels: _Labels) -> Tagger:
        """The network for a tokenizer like the project's own."""
        return self._with(tokenizer.get_vocab_size(), Pieces.by(tokenizer), labels)

    def sketch(self, vocabulary: int, labels: _Labels) -> Tagger:
        """The network for that many pieces, to be looked at only."""
        return self._with(vocabulary, Pieces(lambda _: (), 2, 3, 1), labels)

    def _with(self, vocabulary: int, pieces: Pieces, labels: _Labels) -> Tagger:
        transformer = replace(self.transformer, vocabulary=vocabulary)
        return self.ends.on(PieceEncoder(transformer, pieces), labels)


HGDA = WordPreset(
    "BioWordVec as it is, letters by CNN and LSTM, BiLSTM 1 x 128, CRF, domain classifier",
    WordEncoder((), 200, False, Characters(filters=50, recurrent=50), "lstm", 128),
    Ends("IOB2", "crf", "linear"),
)
METANER = WordPreset(
    "GloVe that learns, letters by CNN, BiGRU 1 x 128, CRF, attention discriminator",
    WordEncoder((), 300, True, Characters(filters=100, widths=(2, 3, 4, 5)), "gru", 128),
    Ends("IOBES", "crf", "attention"),
)
TRANSFORMER = PiecePreset(
    "hardner's own: 6 layers of 384, rotary positions, a linear decoder",
    Transformer(vocabulary=28_000, size=384, layers=6, heads=6, inner=1536),
    Ends("IOB2", "softmax", None),
)
NETWORKS: dict[str, WordPreset | PiecePreset] = {
    "hgda": HGDA,
    "metaner": METANER,
    "transformer": TRANSFORMER,
}
