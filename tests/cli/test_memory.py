"""What a command asks of the C library's memory."""

import ctypes
import sys

import pytest

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
    assert asked == ([(-3, 32 << 20), (-1, 1 << 30)] if platform == "linux" else [])


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
