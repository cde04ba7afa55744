"""Where a result comes from: versions of what computed it, and the commit of the code."""

import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from hardner import __version__


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Of the package and what decides its numbers."""
    return {
        "hardner": __version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
    }


@lru_cache(maxsize=1)
def commit() -> str:
    """Of the checkout that the code runs from, with a ``+`` where it was changed; empty if none.

    HARDNER_COMMIT names it where the code was copied without its history.
    """
    if given := os.environ.get("HARDNER_COMMIT"):
        return given
    try:
        head = _git("rev-parse", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()
