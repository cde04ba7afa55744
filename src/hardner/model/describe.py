"""A tagger as a model folder: what it is in JSON, the files it reads words by, its parameters."""

import json
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hardner import checkpoint
from hardner.config import keys, make
from hardner.errors import FileError, HardnerError
from hardner.features import TOKENIZER, Pieces, Splitter, read_pieces
from hardner.manifest import CONFIG, read_config
from hardner.model.characters import Characters
from hardner.model.decoders import DecoderKind
from hardner.model.encoders import Encoder, EncoderWithCopies, WordEncoder
from hardner.model.graph import GRAPH
from hardner.model.heads import Discriminator, ExtentHead, SentenceHead, domain_head
from hardner.model.huggingface import (
    BertEncoder,
    bert_network,
    configuration,
    positions,
    read_classifier,
)
from hardner.model.layers import Params
from hardner.model.onnx import OnnxEncoder
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet

VOCABULARY, BERT = "vocabulary.txt", "bert.json"
HEADS: dict[str, type[Any]] = {
    "sentence": SentenceHead,
    "extent": ExtentHead,
    "attention": Discriminator,
}

Files = Mapping[str, bytes]
_Config = Mapping[str, Any]


def save_model(
    folder: str | Path,
    tagger: Tagger,
    params: Params,
    about: Mapping[str, Any] | None = None,
    *,
    shard_bytes: int | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Write a tagger, whole or not at all; parameters that it does not have are left out.

    What else is known ``about`` it stands in the same description. The options are those of
    `hardner.checkpoint.save_checkpoint`.
    """
    own = {name: params[name] for name in parameter_shapes(tagger) if name in params}
    _check_params(tagger, own)
    config = checkpoint.with_checksum(describe_tagger(tagger) | dict(about or {}))
    checkpoint.save_checkpoint(
        folder, own, config, files_of(tagger), shard_bytes=shard_bytes, dtype=dtype
    )


def load_model(folder: str | Path) -> tuple[Tagger, Params]:
    """Read what `save_model` wrote, or a Hugging Face folder for token classification."""
    if _is_classifier(folder):
        tagger, params = read_classifier(folder)
    else:
        found = checkpoint.load_checkpoint(folder)
        params = dict(found.tensors)
        try:
            tagger = build_tagger(found.config, found.files)
            _check_params(tagger, params)
        except HardnerError as error:
            raise FileError(folder, str(error)) from None
        if not checkpoint.agrees_with_checksum(found.config):
            message = f'edited or damaged; if meant, take "{checkpoint.CHECKSUM}" out of it'
            raise FileError(Path(folder) / CONFIG, message)
    _check_numbers(folder, params)
    return tagger, params


def _is_classifier(folder: str | Path) -> bool:
    """Whether a folder says that it classifies tokens and is not one of hardner's own."""
    try:
        named = read_config(Path(folder) / CONFIG)["architectures"]
        return any(name.endswith("ForTokenClassification") for name in named)
    except (OSError, HardnerError, KeyError, TypeError, AttributeError):
        return False


def describe_tagger(tagger: Tagger) -> dict[str, Any]:
    """What the network is, as JSON; `files_of` holds the rest."""
    found = {
        "encoder": _stored(tagger.encoder)[0],
        "decoder": tagger.decoder,
        "tag_sets": [asdict(tag_set) for tag_set in tagger.tag_sets],
        "heads": {
            name: {"kind": _kind_of("head", head, HEADS), **asdict(head)}  # type: ignore[call-overload]
            for name, head in tagger.heads.items()
        },
    }
    if tagger.label_encoder:
        found["label_encoder"] = asdict(tagger.label_encoder)
    plain: dict[str, Any] = json.loads(json.dumps(found))  # tuples become lists, as when read
    return plain


def files_of(tagger: Tagger) -> dict[str, bytes]:
    """The vocabulary, or the tokenizer and a BERT's own configuration."""
    return _stored(tagger.encoder)[1]


def build_tagger(config: _Config, files: Files) -> Tagger:
    """The tagger that `describe_tagger` and `files_of` describe."""
    with _readable():
        given = {name: config[name] for name in keys(Tagger) if name in config}
        encoder = given["encoder"] = _build_encoder(config["encoder"], files)
        given["heads"] = {}
        for name, head in config["heads"].items():
            own = {key: value for key, value in head.items() if key != "kind"}
            given["heads"][name] = make(_known("head", head, HEADS), own, f"heads.{name}")
        made = make(Tagger, given)
        if made.label_encoder and made.label_encoder.size != _first(encoder).size:
            raise HardnerError("its label encoder reads other vectors than its encoder gives")
        if isinstance(encoder, EncoderWithCopies):
            if encoder.heads and len(encoder.heads) != len(encoder.changed):
                raise HardnerError("its encoder has other copies than heads to read them")
            if any(not heads for heads in encoder.heads_of(len(made.tag_sets))):
                message = "its encoder has more copies than there are tag sets to read them"
                raise HardnerError(message)
        return made


def _first(encoder: Encoder) -> Encoder:
    """The copy that a label encoder reads, where there are several."""
    return encoder.base if isinstance(encoder, EncoderWithCopies) else encoder


@contextmanager
def _readable() -> Iterator[None]:
    """Whatever goes wrong with a description of another version, as one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise HardnerError(f"damaged or newer than this hardner: {error!r:.200}") from None


ENCODERS: dict[str, type[Any]] = {
    "words": WordEncoder,
    "pieces": PieceEncoder,
    "bert": BertEncoder,
    "onnx": OnnxEncoder,
    "branched": EncoderWithCopies,
}
"""By the kind that `config.json` names."""


def _stored(encoder: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The fields of an encoder: as JSON, or as files where they are no plain values."""
    kind = _kind_of("encoder", encoder, ENCODERS)
    config: dict[str, Any] = {"kind": kind}
    files: dict[str, bytes] = {}
    for name in keys(type(encoder)):
        value = getattr(encoder, name)
        match name:
            case "vocabulary":
                files[VOCABULARY] = _lines(value)
            case "model":
                files[BERT] = configuration(value).encode()
            case "graph":
                files[GRAPH] = value
            case "base":
                config[name], files = _stored(value)
            case "pieces":
                if not isinstance(value.split, Splitter):
                    raise HardnerError("an encoder without a tokenizer cannot be stored")
                files[TOKENIZER] = value.split.tokenizer.to_str().encode()
                config[name] = {n: getattr(value, n) for n in keys(Pieces) if n != "split"}
                if kind == "onnx":
                    config["shift"] = value.split.shift
            case _:
                config[name] = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
    return config, files


def _build_encoder(config: _Config, files: Files) -> Encoder:
    """The inverse of `_stored`."""
    kind = _known("encoder", config, ENCODERS)
    given = {name: value for name, value in config.items() if name not in ("kind", "shift")}
    if kind is WordEncoder:
        given["vocabulary"] = tuple(_text(files, VOCABULARY).split("\n")[:-1])
    elif kind is BertEncoder:
        given["model"] = bert_network(_text(files, BERT))
    elif kind is OnnxEncoder:
        given["graph"] = _content(files, GRAPH)
    elif kind is EncoderWithCopies:
        if config["base"]["kind"] == "branched":
            raise HardnerError("its encoder is a copy of copies, which is none of hardner's")
        given["base"] = _build_encoder(config["base"], files)
    if "pieces" in keys(kind):
        shift = config.get("shift", int(kind is BertEncoder))
        given["pieces"] = read_pieces(config["pieces"], _text(files, TOKENIZER), shift)
    made: Encoder = make(kind, given, "encoder")
    if isinstance(made, PieceEncoder):
        _check_pieces(made.pieces, made.transformer.vocabulary)
    elif isinstance(made, BertEncoder):
        own = made.model.config.vocab_size
        _check_pieces(made.pieces, own + 1)
        if made.padding >= own or made.pieces.limit > positions(made.model, made.pieces.limit):
            message = "encoder.padding or encoder.pieces.limit is beyond what its network has"
            raise HardnerError(message)
    return made


def _check_pieces(pieces: Pieces, rows: int) -> None:
    """Refuse pieces for which a network with so many rows has no vector."""
    assert isinstance(pieces.split, Splitter)
    known = max(pieces.split.tokenizer.get_vocab().values(), default=0) + pieces.split.shift
    most = max(pieces.first, pieces.last, pieces.unknown, known)
    if most >= rows:
        raise HardnerError(f"its tokenizer's pieces go up to {most}, the network's to {rows - 1}")


def _kind_of(what: str, value: Any, kinds: Mapping[str, type[Any]]) -> str:
    for kind, made in kinds.items():
        if type(value) is made:
            return kind
    raise _unknown(what, type(value).__name__, kinds)


def _known(what: str, config: _Config, kinds: Mapping[str, type[Any]]) -> type[Any]:
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise _unknown(what, kind, kinds)
    return kinds[kind]


def _unknown(what: str, kind: object, kinds: Mapping[str, Any]) -> HardnerError:
    known = f"this version of hardner knows {', '.join(kinds)}"
    return HardnerError(f"unknown {what} {reprlib.repr(kind)}; {known}")


def _lines(words: tuple[str, ...]) -> bytes:
    for word in words:
        if "\n" in word:
            raise HardnerError(f"{word!r} in the vocabulary does not fit on a line")
    # Half a surrogate pair, which broken text may hold, is a word like any other.
    return "".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass")


def _text(files: Files, name: str) -> str:
    return _content(files, name).decode("utf-8", "surrogatepass")


def _content(files: Files, name: str) -> bytes:
    if name not in files:
        raise HardnerError(f"{name} is missing")
    return files[name]


def parameter_shapes(tagger: Tagger) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, without drawing any."""
    with torch.device("meta"):  # tensors without memory
        return {name: tuple(p.shape) for name, p in tagger.init().items()}


def _check_params(tagger: Tagger, params: Params) -> None:
    with _readable():
        expected = parameter_shapes(tagger)
    if odd := sorted(expected.keys() ^ params.keys()):
        state = "is missing" if odd[0] in expected else "is not part of the network"
        raise HardnerError(f"parameter {odd[0]} {state}")
    for name, shape in expected.items():
        if tuple(params[name].shape) != shape:
            found = list(params[name].shape)
            raise HardnerError(f"parameter {name} is {found}, the network wants {list(shape)}")


def _check_numbers(folder: str | Path, params: Params) -> None:
    """Refuse weights that no network computes with."""
    if len(types := {value.dtype for value in params.values()}) > 1:
        raise FileError(
            folder, f"its parameters are of several types: {', '.join(map(str, types))}"
        )
    for name, value in params.items():
        # A sum is not finite where a number is not, and takes a tenth of the time.
        finite = value.sum().isfinite() or value.isfinite().all()
        if not value.is_floating_point() or not finite:
            raise FileError(
                folder, f"parameter {name} holds what is no finite number; train it anew"
            )


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
