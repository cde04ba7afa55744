"""Hugging Face folders (extra ``hardner[bert]``): BERT-like encoders and token classifiers.

Nothing is fetched, and weights are safetensors.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from hardner.batch import Batch
from hardner.checkpoint import read_shard
from hardner.config import Whole
from hardner.errors import FileError, HardnerError, import_extra
from hardner.features import Features, Pieces, Splitter, overlap_of
from hardner.model.decoders import UNSHOWN
from hardner.model.encoders import Encoded
from hardner.model.layers import Mode, Params, scoped
from hardner.model.tagger import Tagger
from hardner.model.transformer import lay_out, taken
from hardner.schemes import OUTSIDE, TagSet
from hardner.types import Sentence

# Without one of these, transformers would make a tokenizer that knows no word.
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_NAMELESS = "Entity"  # the label where tags are B, I and O alone
_PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
_MOST_LAYERS, _MOST_NUMBERS = 1000, 1 << 31
"""Layers and parameters of a network: more is damage."""
_TAG = re.compile(r"([BIESLU])(?:[-_](.+))?")


@dataclass(frozen=True)
class BertEncoder:
    """The network of a folder, called with the parameters of one task after another."""

    name: str
    """Of the folder that it came from."""
    model: Any = field(compare=False, repr=False)
    pieces: Pieces = field(compare=False)
    padding: Whole
    """The folder's own padding piece; pieces are shifted so that 0 is free for ours."""

    @classmethod
    def load(cls, folder: str | Path, limit: int = 256) -> "BertEncoder":
        """Read a folder's configuration, tokenizer and weights."""
        folder = Path(folder)
        _check_files(folder)
        local = {"local_files_only": True, "trust_remote_code": False}
        with quiet() as transformers:
            try:
                config = transformers.AutoConfig.from_pretrained(folder, **local)
                _check_size(transformers, config)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
                model, loading = transformers.AutoModel.from_pretrained(
                    folder,
                    config=config,
                    use_safetensors=True,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                    **local,
                )
            except Exception as error:  # whatever damaged files make a large library raise
                raise FileError(folder, f"cannot be loaded: {error!r:.200}") from None
        _check_weights(folder, loading)
        if len(tokenizer) > model.config.vocab_size:
            held = f"{len(tokenizer)} pieces, the network {model.config.vocab_size}"
            raise FileError(folder, f"its parts do not belong together: the tokenizer has {held}")
        limit = min(limit, positions(model, limit))
        pieces = Pieces(
            Splitter(_by_word(folder, tokenizer), shift=1),
            first=_id(folder, tokenizer, "cls", "bos") + 1,
            last=_id(folder, tokenizer, "sep", "eos") + 1,
            unknown=_id(folder, tokenizer, "unk", "mask") + 1,
            limit=limit,
            overlap=overlap_of(limit),
        )
        return cls(folder.name, _bare(model), pieces, tokenizer.pad_token_id or 0)

    @property
    def size(self) -> int:
        return int(self.model.config.hidden_size)

    def init(self, rng: torch.Generator) -> Params:
        return {
            f"encoder.{name}": value.detach().clone().float().unsqueeze(0)
            for name, value in self.model.named_parameters()
        }

    def features(self, sentences: Sequence[Sentence]) -> Features:
        return self.pieces.features(sentences)

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """Each word's vector is that of its first piece."""
        layout = lay_out(batch, "pieces", self.pieces.limit)
        return taken(self.vectors(params, layout.pieces, mode), layout, mode)

    def vectors(self, params: Params, windows: Tensor, mode: Mode) -> Tensor:
        """One vector a piece: windows [M, W, P] -> [M, W, P, H]."""
        ids, there = self.own(windows)
        own = scoped(params, "encoder")
        axis = next(iter(own.values())).shape[0]
        if axis == 1:
            ids, there = ids.flatten(0, 1).unsqueeze(0), there.flatten(0, 1).unsqueeze(0)
        fixed = _fixed(self.model, str(windows.device))
        # Fused attention has no second derivative.
        with sdpa_kernel(SDPBackend.MATH) if mode.twice else nullcontext():
            outs = [
                functional_call(
                    self.model,
                    fixed | {name: value[task] for name, value in own.items()},
                    kwargs={"input_ids": ids[task], "attention_mask": there[task]},
                ).last_hidden_state
                for task in range(axis)
            ]  # each [W, P, H]
        return torch.stack(outs).view(*windows.shape, -1)

    def own(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """Windows [...] as the network wants them: ``input_ids`` and ``attention_mask``."""
        there = windows > 0
        ids = torch.where(there, windows - 1, self.padding)
        there[..., 0] = True  # an empty row attends to something, so that it stays finite
        return ids, there.long()


def configuration(model: Any) -> str:
    """The network's ``config.json``, for `bert_network`, without the folder's place."""
    found = json.loads(model.config.to_json_string(use_diff=False))
    found.pop("_name_or_path", None)
    return json.dumps(found, indent=1, sort_keys=True)


def bert_network(config: str) -> Any:
    """The network that a configuration describes, its weights yet to be given."""
    with quiet() as transformers, torch.random.fork_rng(devices=[]):
        try:
            made = transformers.AutoConfig.for_model(**json.loads(config))
            _check_size(transformers, made)
            return _bare(transformers.AutoModel.from_config(made))
        except Exception as error:  # whatever damaged files make a large library raise
            message = f"its network's configuration is damaged: {error!r:.200}"
            raise HardnerError(message) from None


def _check_size(transformers: Any, config: Any) -> None:
    """Refuse a network that would take all memory or never end, before any of it is made."""
    for name, value in config.to_dict().items():
        if name.endswith("layers") and isinstance(value, int) and value > _MOST_LAYERS:
            raise ValueError(f"{name} is {value}")
    with torch.device("meta"):  # tensors without memory
        tried = transformers.AutoModel.from_config(config)
    if (numbers := sum(p.numel() for p in tried.parameters())) > _MOST_NUMBERS:
        raise ValueError(f"{numbers} parameters")


@lru_cache(maxsize=4)
def _fixed(model: Any, device: str) -> dict[str, Tensor]:
    """A network's buffers (position numbers, say) on a device."""
    return {name: value.to(device) for name, value in model.named_buffers()}


def _bare(model: Any) -> Any:
    """The network without its own dropout, and without the pooler that nothing reads."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model.eval().requires_grad_(False)


@contextmanager
def quiet() -> Iterator[Any]:
    """The package transformers, its log and progress bars turned off."""
    transformers = import_extra("transformers", "bert")
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_files(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise FileError(folder, "no Hugging Face model folder: there is no config.json in it")
    if not any(folder.glob("*.safetensors")):
        raise FileError(folder, "no *.safetensors weights in it; pickled weights are not read")
    if not any(any(folder.glob(name)) for name in _VOCABULARIES):
        raise FileError(folder, f"no tokenizer in it: none of {', '.join(_VOCABULARIES)}")


def _check_weights(folder: Path, loading: dict[str, Any]) -> None:
    # Weights that the files lack would be random numbers.
    lacking = {name for name in loading["missing_keys"] if not name.startswith("pooler.")}
    lacking |= {key[0] for key in loading["mismatched_keys"]}
    if lacking:
        message = f"its weights are not those of its config.json: {min(lacking)}"
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise FileError(folder, f"{message}{more} missing or of another shape")


def positions(model: Any, unlimited: int) -> int:
    """The longest window the network has positions for; RoBERTa's begin behind its padding."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    count = getattr(model.config, "max_position_embeddings", unlimited)
    return int(count) - (0 if padding is None else padding + 1)


def _by_word(folder: Path, tokenizer: Any) -> Tokenizer:
    """The tokenizer for one word at a time: no padding, no cutting, a space before the word."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise FileError(folder, "its tokenizer has no fast form (tokenizer.json)")
    described = json.loads(backend.to_str())
    described |= {"padding": None, "truncation": None}
    before = described["pre_tokenizer"] or {}
    for step in (before, *before.get("pretokenizers", ())):
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
    return Tokenizer.from_str(json.dumps(described))


def _id(folder: Path, tokenizer: Any, *names: str) -> int:
    found = [getattr(tokenizer, f"{name}_token_id") for name in names]
    if found == [None] * len(names):
        raise FileError(folder, f"its tokenizer has no {' or '.join(names)} piece")
    return next(int(value) for value in found if value is not None)


def read_classifier(folder: str | Path) -> tuple[Tagger, Params]:
    """The tagger of a folder for token classification, and its parameters."""
    folder = Path(folder)
    encoder = BertEncoder.load(folder)
    config = json.loads((folder / "config.json").read_bytes())
    try:
        tag_set, order = tags_of(_names(config), folder.resolve().name)
    except HardnerError as error:
        raise FileError(folder / "config.json", str(error)) from None
    weight, bias = _classifier(folder, len(config["id2label"]), encoder.size)
    # One more row, for tags of the scheme that the classifier does not have.
    weight = torch.cat((weight, torch.zeros_like(weight[:1])))
    bias = torch.cat((bias, torch.full_like(bias[:1], UNSHOWN)))
    rows = [-1 if row is None else row for row in order]
    decoder = {"decoder.weight": weight[None, None, rows], "decoder.bias": bias[None, None, rows]}
    return Tagger(encoder, (tag_set,), "softmax"), encoder.init(torch.Generator()) | decoder


def tags_of(names: Sequence[str], domain: str) -> tuple[TagSet, list[int | None]]:
    """The tag set that a classifier's names spell, and which of them each of its tags is.

    Names are tags (``B-Disease``, ``B``), else labels, which are read as the scheme IO.
    """
    if OUTSIDE not in names:
        raise HardnerError(f"none of its labels is O: {', '.join(names)[:80]}")
    inside = [name for name in names if name != OUTSIDE]
    matches = [_TAG.fullmatch(name) for name in inside]
    parsed = {name: ("I", name) for name in inside}
    if all(matches):
        parsed = {m[0]: (_PREFIXES[m[1]], m[2] or _NAMELESS) for m in matches if m}
    used = {prefix for prefix, _ in parsed.values()}
    scheme = "IOBES" if used & {"E", "S"} else "IOB2" if "B" in used else "IO"
    labels = tuple(dict.fromkeys(label for _, label in parsed.values()))
    places = {f"{prefix}-{label}": names.index(n) for n, (prefix, label) in parsed.items()}
    places[OUTSIDE] = names.index(OUTSIDE)
    tag_set = TagSet(domain, labels, scheme)
    return tag_set, [places.get(tag) for tag in tag_set.tags]


def _names(config: Mapping[str, Any]) -> list[str]:
    names = config.get("id2label") or {}
    if sorted(names) != sorted(map(str, range(len(names)))):
        raise HardnerError("id2label does not number its labels from 0")
    return [str(names[str(i)]) for i in range(len(names))]


def _classifier(folder: Path, tags: int, size: int) -> tuple[Tensor, Tensor]:
    """The weight [C, H] and bias [C] of the last layer."""
    expected = {"classifier.weight": (tags, size), "classifier.bias": (tags,)}
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        held = read_shard(path)
        found |= {name: held[name].float() for name in expected.keys() & held}
    if {name: tuple(value.shape) for name, value in found.items()} != expected:
        raise FileError(folder, f"no linear layer of {tags} tags called classifier in its weights")
    return found["classifier.weight"], found["classifier.bias"]
