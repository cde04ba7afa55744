"""Hardness-guided NER: a working biomedical tagger from 5 to 100 labelled sentences.

import hardner

tagger = hardner.load()
tagger("Aspirin may worsen asthma.")
"""

from typing import TYPE_CHECKING, Any

from hardner.types import Document, Entity

if TYPE_CHECKING:
    from hardner.tag.guidelines import load
    from hardner.tag.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["Document", "Entity", "Predictor", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for, so that `import hardner` is quick."""
    if name not in ("Predictor", "load"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hardner.tag import guidelines

    return getattr(guidelines, name)  # which knows both


def __dir__() -> list[str]:
    return [*globals(), "Predictor", "load"]
