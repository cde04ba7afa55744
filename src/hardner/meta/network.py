"""The network of an experiment: its tagger, and the parameters that training starts from."""

from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch
from tokenizers import Tokenizer

from hardner import checkpoint
from hardner.corpora import exists
from hardner.errors import FileError, HardnerError
from hardner.features import Pieces
from hardner.meta.experiment import Experiment
from hardner.meta.methods import heads_for
from hardner.meta.source_data import SourceData
from hardner.model.characters import ALPHABET, Characters
from hardner.model.encoders import Encoder, WordEncoder, start_letters, vocabulary_of
from hardner.model.huggingface import BertEncoder
from hardner.model.label_encoder import LabelEncoder
from hardner.model.layers import Params, part_of
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.vectors import ReadProgress, character_vectors, load_vectors


def build_network(
    experiment: Experiment,
    source_data: SourceData,
    cache: Path | None = None,
    reading: ReadProgress | None = None,
) -> tuple[Tagger, Params]:
    """Build the tagger and its first parameters; the same seed gives the same numbers.

    The folder ``cache`` keeps the vectors of the words at hand from one run to the next. While
    vectors are read, ``reading`` is called now and then.
    """
    of = experiment.encoder
    encoder: Encoder
    given: Params = {}  # what does not start at random
    if of.kind in ("bert", "transformer"):
        if not of.folder:
            raise HardnerError(f"encoder.folder: name the folder of the pre-trained {of.kind}")
        if not exists(Path(of.folder)):
            hint = f"no such folder of a pre-trained {of.kind}; --encoder.folder names another"
            raise FileError(of.folder, hint)
        if of.kind == "bert":
            encoder = BertEncoder.load(of.folder, of.limit)
        else:
            encoder, given = _transformer(of.folder, of.limit)
    else:
        letters = of.dimension if of.letters_from_words else of.letters
        encoder = WordEncoder(
            vocabulary_of([*chain.from_iterable(source_data.train.sentences.values())]),
            of.dimension,
            of.train_words,
            Characters(letters, of.filters, recurrent=of.recurrent),
            "lstm" if of.kind == "bilstm" else "gru",
            of.hidden,
            of.skip,
        )
        if of.vectors:
            encoder, given = _with_vectors(encoder, experiment, source_data, cache, reading)
    heads = heads_for(experiment.build_method(), encoder.size, len(source_data.names))
    decoder = experiment.decoder
    labels = LabelEncoder(encoder.size, decoder.scheme) if experiment.labels.weight else None
    tag_sets = source_data.tag_sets(decoder.scheme)
    tagger = Tagger(encoder, tag_sets, decoder.kind, heads, labels)
    fresh = tagger.init(experiment.seed)
    # A label encoder that was trained before goes on; one of another scheme has another shape.
    fits = {
        name: value
        for name, value in given.items()
        if part_of(name) != "labels" or (name in fresh and value.shape == fresh[name].shape)
    }
    return tagger, fresh | fits


def _transformer(folder: str, limit: int) -> tuple[PieceEncoder, Params]:
    """A pre-trained transformer, or that of a tagger that was trained already."""
    saved = checkpoint.load_checkpoint(folder)
    config = saved.config.get("encoder", saved.config)
    if "transformer" not in config or "tokenizer.json" not in saved.files:
        raise FileError(folder, "holds no pre-trained transformer and its tokenizer")
    transformer = Transformer(**config["transformer"])
    tokenizer = Tokenizer.from_str(saved.files["tokenizer.json"].decode())
    given = {n: p for n, p in saved.tensors.items() if part_of(n) in ("encoder", "labels")}
    return PieceEncoder(transformer, Pieces.by(tokenizer, limit)), given


def _with_vectors(
    encoder: WordEncoder,
    experiment: Experiment,
    source_data: SourceData,
    cache: Path | None,
    reading: ReadProgress | None,
) -> tuple[WordEncoder, Params]:
    """The encoder with a vector for every word that the file knows, devel's words as well."""
    of = experiment.encoder
    words = set(encoder.vocabulary) | set(vocabulary_of(list(source_data.sentences())))
    vectors = load_vectors(of.vectors, words, cache=cache, progress=reading)
    if vectors.dimension != encoder.dimension:
        found = f"its vectors have {vectors.dimension} numbers"
        expected = f"encoder.dimension is {encoder.dimension}: set it to {vectors.dimension}"
        raise FileError(of.vectors, f"{found}, {expected}")
    own = encoder.vocabulary if of.unknown == "own" else ()
    known = tuple(sorted({*own, *vectors.words}))
    encoder = replace(encoder, vocabulary=known)
    params = encoder.init(torch.Generator().manual_seed(experiment.seed))
    place = {word: row for row, word in enumerate(known, 1)}
    params[encoder.words][0, [place[word] for word in vectors.words]] = vectors.matrix
    if of.unknown == "zero":
        params[encoder.words][0, 0] = 0.0
    given = {encoder.words}
    if of.letters_from_words:
        params = start_letters(params, character_vectors(vectors, ALPHABET))
        given.add("encoder.characters.table")
    return encoder, {name: params[name] for name in given}
