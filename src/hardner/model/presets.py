"""The papers' networks, and the project's own, but for their words and domains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hardner.features import Pieces
from hardner.model.characters import Characters
from hardner.model.decoders import DecoderKind
from hardner.model.encoders import Encoder, WordEncoder
from hardner.model.heads import domain_head
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet


@dataclass(frozen=True)
class NetworkPreset:
    """A network without its vocabulary."""

    about: str
    encoder: WordEncoder | Transformer
    vocabulary: int
    """Words or subwords, where no number is given."""
    scheme: str = "IOB2"
    decoder: DecoderKind = "crf"
    critic: str = ""
    """As in `domain_head`; empty for none."""

    def tagger(self, vocabulary: int, labels: Mapping[str, Sequence[str]]) -> Tagger:
        """The network for that many words or subwords, and the labels of each domain."""
        encoder: Encoder
        if isinstance(self.encoder, WordEncoder):
            encoder = replace(self.encoder, vocabulary=tuple(map(str, range(vocabulary))))
        else:
            transformer = replace(self.encoder, vocabulary=vocabulary)
            encoder = PieceEncoder(transformer, Pieces(lambda _: (), 2, 3, 1))
        tag_sets = (TagSet(domain, tuple(own), self.scheme) for domain, own in labels.items())
        heads = {"domain": domain_head(self.critic, encoder.size, len(labels))}
        return Tagger(encoder, tuple(tag_sets), self.decoder, heads if self.critic else {})


NETWORKS = {
    "hgda": NetworkPreset(
        "BioWordVec as it is, letters by CNN and LSTM, BiLSTM 1 x 128, CRF, domain classifier",
        WordEncoder((), 200, False, Characters(filters=50, recurrent=50), "lstm", 128),
        vocabulary=20_000,
        critic="linear",
    ),
    "metaner": NetworkPreset(
        "GloVe that learns, letters by CNN, BiGRU 1 x 128, CRF, attention discriminator",
        WordEncoder((), 300, True, Characters(filters=100, widths=(2, 3, 4, 5)), "gru", 128),
        vocabulary=20_000,
        scheme="IOBES",
        critic="attention",
    ),
    "transformer": NetworkPreset(
        "hardner's own: 6 layers of 384, rotary positions, a linear decoder",
        Transformer(vocabulary=28_000, size=384, layers=6, heads=6, inner=1536),
        vocabulary=28_000,
        decoder="softmax",
    ),
}
