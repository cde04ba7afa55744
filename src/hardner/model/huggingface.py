"""A Hugging Face folder for token classification as a tagger (extra ``hardner[bert]``)."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hardner.batch import TagSet
from hardner.errors import FileError, HardnerError
from hardner.model.bert import BertEncoder
from hardner.model.decoders import UNSHOWN
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.schemes import OUTSIDE

ARCHITECTURE = "ForTokenClassification"
NAMELESS = "Entity"
"""The label where tags are B, I and O alone."""
_PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
_TAG = re.compile(r"([BIESLU])(?:[-_](.+))?")


def is_classifier(folder: str | Path) -> bool:
    """Whether a folder says that it classifies tokens and is not one of hardner's own."""
    try:
        config = json.loads((Path(folder) / "config.json").read_bytes())
        return any(name.endswith(ARCHITECTURE) for name in config["architectures"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_classifier(folder: str | Path) -> tuple[Tagger, Params]:
    """The tagger and its parameters; weights are safetensors, and nothing is fetched."""
    folder = Path(folder)
    encoder = BertEncoder.load(folder)
    config = json.loads((folder / "config.json").read_bytes())
    try:
        tag_set, order = tags_of(_names(config), folder.resolve().name)
    except HardnerError as error:
        raise FileError(folder / "config.json", str(error)) from None
    weight, bias = _classifier(folder, len(config["id2label"]), encoder.size)
    decoder = {
        "decoder.weight": torch.stack([_row(weight, row, 0.0) for row in order]),  # [C, H]
        "decoder.bias": torch.stack([_row(bias, row, UNSHOWN) for row in order]),  # [C]
    }
    tagger = Tagger(encoder, (tag_set,), "softmax")
    return tagger, encoder.init(torch.Generator()) | {n: p[None, None] for n, p in decoder.items()}


def tags_of(names: Sequence[str], domain: str) -> tuple[TagSet, list[int | None]]:
    """The tag set that a classifier's names spell, and which of them each of its tags is.

    Names are tags (``B-Disease``, ``B``), else labels, which are read as the scheme IO.
    """
    if OUTSIDE not in names:
        raise HardnerError(f"none of its labels is O: {', '.join(names)[:80]}")
    inside = [name for name in names if name != OUTSIDE]
    matches = {name: _TAG.fullmatch(name) for name in inside}
    parsed: dict[str, tuple[str, str]] = {}
    for name in inside:
        match = matches[name] if all(matches.values()) else None
        parsed[name] = (_PREFIXES[match[1]], match[2] or NAMELESS) if match else ("I", name)
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
    """The last layer: [C, H] and [C]."""
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt") as file:
                wanted = {"classifier.weight", "classifier.bias"} & set(file.keys())
                found |= {name: file.get_tensor(name).float() for name in wanted}
        except SafetensorError as error:
            raise FileError(path, f"damaged weights: {error}") from None
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    expected = {"classifier.weight": (tags, size), "classifier.bias": (tags,)}
    if shapes != expected:
        raise FileError(folder, f"no linear layer of {tags} tags called classifier in its weights")
    return found["classifier.weight"], found["classifier.bias"]


def _row(values: Tensor, row: int | None, missing: float) -> Tensor:
    return torch.full_like(values[0], missing) if row is None else values[row]
