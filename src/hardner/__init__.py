"""Hardness-guided NER: a working biomedical tagger from 5 to 100 labelled sentences.

import hardner

tagger = hardner.load()
tagger("Aspirin may worsen asthma.")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardner.types import Document, Entity

if TYPE_CHECKING:
    from hardner.tag.guidelines import load
    from hardner.tag.onnx_predictor import OnnxPredictor
    from hardner.tag.predictor import Predictor

__version__ = "0.1.0"
__all__ = ["Document", "Entity", "OnnxPredictor", "Predictor", "__version__", "load"]


_LATE = {
    "load": "hardner.tag.guidelines",
    "Predictor": "hardner.tag.predictor",
    "OnnxPredictor": "hardner.tag.onnx_predictor",
}
"""What needs torch or onnxruntime: imported when first asked for, so that `import` is quick."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LATE[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from hardner.errors import HardnerError

        without = "not installed; hardner.OnnxPredictor.load reads an ONNX model without it"
        raise HardnerError(f"hardner.{name} needs torch, which is {without}") from None


def __dir__() -> list[str]:
    return [*globals(), *_LATE]
