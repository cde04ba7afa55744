"""Where the real corpora are: beside the checkout, or where ``CORPORA`` says."""

import os
from pathlib import Path

from hardner.corpora import Corpora

SHARED = Path(__file__).parents[2] / "shared"
CORPORA = Path(os.environ.get("CORPORA", SHARED / "corpora"))


def missing(names: tuple[str, ...]) -> str:
    """Why a test that needs these corpora cannot run; empty if it can."""
    if not CORPORA.is_dir():
        return f"the real corpora are not at {CORPORA}"
    known = Corpora.under(CORPORA)
    absent = [name for name in names if not known.holds(name)]
    return f"no {', '.join(absent)} at {CORPORA}" if absent else ""
