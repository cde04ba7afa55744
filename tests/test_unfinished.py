"""Unfinished files and folders: what a kill leaves goes, what others are writing stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hardner import folders as module
from hardner.files import atomic_write
from hardner.folders import atomic_folder, unfinished

linux = pytest.mark.skipif(os.name == "nt", reason="no locks on folders there")

HOLD = """
import sys, time
from pathlib import Path
from hardner.folders import unfinished
with unfinished(Path(sys.argv[1])), unfinished(Path(sys.argv[1]), is_dir=True) as folder:
    (folder / "half").write_text("a")
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def first_look() -> None:
    """As in a process that has not looked into any folder yet."""
    module._remove_stale_once.cache_clear()


def left(folder: Path) -> list[Path]:
    return sorted(folder.glob(".hardner-*"))


@linux
def test_what_a_killed_process_left_goes_and_what_is_at_work_stays(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(left(tmp_path)) == 2
        with atomic_write(tmp_path / "a.txt") as file:
            file.write("a")
        assert len(left(tmp_path)) == 2, "they are at work on these"
        process.send_signal(signal.SIGKILL)
    assert len(left(tmp_path)) == 2
    module._remove_stale_once.cache_clear()
    with atomic_write(tmp_path / "b.txt") as file:
        file.write("b")
    assert left(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "b.txt"}


@linux
def test_a_folder_is_as_good_a_moment_as_a_file(tmp_path: Path) -> None:
    (tmp_path / ".hardner-0123456789ab.tmp").write_text("half")
    (tmp_path / ".hardner-abcdef").mkdir()
    (tmp_path / ".hardner-abcdef" / "new").mkdir()
    with atomic_folder(tmp_path / "model") as folder:
        (folder / "a").write_text("a")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_locks_and_journals_stay_and_so_does_an_only_copy(tmp_path: Path) -> None:
    (tmp_path / ".hardner-lock").touch()
    (tmp_path / ".hardner-tag").write_text("done")
    (tmp_path / ".hardner-abcdef" / "old").mkdir(parents=True)
    with unfinished(tmp_path) as path:
        assert path.read_bytes() == b""
    names = [path.name for path in left(tmp_path)]
    assert names == [".hardner-abcdef", ".hardner-lock", ".hardner-tag"]


@linux
@pytest.mark.parametrize("is_dir", [False, True])
def test_one_taken_away_before_it_was_locked_is_made_again(
    tmp_path: Path, is_dir: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = module._locked, []

    def rival(path: Path) -> int | None:
        if not taken:
            taken.append(path)
            module._remove(path)
        return lock(path)

    monkeypatch.setattr(module, "_locked", rival)
    with unfinished(tmp_path, is_dir=is_dir) as path:
        assert path.exists() and path not in taken
    assert left(tmp_path) == []
