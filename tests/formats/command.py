"""Runs the command line in this process."""

import sys

import pytest

from hardner.cli import main


class Command:
    """Calls ``hardner``; keeps its exit code and what it said."""

    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd, self._monkeypatch = capfd, monkeypatch

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["hardner", *map(str, arguments)])
        self._capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self._capfd.readouterr()
        return code, out, err
