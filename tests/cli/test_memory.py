"""What a command asks of the C library's memory, and what it says where there is too little."""

import ctypes
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch

from hardner import cli
from hardner.cli.common import keep_freed_memory


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_glibc_is_asked_and_no_other_system(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, what: int, value: int) -> int:
            asked.append((what, value))
            return 1

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    keep_freed_memory()
    assert asked == ([(-3, 32 << 20), (-1, 1 << 30), (-8, 1)] if platform == "linux" else [])


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    keep_freed_memory()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_glibc_takes_what_it_is_asked() -> None:
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is None:
        pytest.skip("needs glibc")
    assert adjust(-3, 32 << 20) == 1
    assert adjust(-1, 1 << 30) == 1
    assert adjust(-8, 1) == 1


@pytest.mark.parametrize(
    "ask", [lambda: torch.empty(1 << 55), lambda: bytearray(1 << 60), lambda: np.empty(1 << 55)]
)
def test_too_little_memory_is_one_line(
    ask: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "app", lambda **options: ask())
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("hardner: not enough memory; ") and said.count("\n") == 1


def test_other_failures_are_no_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**options: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        cli.main()
