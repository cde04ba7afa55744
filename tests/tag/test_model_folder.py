"""Loading and saving: old folders, damaged folders, and what importing costs."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_models as models
import tiny

import hardner
from hardner.errors import HardnerError
from hardner.model.describe import save_model
from hardner.tag import predictor

TEXT = "Aspirin may worsen asthma in mice, and BRCA1 is a gene."


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return shutil.copytree(models.folder(), tmp_path / "model")


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_model_outlives_its_folder(kind: str) -> None:
    made = models.predictor(kind)
    again = hardner.load(models.folder(kind))
    assert again(TEXT) == made(TEXT)
    assert again.labels == made.labels == ("Disease", "Chemical", "Gene", "Species")


def test_a_folder_without_temperatures_has_those_of_one(tmp_path: Path) -> None:
    made = models.predictor()
    save_model(tmp_path / "old", made.tagger, made.params)
    assert hardner.load(tmp_path / "old").temperatures == (1.0,) * 4


@pytest.mark.parametrize("value", [-1, 0, "warm", None, [1.0]])
def test_odd_temperatures_are_refused(copy: Path, value: object) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["config"]["temperatures"] = {"Gene": value}
    config["config"].pop("checksum", None)
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        HardnerError, match=r"config.json: damaged: temperatures: expected a"
    ) as caught:
        hardner.load(copy)
    assert "\n" not in str(caught.value)


def label_swapped(config: dict[str, Any]) -> None:
    for key in ("domain", "labels"):
        first, second, *_ = config["tag_sets"]
        first[key], second[key] = second[key], first[key]


def other_temperature(config: dict[str, Any]) -> None:
    config["temperatures"]["Gene"] *= 1.5


def other_head_learnt(config: dict[str, Any]) -> None:
    config["learnt"] = {"Gene": [1]}


@pytest.mark.parametrize("change", [label_swapped, other_temperature, other_head_learnt])
def test_a_plausible_edit_is_told(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Each of these would load, and tag otherwise."""
    models.predictor().save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    held = json.loads(path.read_text())
    change(held["config"])
    path.write_text(json.dumps(held, indent=3))
    with pytest.raises(HardnerError, match=r'config.json: edited or damaged; if meant, take "ch'):
        hardner.load(tmp_path / "model")
    del held["config"]["checksum"]
    path.write_text(json.dumps(held))
    hardner.load(tmp_path / "model")


def damaged(copy: Path, how: str) -> Path:
    weights = copy / "weights.safetensors"
    if how == "missing":
        shutil.rmtree(copy)
    elif how == "a file":
        shutil.rmtree(copy)
        copy.write_text("no folder")
    elif how == "empty":
        shutil.rmtree(copy)
        copy.mkdir()
    elif how == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif how == "cut config":
        (copy / "config.json").write_text((copy / "config.json").read_text()[:50])
    elif how == "foreign":
        (copy / "config.json").write_text('{"model_type": "gpt2", "n_layer": 2}')
    return copy


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "no such model folder"),
        ("a file", "no such model folder"),
        ("empty", "not a hardner model: no config.json in it"),
        ("truncated", "truncated"),
        ("cut config", "damaged, not JSON"),
        ("foreign", "not the configuration of a hardner model"),
    ],
)
def test_what_is_no_model_is_one_clear_line(copy: Path, how: str, message: str) -> None:
    with pytest.raises(HardnerError) as caught:
        hardner.load(damaged(copy, how))
    assert message in str(caught.value)
    assert str(copy) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_package_without_a_model_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "BUNDLED_MODEL", tmp_path / "none")
    with pytest.raises(HardnerError, match="no model comes with this hardner; name the folder"):
        hardner.load()


def test_the_package_names_what_it_has() -> None:
    assert hardner.Predictor is type(models.predictor())
    assert hardner.Entity(0, 1, "X", "a").score == 1.0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hardner.nothing
    assert set(hardner.__all__) <= set(dir(hardner))


def test_importing_waits_with_whatever_is_heavy() -> None:
    program = "import hardner, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"torch", "numpy", "typer", "rich", "safetensors", "tokenizers"})
    ours = {name for name in done.stdout.split() if name.startswith("hardner")}
    assert ours == {"hardner", "hardner.types"}


@pytest.mark.parametrize("kind", ["bilstm", "transformer"])
def test_loading_does_not_wait_for_the_compiler(kind: str) -> None:
    program = (
        "import hardner, sys\n"
        f"print(len(hardner.load({str(models.folder(kind))!r})({TEXT!r})) > 0)\n"
        "print('torch._dynamo' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\nFalse False\n"
