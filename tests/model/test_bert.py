"""Hugging Face folders: words found among the pieces, the network's own vectors, bad folders."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import save_file
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, RobertaConfig, RobertaModel

from hardner.batch import Batch, Store
from hardner.errors import FileError
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import Mode, Params
from hardner.schemes import TagSet
from hardner.types import Sentence

PLAIN, TWICE = Mode(), Mode(twice=True)
SENTENCES = (
    Sentence(("Mutations", "in", "BRCA1", "were", "found", ".")),
    Sentence(("IL-2", "日本", "", "é", "-", "mutationation", "[SEP]", "a b", "\u200b")),
    Sentence(tuple("ation" * n for n in range(1, 13))),
    Sentence(tuple("x" * n for n in range(1, 13))),
    Sentence(("in",)),
)


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Byte-level pieces, padding 1, positions that begin behind it."""
    folder = tmp_path_factory.mktemp("roberta")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = ByteLevelBPETokenizer()
    texts = [" ".join(s.tokens) for s in tiny.everything()[0]]
    made.train_from_iterator(texts, 500, special_tokens=special, show_progress=False)
    made.save_model(str(folder))
    config = RobertaConfig(
        vocab_size=made.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=302,
        pad_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        RobertaModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, roberta: Path) -> Path:
    return tiny.bert_folder() if request.param == "bert" else roberta


def batch_of(encoder: BertEncoder, sentences: tuple[Sentence, ...] = SENTENCES) -> Batch:
    store = Store(sentences, encoder.features(sentences), (TagSet("X", ()),), [0] * len(sentences))
    rows = torch.arange(len(sentences)).unsqueeze(0)
    return store.batch(rows, store.widths(rows.numpy()))


def double(encoder: BertEncoder) -> Params:
    return {n: p.double() for n, p in encoder.init(torch.Generator()).items()}


def test_words_are_found_where_transformers_finds_them(folder: Path) -> None:
    encoder = BertEncoder.load(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    features = encoder.features(SENTENCES)
    counts = set()
    for sentence, ours, heads in zip(SENTENCES, *features.streams.values(), strict=True):
        peer = tokenizer(list(sentence.tokens), is_split_into_words=True)
        owners = peer.word_ids()
        expected, kept = [], []
        for word in range(len(sentence)):
            places = [place for place, owner in enumerate(owners) if owner == word]
            counts.add(len(places))
            kept += [peer["input_ids"][p] for p in places] or [tokenizer.unk_token_id]
            expected.append(len(kept) + 1 - max(len(places), 1))
        assert heads.tolist() == expected
        ids = [peer["input_ids"][0], *kept, peer["input_ids"][-1]]
        assert [piece - 1 for piece in ours] == ids
    if folder == tiny.bert_folder():
        assert counts >= set(range(13))  # from no pieces to twelve


def test_vectors_are_the_networks_own_at_the_first_pieces(folder: Path) -> None:
    encoder, tokenizer = BertEncoder.load(folder), AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    plain = tuple(Sentence(tuple(w for w in s.tokens if w.strip("\u200b"))) for s in SENTENCES)
    batch = batch_of(encoder, plain)
    ours = encoder(encoder.init(torch.Generator()), batch, PLAIN)
    for row, sentence in enumerate(plain):
        ids = [piece - 1 for piece in encoder.features([sentence]).streams["pieces"][0].tolist()]
        with torch.no_grad():
            peer = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        assert len(ids) <= encoder.pieces.limit
        heads = batch.inputs["heads"][0, row, : len(sentence)]
        torch.testing.assert_close(ours.words[0, row, : len(sentence)], peer[heads])
        torch.testing.assert_close(ours.whole[0, row], peer[0])
    assert tokenizer.pad_token_id == encoder.padding


def test_long_sentences_are_read_in_windows(folder: Path) -> None:
    encoder = BertEncoder.load(folder, limit=24)
    assert (encoder.pieces.limit, encoder.pieces.overlap) == (24, 6)
    long = Sentence(tuple(w for s in SENTENCES[:3] for w in s.tokens if w) * 2)
    batch = batch_of(encoder, (long, SENTENCES[4]))
    params = encoder.init(torch.Generator())
    found = encoder(params, batch, PLAIN)
    pieces, heads = batch.inputs["pieces"][0, 0], batch.inputs["heads"][0, 0].tolist()
    assert len(pieces) > 3 * 24
    for word, head in enumerate(heads):
        window = pieces[head // 24 * 24 : head // 24 * 24 + 24] - 1
        with torch.no_grad():
            peer = encoder.model(input_ids=window.unsqueeze(0)).last_hidden_state[0, head % 24]
        torch.testing.assert_close(found.words[0, 0, word], peer)
        first = encoder.pieces.of(long.tokens[word])[0]
        assert pieces[head] == first
    alone = encoder(params, batch_of(encoder, (SENTENCES[4],)), PLAIN)
    torch.testing.assert_close(found.words[0, 1, :1], alone.words[0, 0])


def test_a_window_is_no_longer_than_the_network_has_positions(roberta: Path) -> None:
    assert BertEncoder.load(tiny.bert_folder(), limit=1000).pieces.limit == 128
    encoder = BertEncoder.load(roberta, limit=1000)
    assert encoder.pieces.limit == 300  # 302 positions, two of them before the first piece
    long = Sentence(("mutation",) * 400)
    found = encoder(encoder.init(torch.Generator()), batch_of(encoder, (long,)), PLAIN)
    assert found.words.isfinite().all()


def test_the_gradient_has_a_gradient(folder: Path) -> None:
    """A Hessian-vector product against differences of gradients."""
    encoder = BertEncoder.load(folder)
    batch = batch_of(encoder, SENTENCES[:2])
    params = {n: p.requires_grad_() for n, p in double(encoder).items()}
    leaves = list(params.values())
    rng = torch.Generator().manual_seed(0)
    ways = [torch.randn(p.shape, generator=rng, dtype=p.dtype) for p in leaves]

    def gradient(step: float, graph: bool = False) -> list[Tensor]:
        moved = {n: p + step * way for (n, p), way in zip(params.items(), ways, strict=True)}
        loss = encoder(moved, batch, TWICE).words.sin().sum()
        return list(torch.autograd.grad(loss, leaves, create_graph=graph))

    dot = sum((g * way).sum() for g, way in zip(gradient(0, graph=True), ways, strict=True))
    exact = torch.autograd.grad(dot, leaves)
    ahead, behind = gradient(1e-5), gradient(-1e-5)
    for name, h, a, b in zip(params, exact, ahead, behind, strict=True):
        assert (h - (a - b) / 2e-5).norm() < 1e-5 * h.norm().clamp(min=1), name


def test_what_the_network_does_not_use_is_not_learnt() -> None:
    encoder = BertEncoder.load(tiny.bert_folder())
    params = {n: p.requires_grad_() for n, p in double(encoder).items()}
    loss = encoder(params, batch_of(encoder), PLAIN).words.square().sum()
    grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
    assert [n for n, g in zip(params, grads, strict=True) if g is None] == []


def test_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    BertEncoder.load(tiny.bert_folder())
    assert capfd.readouterr() == ("", "")


def test_settings_of_the_folders_tokenizer_do_not_reach_single_words(tmp_path: Path) -> None:
    """Some folders pad and cut in their tokenizer.json."""
    shutil.copytree(tiny.bert_folder(), tmp_path, dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path).backend_tokenizer
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "vocab.txt").unlink()
    ours, expected = (BertEncoder.load(f).pieces for f in (tmp_path, tiny.bert_folder()))
    for word in ("mutation", "xxxxxx", "in"):
        assert ours.of(word) == expected.of(word)


def spoil(folder: Path, how: str) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    if how == "pickled":
        weights.rename(folder / "pytorch_model.bin")
    elif how == "no config":
        config.unlink()
    elif how == "no tokenizer":
        (folder / "vocab.txt").unlink()
    elif how == "garbage weights":
        weights.write_bytes(b"garbage" * 100)
    elif how == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-1000])
    elif how == "other weights":
        save_file({"x": torch.zeros(3)}, weights, metadata={"format": "pt"})
    elif how == "garbage config":
        config.write_text("{nope")
    elif how == "unknown kind":
        config.write_text('{"model_type": "hyperbert"}')
    elif how == "other shape":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"intermediate_size": 48}))
    elif how in ("num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings"):
        config.write_text(json.dumps(json.loads(config.read_text()) | {how: 10**9}))
    elif how == "larger vocabulary":
        with (folder / "vocab.txt").open("a") as file:
            file.write("one\nmore\n")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("pickled", "no *.safetensors weights in it; pickled weights are not read"),
        ("no config", "no Hugging Face model folder: there is no config.json in it"),
        ("no tokenizer", "no tokenizer in it: none of tokenizer.json, vocab.txt"),
        ("garbage weights", "cannot be loaded: "),
        ("cut weights", "cannot be loaded: "),
        ("other weights", "its weights are not those of its config.json: embeddings.LayerNorm.b"),
        ("garbage config", "cannot be loaded: "),
        ("unknown kind", "cannot be loaded: "),
        ("other shape", "encoder.layer.0.intermediate.dense.bias and 5 more missing or of"),
        ("num_hidden_layers", "cannot be loaded: ValueError('num_hidden_layers is 1000000000')"),
        ("hidden_size", "cannot be loaded: "),
        ("vocab_size", "cannot be loaded: ValueError('32"),
        ("max_position_embeddings", "cannot be loaded: ValueError('32"),
        ("larger vocabulary", "its parts do not belong together: the tokenizer has "),
    ],
)
def test_a_bad_folder_gets_one_clear_line(
    how: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny.bert_folder(), folder)
    spoil(folder, how)
    with pytest.raises(FileError) as told:
        BertEncoder.load(folder)
    message = str(told.value)
    assert message.startswith(f"{folder}: ")
    assert says in message
    assert "\n" not in message
    assert capfd.readouterr() == ("", "")


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no config\.json"):
        BertEncoder.load(tmp_path / "absent")
