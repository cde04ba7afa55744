"""The example corpus, and small networks of every kind over it, for tests of whatever learns."""

import atexit
import json
import lzma
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from hardner.batch import Batch
from hardner.features import Pieces
from hardner.formats.conll import read_sentences
from hardner.model.characters import Characters
from hardner.model.encoders import Encoder, WordEncoder, vocabulary_of
from hardner.model.heads import Discriminator, ExtentHead, Head, SentenceHead
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import Params
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder, Transformer
from hardner.schemes import TagSet
from hardner.types import Sentence

ROOT = Path(__file__).parents[1] / "examples" / "tiny"
DOMAINS = ("Disease", "Drug", "Gene", "Species")
KINDS = ("bilstm", "bigru", "transformer", "bert")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@cache
def sentences(domain: str, split: str = "train") -> tuple[Sentence, ...]:
    return tuple(read_sentences(ROOT / domain / f"{split}.tsv"))


def everything(split: str = "train") -> tuple[list[Sentence], list[int]]:
    """The sentences of all domains, and the domain of each as an index into `DOMAINS`."""
    found = [(s, d) for d, domain in enumerate(DOMAINS) for s in sentences(domain, split)]
    return [s for s, _ in found], [d for _, d in found]


def tag_sets(scheme: str = "IOB2") -> tuple[TagSet, ...]:
    labels = {d: {span.label for s in sentences(d) for span in s.spans} for d in DOMAINS}
    return tuple(TagSet(d, tuple(sorted(labels[d])), scheme) for d in DOMAINS)


@cache
def vocabulary() -> tuple[str, ...]:
    """The words of the training sentences of all domains."""
    return vocabulary_of(everything()[0])


@cache
def encoder(kind: str) -> Encoder:
    """Of one of `KINDS`; the same object each time."""
    if kind == "transformer":
        pieces = Pieces.by(tokenizer())
        return PieceEncoder(Transformer(len(piece_list()), 16, 2, 2, 32), pieces)
    if kind == "bert":
        return BertEncoder.load(bert_folder())
    characters = Characters(embedding=6, filters=8, widths=(2, 3), recurrent=6)
    return WordEncoder(
        vocabulary(),
        dimension=12,
        train_words=kind == "bigru",
        characters=characters,
        cell="lstm" if kind == "bilstm" else "gru",
        hidden=10,
        skip=kind == "bilstm",
    )


def tagger(
    kind: str, decoder: str = "crf", scheme: str = "IOB2", heads: Sequence[str] = ()
) -> Tagger:
    """Args: ``heads`` of domain, attention (the domain by MetaNER's), bcls, mcls and mtcls."""
    reads = encoder(kind)
    made: dict[str, Head] = {
        "domain": SentenceHead("domain", reads.size, len(DOMAINS), "mean"),
        "attention": Discriminator(reads.size, len(DOMAINS)),
        "bcls": SentenceHead("bcls", reads.size, 2, "cls"),
        "mcls": SentenceHead("mcls", reads.size, 4, "max"),
        "mtcls": ExtentHead(reads.size),
    }
    wanted = {"domain" if name == "attention" else name: made[name] for name in heads}
    return Tagger(reads, tag_sets(scheme), decoder, wanted)  # type: ignore[arg-type]


def params(of: Tagger, tasks: int = 1, dtype: torch.dtype = torch.float64) -> Params:
    """Parameters of a tagger, each task its own, none of them at a special place such as 0."""
    made = []
    for task in range(tasks):
        rng = torch.Generator().manual_seed(task + 1)
        fresh = {n: p.to(dtype) for n, p in of.init(task).items()}
        made.append(
            {n: p + 0.1 * torch.randn(p.shape, generator=rng).to(p) for n, p in fresh.items()}
        )
    return {name: torch.cat([p[name] for p in made]) for name in made[0]}


def batch(of: Tagger, tasks: int = 1, rows: int = 3, split: str = "train") -> Batch:
    """Tasks of the domains in turn, each with the next sentences of its own."""
    found, domains = everything(split)
    store = of.store(found, domains)
    picked, start = [], [domains.index(d) for d in range(len(DOMAINS))]
    for task in range(tasks):
        first = start[task % len(DOMAINS)] + task // len(DOMAINS) * rows
        picked.append(list(range(first, first + rows)))
    chosen = torch.tensor(picked)
    return store.batch(chosen, store.widths(chosen.numpy()))


@cache
def piece_list() -> tuple[str, ...]:
    """Special pieces, every letter of the corpus at and behind the start of a word, some words."""
    words = vocabulary()
    letters = sorted({letter for word in words for letter in word})
    common = [word for word in words if word.isalpha() and len(word) > 1][::3]
    return *SPECIAL, *letters, *(f"##{letter}" for letter in letters), *common, "##ation", "##in"


@cache
def tokenizer() -> Tokenizer:
    """A cased WordPiece tokenizer."""
    index = {piece: i for i, piece in enumerate(piece_list())}
    made = Tokenizer(models.WordPiece(index, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


@cache
def bert_folder() -> Path:
    """A random BERT as others would publish it, in a folder that lasts as long as the session."""
    from transformers import BertConfig, BertModel
    from transformers.utils import logging

    folder = Path(tempfile.mkdtemp(prefix="hardner-bert-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = BertConfig(
        vocab_size=len(piece_list()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(piece_list()) + "\n", "utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


def write_catalogue_corpora(folder: Path) -> Path:
    """Two corpora that the catalogue knows, made of the tiny ones, in a folder."""
    for name, domain in (("BC5CDR-chem", "Drug"), ("BC2GM", "Gene")):
        (folder / name).mkdir()
        for split in ("train", "devel", "test"):
            text = (ROOT / domain / f"{split}.tsv").read_bytes()
            (folder / name / f"{split}.tsv.xz").write_bytes(lzma.compress(text))
    return folder
