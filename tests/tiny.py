"""Small networks and a small labelled corpus for tests of whatever learns."""

from pathlib import Path

import torch

from hardner.batch import TagSet
from hardner.formats.conll import read_sentences
from hardner.model.characters import Characters
from hardner.model.encoders import Encoder, PieceEncoder, WordEncoder, vocabulary_of
from hardner.model.pieces import Pieces
from hardner.model.transformer import Transformer
from hardner.types import Sentence

ROOT = Path(__file__).parents[1] / "examples" / "tiny"
DOMAINS = ("Disease", "Drug", "Gene", "Species")


def sentences(domain: str, split: str = "train") -> tuple[Sentence, ...]:
    return tuple(read_sentences(ROOT / domain / f"{split}.tsv"))


def tag_sets(scheme: str = "IOB2") -> tuple[TagSet, ...]:
    return tuple(TagSet(d, tuple(sorted({x.label for s in sentences(d) for x in s.spans})), scheme)
                 for d in DOMAINS)
