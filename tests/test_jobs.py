"""What long runs share: a folder that is one run's, its lock, and the device that was named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hardner import checkpoint
from hardner.errors import HardnerError
from hardner.folders import FileLock
from hardner.jobs import Diverged, SavedState, open_run_folder
from hardner.model.layers import resolve_device

HOLDER = """
import sys, time
from pathlib import Path
from hardner.folders import FileLock
lock = FileLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_lock_is_held_once_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = FileLock(path)
    with pytest.raises(BlockingIOError):
        FileLock(path)
    lock.release()
    assert not path.exists()
    FileLock(path).release()
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "none" / "lock")


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError):
            FileLock(path)
        process.kill()
    assert path.exists()
    FileLock(path).release()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no open file")
def test_a_lock_file_that_its_holder_removes_meanwhile_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "lock", os.open
    made: list[int] = []

    def open_and_lose(*arguments: object) -> int:
        made.append(real(*arguments))  # type: ignore[arg-type]
        if len(made) == 1:
            path.unlink()
        return made[-1]

    monkeypatch.setattr(os, "open", open_and_lose)
    lock = FileLock(path)
    monkeypatch.undo()
    assert len(made) == 2
    with pytest.raises(BlockingIOError):
        FileLock(path)
    lock.release()


@pytest.mark.parametrize(
    ("gpus", "name", "device"),
    [
        (0, "auto", "cpu"),
        (2, "auto", "cuda"),
        (0, "cpu", "cpu"),
        (2, "cpu", "cpu"),
        (2, "cuda", "cuda"),
        (2, "cuda:1", "cuda:1"),
    ],
)
def test_devices(gpus: int, name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert resolve_device(name) == device


@pytest.mark.parametrize(
    ("gpus", "name", "message"),
    [
        (0, "cuda", "device cuda: torch finds no GPU here; choose cpu or auto"),
        (0, "cuda:1", "device cuda:1: torch finds no GPU here; choose cpu or auto"),
        (2, "cuda:2", "device cuda:2: the GPUs here are cuda:0 to cuda:1"),
        (2, "cuda:x", "unknown device 'cuda:x'; it is auto, cpu or cuda"),
        (2, "cudax", "unknown device 'cudax'; it is auto, cpu or cuda"),
        (2, "tpu", "unknown device 'tpu'; it is auto, cpu or cuda"),
    ],
)
def test_devices_that_are_refused(
    gpus: int, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(HardnerError) as error:
        resolve_device(name)
    assert str(error.value) == message


SETTINGS = {"seed": 1, "train": {"rate": 0.01, "betas": (0.9, 0.99)}, "device": "cpu"}


START = SavedState({"a.b": torch.rand(2)}, {"first.a.b": torch.rand(2)}, {"step": 0})


def begun(folder: Path) -> Path:
    """A run that has saved a state."""
    with open_run_folder(folder, "run.json", SETTINGS) as held:
        assert held.load_state(START, "cpu") is None
        params, moments = {"a.b": torch.ones(2)}, {"first.a.b": torch.zeros(2)}
        held.save_state(SavedState(params, moments, {"step": 3}))
    return folder


def test_a_run_finds_its_state_and_what_a_killed_one_left_is_gone(tmp_path: Path) -> None:
    folder = begun(tmp_path / "runs" / "one")
    (folder / ".hardner-x" / "new").mkdir(parents=True)
    (folder / ".hardner-y.tmp").touch()
    with open_run_folder(folder, "run.json", SETTINGS) as held:
        found = held.load_state(START, "cpu")
        assert found and found.about == {"step": 3}
        assert torch.equal(found.params["a.b"], torch.ones(2))
        assert torch.equal(found.optimizer["first.a.b"], torch.zeros(2))
        with pytest.raises(HardnerError, match=f"{folder}: another run is at work in it"):
            open_run_folder(folder, "run.json", SETTINGS).__enter__()
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "state"]
    assert json.loads((folder / "run.json").read_text())["train"]["betas"] == [0.9, 0.99]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "seed is 1 there and 2 here"),
        ({"train": {"rate": 1.0, "betas": [0.9, 0.99]}}, "train.rate is 0.01 there and 1.0 here"),
        ({"more": "x"}, "more is not given there and x here"),
        ({"seed": None}, "seed is 1 there and not given here"),
    ],
)
def test_other_settings_are_another_run(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = begun(tmp_path / "one")
    expected = f"{folder}: holds another run: {message}; choose another folder"
    with (
        pytest.raises(HardnerError) as error,
        open_run_folder(
            folder, "run.json", SETTINGS | change | {"device": "cuda"}, free=["device"]
        ),
    ):
        pass
    assert str(error.value) == expected


def test_settings_may_change_before_anything_is_done(tmp_path: Path) -> None:
    for seed in (1, 2):
        with open_run_folder(tmp_path, "run.json", SETTINGS | {"seed": seed}):
            pass
    assert json.loads((tmp_path / "run.json").read_text())["seed"] == 2


def test_folders_of_others_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for folder, message in (
        (tmp_path, r"is not empty and holds no run \(run.json\); choose another folder"),
        (tmp_path / "notes.txt", "cannot be made: "),
    ):
        with pytest.raises(HardnerError, match=message), open_run_folder(folder, "run.json", {}):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (begun(tmp_path / "one") / "run.json").write_text("{")
    with (
        pytest.raises(HardnerError, match=r"run.json: damaged, not JSON: "),
        open_run_folder(tmp_path / "one", "run.json", SETTINGS),
    ):
        pass


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_state_that_is_of_no_use_does_not_replace_another(odd: float, tmp_path: Path) -> None:
    folder = begun(tmp_path / "one")
    with open_run_folder(folder, "run.json", SETTINGS) as held, pytest.raises(Diverged):
        held.save_state(SavedState({"a.b": torch.tensor([odd])}, {}, {"step": 4}))
    assert checkpoint.load_checkpoint(folder / "state").config["step"] == 3


def test_a_folder_that_was_being_replaced_is_not_thrown_away(tmp_path: Path) -> None:
    """Where two folders cannot be swapped, a kill may leave the only copy aside."""
    folder = begun(tmp_path / "one")
    (folder / ".hardner-x").mkdir()
    (folder / "state").rename(folder / ".hardner-x" / "old")
    with open_run_folder(folder, "run.json", SETTINGS):
        assert (folder / ".hardner-x" / "old" / "config.json").is_file()


def edited(folder: Path, **values: object) -> Path:
    """With other values in the state's configuration; None takes one away."""
    path = folder / "state" / "config.json"
    table = json.loads(path.read_text())
    kept = {n: v for n, v in (table["config"] | values).items() if v is not None}
    path.write_text(json.dumps(table | {"config": kept}))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        {"step": 2},
        {"more": 1},
        {"checksum": "0"},
        {"checksum": 5},
        {"checksum": None, "step": None},
        {"checksum": None, "step": "3"},
        {"checksum": None, "step": 3.0},
        {"checksum": None, "step": [3]},
    ],
)
def test_an_edited_state_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    folder = edited(begun(tmp_path / "one"), **change)
    with (
        open_run_folder(folder, "run.json", SETTINGS) as held,
        pytest.raises(
            HardnerError, match=r"/state: is not a state of this run; delete it to begin"
        ),
    ):
        held.load_state(START, "cpu")


def test_a_state_of_the_first_version_has_no_checksum(tmp_path: Path) -> None:
    folder = edited(begun(tmp_path / "one"), checksum=None)
    with open_run_folder(folder, "run.json", SETTINGS) as held:
        found = held.load_state(START, "cpu")
        assert found and found.about == {"step": 3}


@pytest.mark.parametrize(
    "start",
    [
        START._replace(params={"a.b": torch.ones(3)}),
        START._replace(params={"a.b": torch.ones(2, dtype=torch.float64)}),
        START._replace(params={}),
        START._replace(optimizer={"second.a.b": torch.ones(2)}),
        START._replace(about={}),
    ],
)
def test_a_state_of_another_form_is_refused(start: SavedState, tmp_path: Path) -> None:
    with (
        open_run_folder(begun(tmp_path / "one"), "run.json", SETTINGS) as held,
        pytest.raises(HardnerError, match="is not a state of this run"),
    ):
        held.load_state(start, "cpu")


@pytest.mark.parametrize("text", ["[]", "5", '"run"', "null", "[" * 100_000, "{" + "9" * 5_000])
def test_settings_that_are_no_table_are_one_line(text: str, tmp_path: Path) -> None:
    folder = begun(tmp_path / "one")
    (folder / "run.json").write_text(text)
    with (
        pytest.raises(HardnerError, match=r"run.json: damaged\W") as error,
        open_run_folder(folder, "run.json", SETTINGS),
    ):
        pass
    assert "\n" not in str(error.value)
