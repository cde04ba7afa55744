"""Any BERT-like Hugging Face folder on disk as an encoder (extra ``hardner[bert]``)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call

from hardner.batch import Batch, Features
from hardner.errors import FileError, HardnerError
from hardner.model.encoders import Encoded, in_windows, take_words
from hardner.model.layers import Mode, Params, scoped
from hardner.model.pieces import Pieces
from hardner.types import Sentence


@dataclass(frozen=True)
class BertEncoder:
    """The network of a folder, called with whatever parameters a task has; one task at a time."""

    folder: Path
    model: Any = field(compare=False, repr=False)
    pieces: Pieces = field(compare=False)
    padding: int
    """The folder's own padding piece; pieces are shifted so that 0 is free for ours."""

    @classmethod
    def load(cls, folder: str | Path, limit: int = 256) -> "BertEncoder":
        """Read a folder's configuration, tokenizer and safetensors weights; nothing is fetched."""
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise HardnerError(
                "a BERT folder needs transformers: pip install hardner[bert]"
            ) from None
        folder = Path(folder)
        if not (folder / "config.json").is_file():
            raise FileError(
                folder, "no Hugging Face model folder: there is no config.json in it"
            )
        if not any(folder.glob("*.safetensors")):
            raise FileError(folder, "no *.safetensors weights in it; pickled weights are not read")
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **local)
            model = AutoModel.from_pretrained(
                folder, use_safetensors=True, attn_implementation="sdpa", **local
            )
        except (OSError, ValueError, KeyError) as error:
            raise FileError(folder, f"cannot be loaded: {str(error).splitlines()[0]}") from None
        model.eval().requires_grad_(False)
        longest = getattr(model.config, "max_position_embeddings", limit)
        padding = tokenizer.pad_token_id or 0

        def split(word: str) -> Sequence[int]:
            ids = tokenizer([word], is_split_into_words=True, add_special_tokens=False)
            return [i + 1 for i in ids["input_ids"]]

        pieces = Pieces(
            split,
            first=_id(tokenizer, "cls", "bos") + 1,
            last=_id(tokenizer, "sep", "eos") + 1,
            unknown=_id(tokenizer, "unk", "mask") + 1,
            limit=min(limit, longest),
            overlap=min(64, min(limit, longest) // 4),
        )
        return cls(folder, model, pieces, padding)

    @property
    def size(self) -> int:
        """The model's own hidden size."""
        return int(self.model.config.hidden_size)

    def init(self, rng: torch.Generator) -> Params:
        """The folder's weights."""
        return {
            f"encoder.{name}": value.detach().clone().float().unsqueeze(0)
            for name, value in self.model.named_parameters()
        }

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """Windows of pieces, and the place of each word."""
        return self.pieces.features(sentences)

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """Each word's vector is that of its first piece."""
        windows = in_windows(batch.inputs["pieces"], self.pieces.limit)  # [M, W, P]
        there = windows > 0
        there[..., 0] = True
        ids = torch.where(windows > 0, windows - 1, self.padding)
        own = scoped(params, "encoder")
        axis = next(iter(own.values())).shape[0]
        if axis == 1:
            ids, there = ids.flatten(0, 1).unsqueeze(0), there.flatten(0, 1).unsqueeze(0)
        self.model.set_attn_implementation("eager" if mode.twice else "sdpa")
        outs = [
            functional_call(
                self.model,
                {name: value[task] for name, value in own.items()},
                kwargs={"input_ids": ids[task], "attention_mask": there[task].long()},
            ).last_hidden_state
            for task in range(axis)
        ]  # each [W, P, H]
        vectors = torch.stack(outs).view(*windows.shape, -1)
        return take_words(vectors, batch, mode)


def _id(tokenizer: Any, *names: str) -> int:
    """The first of the special pieces that the tokenizer has."""
    for name in names:
        value = getattr(tokenizer, f"{name}_token_id")
        if value is not None:
            return int(value)
    raise HardnerError(f"the tokenizer has no {' or '.join(names)} token")
