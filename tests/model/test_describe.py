"""A tagger goes into a folder and comes out the same; a folder that is not right is refused."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from hardner import checkpoint
from hardner.errors import FileError, HardnerError
from hardner.features import Pieces
from hardner.model.describe import build_tagger, describe_tagger, files_of, load_model, save_model
from hardner.model.encoders import EncoderWithCopies, WordEncoder
from hardner.model.huggingface import BertEncoder
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder
from hardner.schemes import TagSet
from hardner.types import Sentence

HEADS = ("attention", "bcls", "mcls", "mtcls")


def same_work(one: Tagger, other: Tagger, params: Any, loaded: Any) -> None:
    found, domains = tiny.everything("test")
    found = [*found[:8], Sentence(("日本", "", "x" * 50, "IL-2", "\ud800")), Sentence(())]
    names = ("tag", "domain", "bcls", "mcls", "mtcls")
    results = []
    for tagger, own in ((one, params), (other, loaded)):
        store = tagger.store(found, [*domains[:8], 0, 0])
        rows = torch.arange(len(found)).unsqueeze(0)
        batch = store.batch(rows, store.widths(rows.numpy()))
        tags = tagger.decode(own, batch, torch.arange(4))
        results.append([tags, *(tagger.losses(own, batch, names)[name] for name in names)])
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", tiny.KINDS)
@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_what_is_loaded_decodes_bit_for_bit_the_same(
    kind: str, decoder: str, tmp_path: Path
) -> None:
    tagger = tiny.tagger(kind, decoder, "IOBES", HEADS)
    params = tiny.params(tagger, dtype=torch.float32)
    save_model(tmp_path / "model", tagger, params)
    loaded, read = load_model(tmp_path / "model")
    assert list(read) == list(params)
    assert all(torch.equal(read[n], params[n]) for n in params)
    assert describe_tagger(loaded) == describe_tagger(tagger)
    assert (loaded.tag_sets, loaded.decoder, loaded.heads) == (
        tagger.tag_sets,
        tagger.decoder,
        tagger.heads,
    )
    same_work(tagger, loaded, params, read)
    save_model(tmp_path / "again", loaded, read)
    for path in (tmp_path / "model").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_description_is_json_and_names_no_place(kind: str) -> None:
    tagger = tiny.tagger(kind, heads=HEADS)
    written = json.dumps(describe_tagger(tagger))
    assert json.loads(written) == describe_tagger(tagger)
    assert str(tiny.bert_folder().parent) not in written + str(files_of(tagger))


def test_a_bert_folder_is_not_needed_any_more(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in tiny.bert_folder().iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    tagger = Tagger(BertEncoder.load(source, limit=32), tiny.tag_sets())
    save_model(tmp_path / "model", tagger, tagger.init())
    for path in source.iterdir():
        path.unlink()
    loaded, params = load_model(tmp_path / "model")
    assert isinstance(loaded.encoder, BertEncoder)
    assert loaded.encoder.pieces.limit == 32
    store = loaded.store(tiny.sentences("Disease"))
    rows = torch.tensor([[0]])
    assert loaded.decode(params, store.batch(rows, store.widths(rows.numpy()))).shape[:2] == (1, 1)


def test_loading_leaves_the_random_numbers_alone(tmp_path: Path) -> None:
    tagger = tiny.tagger("bert")
    save_model(tmp_path / "model", tagger, tagger.init())
    before = torch.get_rng_state()
    load_model(tmp_path / "model")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("vocabulary", [(), ("",), ("a", " ", "\u2028", "\ud800", "b\r", "\x85")])
def test_any_word_survives(vocabulary: tuple[str, ...], tmp_path: Path) -> None:
    tagger = Tagger(WordEncoder(vocabulary, 3, hidden=2), (TagSet("X", ("x",)),))
    save_model(tmp_path / "model", tagger, tagger.init())
    encoder = load_model(tmp_path / "model")[0].encoder
    assert isinstance(encoder, WordEncoder)
    assert encoder.vocabulary == vocabulary


def test_weights_can_be_smaller_and_in_pieces(tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm")
    params = tiny.params(tagger, dtype=torch.float32)
    save_model(tmp_path / "model", tagger, params, shard_bytes=10_000, dtype=torch.float16)
    assert len(list((tmp_path / "model").glob("weights-*.safetensors"))) > 1
    _, read = load_model(tmp_path / "model")
    for name, value in params.items():
        torch.testing.assert_close(read[name], value, rtol=1e-3, atol=1e-3)


Change = Callable[[dict[str, Any]], object]
BAD: dict[str, tuple[Change, str]] = {
    "encoder": (
        lambda c: c["encoder"].update(kind="mamba"),
        "unknown encoder 'mamba'; this version of hardner knows words, pieces, bert",
    ),
    "decoder": (
        lambda c: c.update(decoder="semi-crf"),
        'decoder: expected "crf" or "softmax", got \'semi-crf\'',
    ),
    "head": (lambda c: c["heads"]["domain"].update(kind="gan"), "unknown head 'gan'; "),
    "scheme": (lambda c: c["tag_sets"][0].update(scheme="IOBX"), "unknown tag scheme 'IOBX'; "),
    "cell": (
        lambda c: c["encoder"].update(cell="sru"),
        'encoder.cell: expected "lstm" or "gru", got \'sru\'',
    ),
    "option": (lambda c: c["encoder"].update(depth=2), "encoder.depth: no such key; [encoder] has"),
    "missing": (lambda c: c["encoder"].pop("hidden"), "parameter encoder.recurrent.weight_ih is "),
    "nothing": (lambda c: c.clear(), "damaged or newer than this hardner: KeyError('encoder')"),
    "type": (
        lambda c: c["encoder"].update(hidden="x"),
        "encoder.hidden: expected a whole number 1 to 10,000,000, got 'x'",
    ),
    "list": (lambda c: c.update(heads=[]), "damaged or newer than this hardner: "),
    "shape": (
        lambda c: c["encoder"].update(hidden=11),
        "parameter encoder.recurrent.weight_ih is [1, 2, 40, 26], the network wants [1, 2, 44, 26]",
    ),
    "lacking": (
        lambda c: c["heads"].update(mtcls={"kind": "extent", "size": 20}),
        "parameter mtcls.bias is missing",
    ),
    "foreign": (
        lambda c: c["heads"].pop("domain"),
        "parameter critic.attention.bias is not part of the network",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_folder_that_does_not_fit_gets_one_clear_line(name: str, tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm", heads=("attention",))
    config = json.loads(json.dumps(describe_tagger(tagger)))
    change, says = BAD[name]
    change(config)
    checkpoint.save_checkpoint(tmp_path / "model", tagger.init(), config, files_of(tagger))
    with pytest.raises(FileError) as told:
        load_model(tmp_path / "model")
    message = str(told.value)
    assert message.startswith(f"{tmp_path / 'model'}: {says}")
    assert "\n" not in message


def branched(depth: int) -> Tagger:
    """Copies of a transformer, of which each further one has its own last norm."""
    encoder = tiny.encoder("transformer")
    for _ in range(depth):
        encoder = EncoderWithCopies(encoder, (("encoder.norm.weight",),))
    return Tagger(encoder, tiny.tag_sets())


def nest(config: dict[str, Any]) -> None:
    for _ in range(300):
        config["encoder"] = {"kind": "branched", "base": config["encoder"], "changed": []}


EDITS: dict[str, tuple[Callable[[], Tagger], Change, str]] = {
    **{
        f"{name} {value}": (
            lambda: tiny.tagger("transformer"),
            lambda c, name=name, value=value: c["encoder"]["transformer"].update({name: value}),
            f"transformer.{name}: expected a whole number 1 to ",
        )
        for name in ("vocabulary", "size", "layers", "heads", "inner")
        for value in (0, -1, 10**9, 1.0, float("inf"), True, None, [2])
    },
    **{
        f"{name} {value}": (
            lambda: tiny.tagger("transformer"),
            lambda c, name=name, value=value: c["encoder"]["pieces"].update({name: value}),
            f"pieces.{name}: expected a whole number ",
        )
        for name in ("first", "last", "unknown", "limit", "overlap")
        for value in (-1, 1.5, "2", [2], None)
    },
    **{
        f"{name} {value}": (
            lambda: tiny.tagger("transformer"),
            lambda c, name=name, value=value: c["encoder"]["pieces"].update({name: value}),
            says,
        )
        for name, value, says in (
            ("first", 0, "pieces.first: expected"),
            ("limit", 10**9, "pieces.limit: expected"),
            ("overlap", 0, "windows of 256 pieces cannot overlap by 0"),
            ("overlap", 10**9, "windows of 256 pieces cannot overlap by 1000000000"),
        )
    },
    "a piece beyond": (
        lambda: tiny.tagger("transformer"),
        lambda c: c["encoder"]["pieces"].update(first=10**4),
        "its tokenizer's pieces go up to 10000, the network's to ",
    ),
    "a piece beyond BERT's": (
        lambda: tiny.tagger("bert"),
        lambda c: c["encoder"]["pieces"].update(last=10**4),
        "its tokenizer's pieces go up to 10000, the network's to ",
    ),
    "windows beyond BERT's": (
        lambda: tiny.tagger("bert"),
        lambda c: c["encoder"]["pieces"].update(limit=129),
        "encoder.padding or encoder.pieces.limit is beyond",
    ),
    "padding beyond BERT's": (
        lambda: tiny.tagger("bert"),
        lambda c: c["encoder"].update(padding=10**4),
        "encoder.padding or encoder.pieces.limit is beyond",
    ),
    "no kind": (lambda: tiny.tagger("bert"), lambda c: c["encoder"].update(kind=[]), "unknown enc"),
    "labels": (
        lambda: tiny.tagger("bilstm"),
        lambda c: c["tag_sets"][0].update(labels=[["x"]]),
        "tag_sets.labels: expected a list of texts",
    ),
    "widths": (
        lambda: tiny.tagger("bilstm"),
        lambda c: c["encoder"]["characters"].update(widths=[1, 10**9]),
        "characters.widths: expected a list of a whole number 1 to 20",
    ),
    "no widths": (
        lambda: tiny.tagger("bilstm"),
        lambda c: c["encoder"]["characters"].update(widths=[]),
        "characters.widths: filters of letters need at least one width",
    ),
    "branches": (lambda: branched(1), nest, "its encoder is a copy of copies"),
    "two branches": (lambda: branched(2), lambda c: None, "its encoder is a copy of copies"),
    "too many branches": (
        lambda: branched(1),
        lambda c: c["encoder"]["changed"].extend([[], [], []]),
        "its encoder has more copies than there are tag sets",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_sizes_and_kinds_are_checked_before_anything_is_made(name: str, tmp_path: Path) -> None:
    made, change, says = EDITS[name]
    tagger = made()
    save_model(tmp_path / "model", tagger, tagger.init())
    load_model(tmp_path / "model") if "branches" not in name else None
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text("utf-8"))
    change(config["config"])
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(FileError) as told:
        load_model(tmp_path / "model")
    message = str(told.value)
    assert says in message and message.startswith(str(tmp_path)) and "\n" not in message


def test_a_tokenizer_without_a_piece_for_the_unknown_is_refused() -> None:
    tagger = tiny.tagger("transformer")
    files = files_of(tagger)
    lacking = files["tokenizer.json"].replace(b'"unk_token":"[UNK]"', b'"unk_token":"[UNX]"')
    assert lacking != files["tokenizer.json"]
    with pytest.raises(HardnerError, match=r"tokenizer\.json is damaged: .*UNK"):
        build_tagger(describe_tagger(tagger), {"tokenizer.json": lacking})


@pytest.mark.parametrize("change", [{"num_hidden_layers": 10**9}, {"intermediate_size": 10**9}])
def test_a_network_too_large_for_any_machine_is_refused(change: dict[str, int]) -> None:
    tagger = tiny.tagger("bert")
    files = files_of(tagger)
    bert = json.dumps(json.loads(files["bert.json"]) | change).encode()
    with pytest.raises(
        HardnerError, match=r"damaged: ValueError\(.(num_hidden_layers is )?\d+( parameters)?'"
    ):
        build_tagger(describe_tagger(tagger), files | {"bert.json": bert})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm")
    params = tagger.init()
    params["decoder.bias"] = params["decoder.bias"].clone()
    params["decoder.bias"][0, 0, 0] = value
    save_model(tmp_path / "model", tagger, params)
    with pytest.raises(FileError, match=r"parameter decoder\.bias holds what is no finite number"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_parameters_of_several_types_are_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm")
    params = tagger.init()
    save_model(
        tmp_path / "model", tagger, params | {"decoder.bias": params["decoder.bias"].to(dtype)}
    )
    with pytest.raises(FileError, match="its parameters are of several types"):
        load_model(tmp_path / "model")


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
def test_a_configuration_that_never_ends_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(FileError, match=r"no config\.json in it"):
        load_model(tmp_path)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_missing_and_damaged_files_are_named(kind: str) -> None:
    tagger = tiny.tagger(kind)
    config, files = describe_tagger(tagger), files_of(tagger)
    for name in files:
        without = {n: content for n, content in files.items() if n != name}
        with pytest.raises(HardnerError, match=f"^{name} is missing$"):
            build_tagger(config, without)
        if name.endswith(".json"):
            with pytest.raises(HardnerError, match="damaged"):
                build_tagger(config, files | {name: b"{nope"})


def test_parameters_of_another_network_are_not_saved(tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm")
    with pytest.raises(HardnerError, match=r"parameter frozen\.words is"):
        save_model(tmp_path / "model", tagger, tiny.params(tagger, tasks=2))
    assert not (tmp_path / "model").exists()


def test_parameters_that_the_tagger_has_no_more_are_left_out(tmp_path: Path) -> None:
    """As after `with_domains`, which takes the heads away."""
    full = tiny.tagger("bilstm", heads=("domain",))
    bare = full.with_domains(full.tag_sets)
    save_model(tmp_path / "model", bare, full.init())
    _, params = load_model(tmp_path / "model")
    assert params.keys() == bare.init().keys() < full.init().keys()
    lacking = {n: p for n, p in bare.init().items() if n != "decoder.bias"}
    with pytest.raises(HardnerError, match=r"parameter decoder\.bias is missing"):
        save_model(tmp_path / "other", bare, lacking)


def test_what_cannot_be_stored_is_named() -> None:
    reads = tiny.encoder("transformer")
    assert isinstance(reads, PieceEncoder)
    function = PieceEncoder(reads.transformer, Pieces(lambda _: [5], 1, 2, 3))
    with pytest.raises(HardnerError, match="without a tokenizer"):
        files_of(Tagger(function, tiny.tag_sets()))
    with pytest.raises(HardnerError, match="does not fit on a line"):
        files_of(Tagger(WordEncoder(("a\nb",)), tiny.tag_sets()))


def test_a_foreign_model_folder_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(2)}, tmp_path / "weights.safetensors")
    with pytest.raises(FileError, match="not a hardner model"):
        load_model(tmp_path)
