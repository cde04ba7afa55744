"""What long runs share: the lock that keeps a second one out, and the device that was named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hardner.errors import HardnerError
from hardner.jobs.device import resolve_device
from hardner.jobs.lock import FileLock

HOLDER = """
import sys, time
from pathlib import Path
from hardner.jobs.lock import FileLock
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
