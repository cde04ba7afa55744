"""A tagger as a model folder: what it is in JSON, the files it reads words by, its parameters."""

import json
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer

from hardner import checkpoint
from hardner.batch import TagSet
from hardner.config import keys, make
from hardner.errors import FileError, HardnerError
from hardner.model.decoders import DecoderKind
from hardner.model.encoders import Encoder, EncoderWithCopies, PieceEncoder, WordEncoder
from hardner.model.heads import Discriminator, ExtentHead, SentenceHead
from hardner.model.huggingface import (
    BertEncoder,
    bert_network,
    configuration,
    positions,
    read_classifier,
)
from hardner.model.layers import Params
from hardner.model.onnx import OnnxEncoder
from hardner.model.subwords import Pieces, Splitter
from hardner.model.tagger import Tagger

VOCABULARY, TOKENIZER, BERT = "vocabulary.txt", "tokenizer.json", "bert.json"
GRAPH = "encoder.onnx"
HEADS: dict[str, type[Any]] = {
    "sentence": SentenceHead,
    "extent": ExtentHead,
    "attention": Discriminator,
}

Files = Mapping[str, bytes]
_Config = Mapping[str, Any]
_Stored = tuple[dict[str, Any], dict[str, bytes]]
"""Of an encoder: its part of ``config.json``, and its files."""
_Kind = TypeVar("_Kind")


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
    config = describe_tagger(tagger) | dict(about or {})
    checkpoint.save_checkpoint(
        folder, own, config, files_of(tagger), shard_bytes=shard_bytes, dtype=dtype
    )


def load_model(folder: str | Path) -> tuple[Tagger, Params]:
    """Read what `save_model` wrote, or a Hugging Face folder for token classification."""
    if _is_classifier(folder):
        return read_classifier(folder)
    found = checkpoint.load_checkpoint(folder)
    try:
        tagger = build_tagger(found.config, found.files)
        params = dict(found.tensors)
        _check_params(tagger, params)
        _check_numbers(params)
    except HardnerError as error:
        raise FileError(folder, str(error)) from None
    return tagger, params


def _is_classifier(folder: str | Path) -> bool:
    """Whether a folder says that it classifies tokens and is not one of hardner's own."""
    try:
        named = checkpoint.read_config(Path(folder) / checkpoint.CONFIG)["architectures"]
        return any(name.endswith("ForTokenClassification") for name in named)
    except (OSError, HardnerError, KeyError, TypeError, AttributeError):
        return False


def describe_tagger(tagger: Tagger) -> dict[str, Any]:
    """What the network is, as JSON; `files_of` holds the rest."""
    found = {
        "encoder": _stored(tagger.encoder)[0],
        "decoder": tagger.decoder,
        "tag_sets": [asdict(tag_set) for tag_set in tagger.tag_sets],
        "heads": {name: _describe_head(head) for name, head in tagger.heads.items()},
    }
    plain: dict[str, Any] = json.loads(json.dumps(found))  # tuples become lists, as when read
    return plain


def files_of(tagger: Tagger) -> dict[str, bytes]:
    """The vocabulary, or the tokenizer and a BERT's own configuration."""
    return _stored(tagger.encoder)[1]


@dataclass(frozen=True)
class _Description:
    """What `describe_tagger` writes."""

    encoder: Mapping[str, Any]
    decoder: DecoderKind
    tag_sets: tuple[TagSet, ...]
    heads: Mapping[str, Mapping[str, Any]]


def build_tagger(config: _Config, files: Files) -> Tagger:
    """The tagger that `describe_tagger` and `files_of` describe."""
    with _readable():
        found = make(_Description, {n: config[n] for n in keys(_Description) if n in config})
        encoder = _build_encoder(found.encoder, files)
        heads = {
            name: make(_known("head", head, HEADS), _rest(head), f"heads.{name}")
            for name, head in found.heads.items()
        }
        if isinstance(encoder, EncoderWithCopies) and len(encoder.changed) >= len(found.tag_sets):
            raise HardnerError("its encoder has more copies than there are tag sets to read them")
        return Tagger(encoder, found.tag_sets, found.decoder, heads)


@contextmanager
def _readable() -> Iterator[None]:
    """Whatever goes wrong with a description of another version, as one line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        said = " ".join(repr(error).split())[:200]
        raise HardnerError(f"damaged or newer than this hardner: {said}") from None


def _stored(encoder: Encoder) -> _Stored:
    for kind, (made, store, _) in ENCODERS.items():
        if type(encoder) is made:
            config, files = store(encoder)
            return {"kind": kind, **config}, files
    raise _unknown("encoder", type(encoder).__name__, ENCODERS)


def _describe_head(head: Any) -> dict[str, Any]:
    for kind, made in HEADS.items():
        if type(head) is made:
            return {"kind": kind, **asdict(head)}
    raise _unknown("head", type(head).__name__, HEADS)


def _store_words(encoder: WordEncoder) -> _Stored:
    names = ("dimension", "train_words", "characters", "cell", "hidden", "skip")
    config = {name: getattr(encoder, name) for name in names}
    config["characters"] = asdict(encoder.characters)
    return config, {VOCABULARY: _lines(encoder.vocabulary)}


def _build_words(config: _Config, files: Files) -> Encoder:
    words = _text(files, VOCABULARY).split("\n")[:-1]
    return replace(make(WordEncoder, config, "encoder"), vocabulary=tuple(words))


def _store_pieces(encoder: PieceEncoder) -> _Stored:
    pieces, files = _stored_pieces(encoder.pieces)
    return {"transformer": asdict(encoder.transformer), "pieces": pieces}, files


def _build_pieces(config: _Config, files: Files) -> Encoder:
    encoder = make(PieceEncoder, {**config, "pieces": _pieces(config, files)}, "encoder")
    _check_rows(encoder.pieces, encoder.transformer.vocabulary)
    return encoder


def _store_bert(encoder: BertEncoder) -> _Stored:
    pieces, files = _stored_pieces(encoder.pieces)
    config = {"name": encoder.name, "padding": encoder.padding, "pieces": pieces}
    return config, files | {BERT: configuration(encoder.model).encode()}


def _build_bert(config: _Config, files: Files) -> Encoder:
    network, pieces = bert_network(_text(files, BERT)), _pieces(config, files, shift=1)
    encoder = make(BertEncoder, {**config, "model": network, "pieces": pieces}, "encoder")
    rows = network.config.vocab_size
    _check_rows(pieces, rows + 1)
    if encoder.padding >= rows or pieces.limit > positions(network, pieces.limit):
        raise HardnerError("encoder.padding or encoder.pieces.limit is beyond what its network has")
    return encoder


def _store_onnx(encoder: OnnxEncoder) -> _Stored:
    pieces, files = _stored_pieces(encoder.pieces)
    shift = getattr(encoder.pieces.split, "shift", 0)
    return {"size": encoder.size, "shift": shift, "pieces": pieces}, files | {GRAPH: encoder.graph}


def _build_onnx(config: _Config, files: Files) -> Encoder:
    own = {n: value for n, value in config.items() if n != "shift"}
    pieces = _pieces(config, files, config["shift"])
    return make(OnnxEncoder, {**own, "graph": _content(files, GRAPH), "pieces": pieces}, "encoder")


def _store_copies(encoder: EncoderWithCopies) -> _Stored:
    base, files = _stored(encoder.base)
    return {"base": base, "changed": encoder.changed}, files


def _build_copies(config: _Config, files: Files) -> Encoder:
    if config["base"]["kind"] == "branched":
        raise HardnerError("its encoder is a copy of copies, which is none of hardner's")
    base = _build_encoder(config["base"], files)
    return EncoderWithCopies(base, tuple(tuple(names) for names in config["changed"]))


ENCODERS: dict[str, tuple[type, Callable[[Any], _Stored], Callable[[_Config, Files], Encoder]]] = {
    "words": (WordEncoder, _store_words, _build_words),
    "pieces": (PieceEncoder, _store_pieces, _build_pieces),
    "bert": (BertEncoder, _store_bert, _build_bert),
    "onnx": (OnnxEncoder, _store_onnx, _build_onnx),
    "branched": (EncoderWithCopies, _store_copies, _build_copies),
}
"""By the kind that `config.json` names: its class, how it is stored, and how it is built again."""


def _build_encoder(config: _Config, files: Files) -> Encoder:
    return _known("encoder", config, ENCODERS)[2](_rest(config), files)


def _stored_pieces(pieces: Pieces) -> _Stored:
    if not isinstance(pieces.split, Splitter):
        raise HardnerError("an encoder without a tokenizer cannot be stored")
    names = ("first", "last", "unknown", "limit", "overlap")
    tokenizer = pieces.split.tokenizer.to_str().encode()
    return {name: getattr(pieces, name) for name in names}, {TOKENIZER: tokenizer}


def _pieces(config: _Config, files: Files, shift: int = 0) -> Pieces:
    text = _text(files, TOKENIZER)
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises no narrower one
        raise HardnerError(f"{TOKENIZER} is damaged: {error}") from None
    splitter = make(Splitter, {"tokenizer": tokenizer, "shift": shift}, "encoder")
    return make(Pieces, {**config["pieces"], "split": splitter}, "encoder.pieces")


def _check_rows(pieces: Pieces, rows: int) -> None:
    """Refuse pieces that a network of so many has no vector for."""
    assert isinstance(pieces.split, Splitter)
    known = pieces.split.tokenizer.get_vocab().values()
    most = max(
        pieces.first, pieces.last, pieces.unknown, max(known, default=0) + pieces.split.shift
    )
    if most >= rows:
        raise HardnerError(f"its tokenizer's pieces go up to {most}, the network's to {rows - 1}")


def _known(what: str, config: _Config, kinds: Mapping[str, _Kind]) -> _Kind:
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise _unknown(what, kind, kinds)
    return kinds[kind]


def _unknown(what: str, kind: object, kinds: Any) -> HardnerError:
    known = ", ".join(kinds)
    return HardnerError(
        f"unknown {what} {reprlib.repr(kind)}; this version of hardner knows {known}"
    )


def _rest(config: _Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "kind"}


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


def _check_numbers(params: Params) -> None:
    """Refuse weights that no network computes with."""
    if len(types := {value.dtype for value in params.values()}) > 1:
        raise HardnerError(f"its parameters are of several types: {', '.join(map(str, types))}")
    for name, value in params.items():
        if not value.is_floating_point() or not value.isfinite().all():
            raise HardnerError(f"parameter {name} holds what is no finite number; train it anew")
