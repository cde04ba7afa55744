"""The papers' networks counted by hand, and the command that shows them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch

from hardner.cli import main
from hardner.model.describe import NETWORKS, load_model, parameter_shapes, save_model
from hardner.model.layers import part_of

WORDS, LETTERS = 1_000, 148
LABELS = {"Disease": ("Disease",), "Drug": ("Chemical",), "Gene": ("Gene",)}
Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hardner", "model", "show", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
            sys.exit(0)
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, err

    return run


def parts(show: Show, *arguments: object) -> dict[str, int]:
    code, out, _ = show(*arguments, "--json")
    assert code == 0
    found = json.loads(out)
    counts = {part["name"]: part["parameters"] for part in found["parts"]}
    assert found["parameters"] == sum(counts.values())
    assert found["learns"] == sum(n for name, n in counts.items() if part_of(name) != "frozen")
    return counts


def test_hgda_by_hand(show: Show) -> None:
    """200 + 50 + 50 = 300 -> 2 x 128; tags O, B, I; three source domains."""
    convolution = 12 * (2 * 50 + 1) + 12 * (3 * 50 + 1) + 13 * (4 * 50 + 1) + 13 * (5 * 50 + 1)
    letter_lstm = 2 * (4 * 25 * (50 + 25) + 2 * 4 * 25)
    lstm = 2 * (4 * 128 * (300 + 128) + 2 * 4 * 128)
    decoder = 3 * (256 * 3 + 3 + 3 * 3 + 3 + 3)
    assert parts(show, "hgda", "--vocabulary", WORDS) == {
        "frozen.words": (WORDS + 1) * 200,
        "encoder.characters": LETTERS * 50 + convolution + letter_lstm,
        "encoder.recurrent": lstm,
        "decoder": decoder,
        "critic": 256 * 3 + 3,
    }


def test_metaner_by_hand(show: Show) -> None:
    """300 + 100 = 400 -> 2 x 128; tags O, B, I, E, S; the discriminator's two layers."""
    convolution = 25 * sum(width * 50 + 1 for width in (2, 3, 4, 5))
    gru = 2 * (3 * 128 * (400 + 128) + 2 * 3 * 128)
    decoder = 4 * (256 * 5 + 5 + 5 * 5 + 5 + 5)
    discriminator = (256 + 1) + (256 * 256 + 256) + (256 * 4 + 4)
    assert parts(show, "metaner", "--vocabulary", WORDS, "--domains", 4) == {
        "encoder.words": (WORDS + 1) * 300,
        "encoder.characters": LETTERS * 50 + convolution,
        "encoder.recurrent": gru,
        "decoder": decoder,
        "critic": discriminator,
    }


def test_the_transformer_by_hand(show: Show) -> None:
    attention = 384 * 3 * 384 + 3 * 384 + 384 * 384 + 384
    layer = attention + 384 * 1536 + 1536 + 1536 * 384 + 384 + 2 * 2 * 384
    assert parts(show, "transformer") == {
        "encoder.pieces": 28_000 * 384,
        **{f"encoder.layer{i}": layer for i in range(6)},
        "encoder.norm": 2 * 384,
        "decoder": 3 * (384 * 3 + 3),
    }


def test_presets_are_networks() -> None:
    hgda = NETWORKS["hgda"].tagger(WORDS, LABELS)
    assert hgda.domains == tuple(LABELS)
    assert {t.scheme for t in hgda.tag_sets} == {"IOB2"}
    assert {t.scheme for t in NETWORKS["metaner"].tagger(0, LABELS).tag_sets} == {"IOBES"}
    ours = NETWORKS["transformer"].tagger(WORDS, LABELS)
    assert parameter_shapes(ours)["encoder.pieces"] == (1, WORDS, 384)
    params, store = hgda.init(), hgda.store(tiny.sentences("Disease"))
    rows = torch.arange(4).unsqueeze(0)
    batch = store.batch(rows, store.widths(rows.numpy()))
    assert hgda.losses(params, batch, ("tag", "domain"))["domain"].isfinite().all()
    assert parameter_shapes(hgda) == {name: tuple(p.shape) for name, p in params.items()}


def test_all_presets_are_shown_without_a_name(show: Show) -> None:
    code, out, _ = show()
    assert code == 0
    for name, preset in NETWORKS.items():
        assert f"{name}: {preset.about}" in out
    assert "4,475,349" in out
    assert [one["name"] for one in json.loads(show("--json")[1])] == list(NETWORKS)


def test_a_model_folder_is_shown(show: Show, tmp_path: Path) -> None:
    tagger = tiny.tagger("bilstm", heads=("domain",))
    save_model(tmp_path / "model", tagger, tagger.init())
    counts = parts(show, tmp_path / "model")
    _, params = load_model(tmp_path / "model")
    assert sum(counts.values()) == sum(p.numel() for p in params.values())
    assert "a model for Disease, Drug, Gene, Species" in show(tmp_path / "model")[1]


def test_mistakes_get_one_line(show: Show, tmp_path: Path) -> None:
    code, out, err = show("nonsense")
    assert (code, out) == (1, "")
    assert err == (
        "hardner: nonsense: neither a model folder nor one of the presets "
        "hgda, metaner, transformer\n"
    )
    code, _, err = show(tmp_path)
    assert code == 1
    assert err == f"hardner: {tmp_path}: not a hardner model: no config.json in it\n"
    code, _, err = show(tmp_path, "--vocabulary", 5)
    assert code == 1
    assert "leave out --vocabulary" in err
