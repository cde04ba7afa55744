"""A model as a Hugging Face folder for token classification (extra ``hardner[bert]``)."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from hardner.errors import FileError, HardnerError
from hardner.features import Splitter
from hardner.folders import atomic_folder
from hardner.model.huggingface import BertEncoder, configuration, positions, quiet
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.tag.predictor import Predictor


def write_huggingface(predictor: Predictor, folder: str | Path) -> None:
    """Write what ``AutoModelForTokenClassification`` and ``AutoTokenizer`` read.

    The logits of a word's first subword are the model's own scores. Such a folder cannot hold the
    model's constraints on tag sequences, nor its temperatures.

    Args:
        predictor: A Hugging Face network with one head and without a CRF.
        folder: A new or empty one.
    """
    folder = Path(folder)
    encoder, tag_set = _writable(predictor.tagger)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileError(folder, "exists already; name a new folder")
    with quiet() as transformers:
        model = _model(transformers, encoder, tag_set, predictor.params)
        tokenizer = _tokenizer(transformers, encoder)
        with atomic_folder(folder) as temporary:
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)


def _writable(tagger: Tagger) -> tuple[BertEncoder, TagSet]:
    """The encoder and the tags of the head, if a Hugging Face folder can hold them."""
    encoder = tagger.encoder
    if not isinstance(encoder, BertEncoder):
        reason = "Hugging Face has no network like this one, with its rotary positions"
        if type(encoder).__name__ != "PieceEncoder":
            reason = f"a {type(encoder).__name__} is no Hugging Face network"
        raise HardnerError(f"{reason}; only a model built on such a network can be written")
    if tagger.decoder != "softmax":
        raise HardnerError("a Hugging Face folder cannot hold a CRF's transitions")
    if len(tagger.tag_sets) != 1:
        domains = ", ".join(tagger.domains)
        raise HardnerError(f"a Hugging Face folder holds one head, the model has {domains}")
    return encoder, tagger.tag_sets[0]


def _model(transformers: Any, encoder: BertEncoder, tag_set: TagSet, params: Params) -> Any:
    config = json.loads(configuration(encoder.model))
    names = dict(enumerate(tag_set.tags))
    config |= {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    made = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForTokenClassification.from_config(made)
    base = model.base_model_prefix
    own = {
        name.replace("encoder.", f"{base}.", 1): value[0].cpu()
        for name, value in params.items()
        if name.startswith("encoder.")
    }
    own["classifier.weight"] = params["decoder.weight"][0, 0].cpu()
    own["classifier.bias"] = params["decoder.bias"][0, 0].cpu()
    if model.state_dict().keys() - own.keys() - dict(model.named_buffers()).keys():
        raise HardnerError(f"{type(model).__name__} has layers that the model does not have")
    model.load_state_dict(own, strict=False)
    return model


def _tokenizer(transformers: Any, encoder: BertEncoder) -> Any:
    """The tokenizer, told which subwords are special."""
    split = encoder.pieces.split
    assert isinstance(split, Splitter)

    def named(piece: int) -> str:
        return str(split.tokenizer.id_to_token(piece))

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(split.tokenizer.to_str()),
        model_max_length=positions(encoder.model, encoder.pieces.limit),
        cls_token=named(encoder.pieces.first - split.shift),
        sep_token=named(encoder.pieces.last - split.shift),
        unk_token=named(encoder.pieces.unknown - split.shift),
        pad_token=named(encoder.padding),
    )
