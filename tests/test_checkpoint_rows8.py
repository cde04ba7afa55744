"""Matrices in 8 bits: how far off they may be, what is refused, and who may read them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from hardner import checkpoint
from hardner import checkpoint as module
from hardner.errors import FileError, HardnerError

W = "weights.safetensors"


def matrix(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Rows of very different sizes, among them zeros."""
    rng = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.randint(-6, 4, (*shape[:-1], 1), generator=rng)
    sizes.view(-1)[0] = 0
    return (torch.randn(shape, generator=rng) * sizes).to(dtype)


def weights() -> dict[str, Tensor]:
    return {
        "big": matrix(300, 64),
        "table": matrix(1, 40, 10, 50, seed=1),
        "bias": matrix(1, 20_000)[0, None] + 0.3,
        "norm": torch.ones(64),
        "narrow": torch.full((2000, 16), 0.1),
        "few": torch.full((30, 60), 0.1),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "whole": torch.arange(40_000).view(200, 200),
        "bytes": torch.ones(200, 200, dtype=torch.int8),
    }


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    shape=st.sampled_from([(300, 64), (2, 8200), (1, 40, 10, 50), (3, 100, 64)]),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    shard_bytes=st.none() | st.integers(100, 20_000),
)
def test_no_number_is_off_by_more_than_half_a_scale(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    shard_bytes: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("models") / "model"
    made = matrix(*shape, seed=seed).to(dtype)
    checkpoint.save_checkpoint(folder, {"x": made}, {}, shard_bytes=shard_bytes, dtype=torch.int8)
    read = checkpoint.load_checkpoint(folder).tensors["x"]
    assert (read.shape, read.dtype) == (made.shape, made.dtype)
    right, found = (t.to(torch.float64).numpy().reshape(-1, shape[-1]) for t in (made, read))
    half = np.abs(right).max(1, keepdims=True) / 127 / 2
    own = torch.finfo(dtype)
    rounding = (np.abs(right) + own.tiny) * own.eps + half * 1e-5 + 1e-37
    assert (np.abs(found - right) <= half + rounding).all()
    assert (found[np.abs(right).max(1) == 0] == 0).all()


def test_the_files_hold_bytes_and_scales(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "model", weights(), {}, dtype=torch.int8)
    stored = load_file(tmp_path / "model" / W)
    assert stored.keys() == weights().keys() | {"big@scales", "table@scales"}
    assert {name: stored[name].dtype for name in stored} == {
        "big": torch.int8,
        "big@scales": torch.float32,
        "table": torch.int8,
        "table@scales": torch.float32,
        "bias": torch.float16,
        "norm": torch.float16,
        "narrow": torch.float16,
        "few": torch.float16,
        "scalar": torch.float16,
        "whole": torch.int64,
        "bytes": torch.int8,
    }
    rows = weights()["table"].numpy().reshape(400, 50)
    scales = np.abs(rows).max(1) / 127
    assert np.allclose(stored["table@scales"].numpy(), scales, rtol=1e-6, atol=2e-38)
    loaded = checkpoint.load_checkpoint(tmp_path / "model").tensors
    assert list(loaded) == list(weights())
    assert all(loaded[name].dtype == made.dtype for name, made in weights().items())
    assert torch.equal(loaded["bytes"], weights()["bytes"])
    assert torch.equal(loaded["bias"], weights()["bias"].half().float())


def test_what_is_transposed_or_tied_is_stored_by_its_own_rows(tmp_path: Path) -> None:
    wide = matrix(200, 300)
    given = {"a": wide, "b": wide.T, "c": wide.view(2, 100, 300).transpose(0, 1)}
    checkpoint.save_checkpoint(tmp_path / "model", given, {}, dtype=torch.int8)
    loaded = checkpoint.load_checkpoint(tmp_path / "model").tensors
    for name, made in given.items():
        most = made.abs().amax(-1, keepdim=True) / 254
        assert ((loaded[name] - made).abs() <= most * 1.0001 + 1e-37).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_what_is_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    odd = matrix(300, 64, dtype=torch.float64)
    odd[7, 3] = value
    with pytest.raises(HardnerError, match="a value is too large for int8, or not finite"):
        checkpoint.save_checkpoint(tmp_path / "model", {"x": odd}, {}, dtype=torch.int8)
    with pytest.raises(HardnerError, match="tensor x: a value is too large for float16"):
        checkpoint.save_checkpoint(
            tmp_path / "model", {"x": torch.tensor([1e5])}, {}, dtype=torch.int8
        )
    assert not any(tmp_path.iterdir())


def test_the_name_of_scales_is_taken(tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="tensor x@scales: "):
        checkpoint.save_checkpoint(tmp_path / "model", {"x@scales": torch.ones(3)}, {})


def test_only_folders_in_8_bits_need_a_newer_reader(tmp_path: Path) -> None:
    def version(dtype: torch.dtype | None, tensors: dict[str, Tensor]) -> int:
        checkpoint.save_checkpoint(tmp_path / "model", tensors, {}, dtype=dtype)
        return int(json.loads((tmp_path / "model/config.json").read_text())["version"])

    small = {"x": torch.ones(3), "bytes": torch.ones(200, 200, dtype=torch.int8)}
    assert version(None, weights()) == version(torch.float16, weights()) == 1
    assert version(torch.int8, small) == 1
    assert version(torch.int8, weights()) == 2


def stored_as(**changed: Tensor | None) -> Callable[[Path], None]:
    """Other tensors under the old config, which is told the new size."""

    def damage(folder: Path) -> None:
        found = load_file(folder / W) | {n.replace("_", "@"): t for n, t in changed.items()}
        save_file({n: t for n, t in found.items() if t is not None}, folder / W)
        config = json.loads((folder / "config.json").read_text())
        config["sizes"][W] = (folder / W).stat().st_size
        (folder / "config.json").write_text(json.dumps(config))

    return damage


def told(change: Callable[[dict[str, dict[str, object]]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        change(config)
        (folder / "config.json").write_text(json.dumps(config))

    return damage


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "few scales": (
        stored_as(big_scales=torch.ones(299)),
        r"tensor big@scales is \('float32', \(299,\)\), config.json says \('float32', \(300,\)\)",
    ),
    "scales of another type": (
        stored_as(big_scales=torch.ones(300, dtype=torch.int64)),
        r"tensor big@scales is \('int64'",
    ),
    "no scales": (stored_as(big_scales=None), "holds other tensors .*: big@scales"),
    "foreign scales": (stored_as(bias_scales=torch.ones(1)), "other tensors .*: bias@scales"),
    "floats": (stored_as(big=matrix(300, 64)), r"tensor big is \('float32', \(300, 64\)\)"),
    "scales not listed": (
        told(lambda c: c["weights"].update({W: list(c["tensors"])})),
        "its lists of tensors and files disagree",
    ),
    "scales of what has none": (
        told(lambda c: c["tensors"].update(big=c["tensors"]["bytes"])),
        "its lists of tensors and files disagree",
    ),
    "a vector": (
        told(lambda c: c["tensors"]["big"].update(shape=[19_200])),  # type: ignore[attr-defined]
        r"damaged: float32 of \[19200\] stored as int8",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    checkpoint.save_checkpoint(folder, weights(), {}, dtype=torch.int8)
    told(lambda config: config.pop("checksums"))(folder)  # which would tell of most of it
    damage, message = DAMAGE[case]
    damage(folder)
    with pytest.raises(FileError, match=message) as caught:
        checkpoint.load_checkpoint(folder)
    assert str(caught.value).startswith(str(folder)) and "\n" not in str(caught.value)


def test_a_cut_file_is_one_line(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(
        tmp_path / "model", weights(), {}, dtype=torch.int8, shard_bytes=5000
    )
    last = sorted((tmp_path / "model").glob("weights*"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(FileError, match=r"truncated: .* bytes, expected"):
        checkpoint.load_checkpoint(tmp_path / "model")


def test_a_row_next_to_nothing_does_not_divide_by_zero() -> None:
    faint = torch.full((2, 3), 1e-44)
    numbers, scales = module.quantise_rows(faint)
    assert scales.min() > 0 and not numbers.any()
    assert torch.equal(module.dequantise_rows(numbers, scales, torch.float32), torch.zeros(2, 3))
