"""Model folders: exact, atomic, and suspicious of what they read."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from hardner import checkpoint, folders
from hardner.errors import FileError, HardnerError

CONFIG = {"labels": ["O", "B-β"], "rate": 0.1, "nested": {"none": None}}


def weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    big = torch.randn(50, 8, generator=generator)
    return {"big": big, "small": torch.arange(4), "scalar": torch.tensor(2.5, dtype=torch.float64)}


def bits(tensor: Tensor) -> list[int]:
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def same(first: Tensor, second: Tensor) -> bool:
    shapes = first.shape == second.shape and first.dtype == second.dtype
    return shapes and bits(first) == bits(second)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(list(checkpoint.DTYPES.values())))
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    size = torch.Size(shape).numel() * dtype.itemsize
    highest = 1 if dtype == torch.bool else 255
    raw = draw(st.lists(st.integers(0, highest), min_size=size, max_size=size))
    tensor = torch.tensor(raw, dtype=torch.uint8).view(dtype).reshape(shape)
    return tensor.T if len(shape) == 2 and draw(st.booleans()) else tensor


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    given=st.dictionaries(NAMES.filter(lambda name: "\0" not in name), tensors(), max_size=5),
    config=st.dictionaries(NAMES, JSON, max_size=3),
    content=st.binary(max_size=20),
    shard_bytes=st.none() | st.integers(1, 64),
)
def test_what_is_saved_is_loaded_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    given: dict[str, Tensor],
    config: dict[str, Any],
    content: bytes,
    shard_bytes: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("models") / "model"
    checkpoint.save_checkpoint(
        folder, given, config, {"words.bin": content}, shard_bytes=shard_bytes
    )
    loaded = checkpoint.load_checkpoint(folder)
    assert list(loaded.tensors) == list(given)
    assert all(same(loaded.tensors[name], tensor) for name, tensor in given.items())
    assert loaded.config == config and loaded.files == {"words.bin": content}


def test_a_name_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(HardnerError, match="cannot be stored in a model folder"):
        checkpoint.save_checkpoint(tmp_path / "model", {"a\0b": torch.zeros(1)}, {})
    assert not (tmp_path / "model").exists()


def test_folder_is_plain_safetensors_and_json(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "a/model", weights(), CONFIG, {"vocabulary.txt": "β\n"})
    folder = tmp_path / "a/model"
    assert {path.name for path in folder.iterdir()} == {
        "weights.safetensors",
        "config.json",
        "vocabulary.txt",
    }
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    stored = load_file(folder / "weights.safetensors")
    assert all(same(stored[name], tensor) for name, tensor in weights().items())
    written = json.loads((folder / "config.json").read_text("utf-8"))
    assert written["version"] == 1 and written["config"] == CONFIG
    assert (folder / "vocabulary.txt").read_text("utf-8") == "β\n"
    (tmp_path / "plain").write_text("")
    modes = {path.stat().st_mode for path in (tmp_path / "plain", *folder.iterdir())}
    assert len(modes) == 1  # others may read it where they may read other files


def test_tied_tensors_and_gradients(tmp_path: Path) -> None:
    tied = torch.randn(3, 3, requires_grad=True)
    checkpoint.save_checkpoint(tmp_path / "model", {"a": tied, "b": tied, "row": tied[1]}, {})
    loaded = checkpoint.load_checkpoint(tmp_path / "model").tensors
    assert same(loaded["b"], tied) and same(loaded["row"], tied[1])
    loaded["a"].zero_()
    assert same(loaded["b"], tied)


def test_shards_are_bounded_and_cut_large_tensors(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    given = weights() | {"wide": torch.zeros(2, 300)}
    checkpoint.save_checkpoint(folder, given, {}, shard_bytes=1024)
    names = sorted(path.name for path in folder.glob("weights*"))
    count = len(names)
    assert count > 3
    assert names == [f"weights-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    for name in names:
        stored = load_file(folder / name)
        assert sum(tensor.nbytes for tensor in stored.values()) <= 1024
    loaded = checkpoint.load_checkpoint(folder).tensors
    assert all(same(loaded[name], tensor) for name, tensor in given.items())


def test_a_large_tensor_fills_the_file_that_is_begun(tmp_path: Path) -> None:
    given = {"small": torch.arange(10.0), "large": torch.arange(600.0), "last": torch.arange(5.0)}
    checkpoint.save_checkpoint(tmp_path / "model", given, {}, shard_bytes=1024)
    files = sorted((tmp_path / "model").glob("weights*"))
    sizes = [sum(part.nbytes for part in load_file(file).values()) for file in files]
    assert sizes == [1024, 1024, 412]  # no more files than all bytes together need
    loaded = checkpoint.load_checkpoint(tmp_path / "model").tensors
    assert all(same(loaded[name], tensor) for name, tensor in given.items())


def test_half_precision_is_restored_to_the_type_it_was(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "model", weights(), {}, dtype=torch.float16)
    assert load_file(tmp_path / "model/weights.safetensors")["big"].dtype == torch.float16
    loaded = checkpoint.load_checkpoint(tmp_path / "model").tensors
    assert same(loaded["big"], weights()["big"].half().float())
    assert same(loaded["small"], weights()["small"])
    assert loaded["scalar"].dtype == torch.float64
    with pytest.raises(HardnerError, match="tensor x: a value is too large for float16"):
        checkpoint.save_checkpoint(
            tmp_path / "other", {"x": torch.tensor([1e5])}, {}, dtype=torch.float16
        )


@pytest.mark.parametrize("at_once", [True, False])
def test_a_model_is_replaced_whole(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not at_once:
        monkeypatch.setattr(folders, "_exchange", lambda first, second: False)
    folder = tmp_path / "model"
    checkpoint.save_checkpoint(folder, weights(), {"n": 1}, {"old.txt": "old"}, shard_bytes=1024)
    checkpoint.save_checkpoint(folder, {"x": torch.ones(2)}, {"n": 2})
    assert {path.name for path in folder.iterdir()} == {"weights.safetensors", "config.json"}
    assert checkpoint.load_checkpoint(folder).config == {"n": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_exchange_works_here(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux swaps two folders in one step")
    for name in "ab":
        (tmp_path / name / name).mkdir(parents=True)
    assert folders._exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a/b").exists() and (tmp_path / "b/a").exists()


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path / "real", weights(), {"n": 1})
    (tmp_path / "link").symlink_to("real")
    checkpoint.save_checkpoint(tmp_path / "link", weights(), {"n": 2})
    assert (tmp_path / "link").is_symlink()
    assert checkpoint.load_checkpoint(tmp_path / "real").config == {"n": 2}


def test_other_folders_are_never_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "thesis"
    other.mkdir()
    checkpoint.save_checkpoint(other, weights(), {})
    (other / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match=r"holds notes\.txt, no part of the model"):
        checkpoint.save_checkpoint(other, weights(), {})
    (other / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(FileError, match="exists and is not a hardner model"):
        checkpoint.save_checkpoint(other, weights(), {})
    with pytest.raises(FileError, match="exists and is not a hardner model"):
        checkpoint.save_checkpoint(other / "notes.txt", weights(), {})
    assert (other / "notes.txt").read_text() == "mine"


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "not JSON": ({"config": {"x": {1}}}, "configuration is not JSON"),
    "not a number": ({"config": {"x": float("nan")}}, "configuration is not JSON"),
    "complex": ({"tensors": {"z": torch.zeros(1, dtype=torch.complex64)}}, "tensor z: torch"),
    "reserved": ({"tensors": {"__metadata__": torch.zeros(1)}}, "tensor __metadata__: "),
    "a path": ({"files": {"../x": b""}}, "'../x' cannot be the name of a file"),
    "hidden": ({"files": {".x": b""}}, r"'\.x' cannot be the name of a file"),
    "taken": ({"files": {"config.json": b""}}, "'config.json' cannot be the name"),
    "weights": ({"files": {"weights.safetensors": b""}}, "'weights.safetensors' cannot be"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_save_changes_nothing(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    checkpoint.save_checkpoint(folder, weights(), {"n": 1})
    arguments, message = FAILURES[case]
    with pytest.raises(HardnerError, match=message):
        checkpoint.save_checkpoint(folder, **{"tensors": {}, "config": {}} | arguments)
    assert checkpoint.load_checkpoint(folder).config == {"n": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written: "):
        checkpoint.save_checkpoint(tmp_path / "file/model", weights(), {})


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    change(config)
    path.write_text(json.dumps(config), "utf-8")


def overwrite(name: str, content: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(content((folder / name).read_bytes()))


def swap_tensor(tensor: Tensor) -> Callable[[Path], Any]:
    """Other weights under the old config, which is told the new size."""

    def damage(folder: Path) -> None:
        path = folder / "weights.safetensors"
        save_file(weights() | {"big": tensor}, path)
        edit(folder, lambda config: config["sizes"].update({path.name: path.stat().st_size}))

    return damage


def torch_zip(folder: Path) -> None:
    torch.save(weights(), folder / "weights.safetensors")


def rename_shard(config: dict[str, Any]) -> None:
    for key in ("weights", "sizes"):
        config[key]["../weights.safetensors"] = config[key].pop("weights.safetensors")


W, C = "weights.safetensors", "config.json"
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda f: (f / C).unlink(), "not a hardner model: no config.json"),
    "config cut": (overwrite(C, lambda b: b[:40]), "config.json: damaged, not JSON"),
    "config not text": (overwrite(C, lambda b: b"\xff\xfe"), "config.json: damaged, not JSON"),
    "deep config": (overwrite(C, lambda b: b"[" * 10**5), "config.json: damaged, not JSON"),
    "other config": (overwrite(C, lambda b: b"[]"), "not the configuration of a hardner model"),
    "newer": (lambda f: edit(f, lambda c: c.update(version=3)), "version 3 is newer than 2"),
    "no tensors": (lambda f: edit(f, lambda c: c.pop("tensors")), "damaged: tensors is missing"),
    "odd sizes": (
        lambda f: edit(f, lambda c: c.update(sizes=3)),
        "damaged: sizes: expected a table of a whole number at least 0, got 3",
    ),
    "infinite size": (
        lambda f: edit(f, lambda c: c["sizes"].update({W: float("inf")})),
        "damaged: sizes: expected a table of a whole number",
    ),
    "infinite shape": (
        lambda f: edit(f, lambda c: c["tensors"]["big"].update(shape=[float("inf"), 8])),
        r"damaged: tensors.big.shape: expected a list of a whole number at least 0, got",
    ),
    "negative shape": (
        lambda f: edit(f, lambda c: c["tensors"]["big"].update(shape=[-50, -8])),
        "damaged: tensors.big.shape: expected a list of",
    ),
    "unhashable dtype": (
        lambda f: edit(f, lambda c: c["tensors"]["big"].update(dtype=["float32"])),
        "damaged: tensors.big.dtype: expected a text",
    ),
    "unhashable tensors": (
        lambda f: edit(f, lambda c: c["weights"].update({W: [["big"]]})),
        "damaged: weights: expected a table of a list of texts",
    ),
    "another dtype": (
        lambda f: edit(f, lambda c: c["tensors"]["big"].update(dtype="int64")),
        r"damaged: int64 of \[50, 8\] stored as float32",
    ),
    "config a list": (
        lambda f: edit(f, lambda c: c.update(config=[["a", 1]])),
        "damaged: config: expected a table of anything",
    ),
    "disagreeing": (lambda f: edit(f, lambda c: c["sizes"].pop(W)), "lists .* disagree"),
    "unlisted": (lambda f: edit(f, lambda c: c["tensors"].pop("big")), "lists .* disagree"),
    "odd dtype": (
        lambda f: edit(f, lambda c: c["tensors"]["big"].update(dtype="load")),
        "unknown dtype load",
    ),
    "names of two lines": (
        lambda f: edit(f, lambda c: c["tensors"].update({"a\nb": {"dtype": 1}})),
        r"damaged: \[tensors.a b\]: stored is missing",
    ),
    "traversal": (lambda f: edit(f, rename_shard), "unsafe file name '../weights.safetensors'"),
    "no weights": (lambda f: (f / W).unlink(), "weights.safetensors: missing"),
    "no file": (lambda f: (f / "vocabulary.txt").unlink(), "vocabulary.txt: missing"),
    "weights cut": (overwrite(W, lambda b: b[:-1]), "truncated: .* bytes, expected"),
    "weights empty": (overwrite(W, lambda b: b""), "a header of 0 bytes in a file of 0"),
    "file cut": (overwrite("vocabulary.txt", lambda b: b""), "truncated: 0 bytes, expected 2"),
    "file longer": (overwrite("vocabulary.txt", lambda b: b + b"x"), "damaged: 3 bytes, expect"),
    "pickle": (overwrite(W, lambda b: pickle.dumps(CONFIG)), "a pickle, not safetensors"),
    "torch zip": (torch_zip, "a pickle, not safetensors"),
    "absurd header": (
        overwrite(W, lambda b: (1 << 40).to_bytes(8, "little") + b[8:]),
        "a header of 1099511627776 bytes in a file of",
    ),
    "garbled header": (overwrite(W, lambda b: b.replace(b"F32", b"XYZ")), "damaged weights: "),
    "offsets beyond": (overwrite(W, lambda b: b.replace(b"1640]", b"9640]")), "damaged weights"),
    "other shape": (swap_tensor(torch.zeros(8, 50)), r"tensor big is \('float32', \(8, 50\)\)"),
    "other dtype": (swap_tensor(torch.zeros(50, 8).half()), r"tensor big is \('float16'"),
    "other tensors": (
        lambda f: edit(f, lambda c: [c["tensors"].pop("big"), c["weights"][W].remove("big")]),
        "holds other tensors than config.json says: big",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_one_line(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    checkpoint.save_checkpoint(folder, weights(), CONFIG, {"vocabulary.txt": "β"})
    edit(folder, lambda config: config.pop("checksums"))  # which would tell of most of it
    damage, message = DAMAGE[case]
    damage(folder)
    with pytest.raises(FileError, match=message) as caught:
        checkpoint.load_checkpoint(folder)
    assert str(caught.value).startswith(str(folder)) and "\n" not in str(caught.value)


def test_flipped_bytes_are_told_by_the_checksum(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    checkpoint.save_checkpoint(folder, weights(), CONFIG, {"vocabulary.txt": "β"})
    for name in (W, "vocabulary.txt"):
        sound = (folder / name).read_bytes()
        for place in {0, len(sound) // 2, len(sound) - 1} if name != W else {len(sound) - 1}:
            flipped = bytearray(sound)
            flipped[place] ^= 1
            (folder / name).write_bytes(flipped)
            with pytest.raises(FileError, match="damaged: its checksum is not the one in config"):
                checkpoint.load_checkpoint(folder)
        (folder / name).write_bytes(sound)
    edit(folder, lambda config: config.pop("checksums"))  # a folder of an older version
    assert same(checkpoint.load_checkpoint(folder).tensors["big"], weights()["big"])


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders, no permissions")
def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    checkpoint.save_checkpoint(tmp_path, weights(), CONFIG)
    for name in (C, W):
        (tmp_path / name).rename(tmp_path / "aside")
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            make(tmp_path / name)
            with pytest.raises(FileError, match=r"no config\.json in it|missing from the model"):
                checkpoint.load_checkpoint(tmp_path)
            (tmp_path / name).unlink()
        (tmp_path / "aside").rename(tmp_path / name)
    os.truncate(tmp_path / C, 1 << 40)  # a hole, which no disk needs to hold
    with pytest.raises(FileError, match=r"config\.json: damaged: larger than 100,000,000 bytes"):
        checkpoint.load_checkpoint(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders, no permissions")
@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_all_files_have_the_permissions_of_new_files(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        checkpoint.save_checkpoint(tmp_path / "model", weights(), {}, {"a.txt": "a"})
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
    assert modes == {0o666 & ~mask}


FULL = """
import resource, sys, torch
from hardner import checkpoint
from hardner.errors import FileError

checkpoint.save_checkpoint(sys.argv[1], {"x": torch.ones(10)}, {"n": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
for tensors, files in (({"x": torch.ones(10_000)}, {}), ({}, {"a.txt": "a" * 10_000})):
    try:
        checkpoint.save_checkpoint(sys.argv[1], tensors, {"n": 2}, files)
    except FileError as error:
        print(error)
assert checkpoint.load_checkpoint(sys.argv[1]).config == {"n": 1}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a file's size")
def test_a_disk_without_room_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path / "model")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{tmp_path / 'model'}: cannot be written: File too large\n" * 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_header_that_starts_like_a_pickle_is_read(tmp_path: Path) -> None:
    for length in range(1, 300):
        checkpoint.save_checkpoint(tmp_path / "model", {"x" * length: torch.ones(1)}, {})
        assert len(checkpoint.load_checkpoint(tmp_path / "model").tensors) == 1
        if (tmp_path / "model/weights.safetensors").read_bytes()[0] == 0x80:
            return
    pytest.fail("no header was 128 bytes long")


KILLER = """
import os, random, signal, sys, time
import torch
from hardner import checkpoint

torch.set_num_threads(1)
folder, chance = sys.argv[1], random.Random(0)

def save(n):
    tensors = {f"t{i}": torch.full((100, 20), float(n)) for i in range(3)}
    checkpoint.save_checkpoint(folder, tensors, {"n": n}, {"n.txt": str(n)}, shard_bytes=10_000)

def loaded():
    model = checkpoint.load_checkpoint(folder)
    n = model.config["n"]
    assert model.files["n.txt"] == str(n).encode()
    assert all((tensor == n).all() for tensor in model.tensors.values())
    return n

def killed(child, after=None):
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0

def die_at(step):
    def hook(event, arguments):
        nonlocal step
        if event == "open" or event.startswith(("os.", "ctypes.", "shutil.", "tempfile.")):
            step -= 1
            if not step:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

save(0)
steps, found, alive = 0, [], False
while not alive:
    steps += 1
    before = loaded()
    if not (child := os.fork()):
        die_at(steps)
        save(steps)
        os._exit(0)
    alive = not killed(child)
    assert loaded() in (before, steps)
    found.append(loaded() == steps)
assert found[-1] and not found[0]

for trial in range(20):
    if not (child := os.fork()):
        n = loaded()
        while True:
            save(n := n + 1)
    assert killed(child, after=chance.uniform(0.001, 0.03))
    loaded()
print(steps)
"""


def test_killed_at_any_time_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """At every step that Python reports to its audit hooks, then at random times."""
    if sys.platform != "linux":
        pytest.skip("only Linux swaps two folders in one step")
    command = [sys.executable, "-c", KILLER, str(tmp_path / "model")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10
