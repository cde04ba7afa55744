"""The quickest form of a model that a server can tag with, and still find the same."""

import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hardner.errors import HardnerError
from hardner.manifest import CONFIG, read_config

if TYPE_CHECKING:
    from hardner.tag.text_tagger import TextTagger

_ONNX = ("onnx", "onnxruntime")


class FastForm(NamedTuple):
    """A model to serve."""

    tagger: "TextTagger"
    form: str
    """What it is computed by."""
    note: str
    """How it compares with the model, or why it is not in 8 bits."""


def load_fast_form(folder: Path | None, *, exact: bool = False) -> FastForm:
    """A model, in 8 bits where onnxruntime is installed and its F1 stays the same.

    It is exported in a process of its own, so that torch takes no memory of this one.

    Args:
        folder: Of the model; None is the bundled one.
        exact: As it is, in no other form.
    """
    if folder is not None and _is_onnx(folder):
        return FastForm(_onnx(folder), "onnx", "as it was exported")
    note = "asked for as it is"
    if not exact:
        missing = [name for name in _ONNX if find_spec(name) is None]
        note = f"not in 8 bits: {' and '.join(missing)} not installed; install hardner[onnx]"
        if not missing:
            with tempfile.TemporaryDirectory(prefix="hardner-int8-") as temporary:
                out = Path(temporary, "model")
                note = _export(folder, out)
                if out.is_dir():
                    return FastForm(_onnx(out), "onnx int8", note)
    if find_spec("torch") is None:
        name = "the bundled model" if folder is None else folder
        raise HardnerError(f"{name} needs torch, which is not installed; name an ONNX model")
    from hardner.serve.model_thread import load_predictor

    return FastForm(load_predictor(folder), "torch", note)


def _is_onnx(folder: Path) -> bool:
    if not (folder / CONFIG).is_file():
        return False  # or no folder at all, which whoever reads it will say
    from hardner.tag.onnx_predictor import is_onnx_config

    return is_onnx_config(read_config(folder / CONFIG).get("config", {}))


def _onnx(folder: Path) -> "TextTagger":
    from hardner.tag.onnx_predictor import OnnxPredictor

    return replace(OnnxPredictor.load(folder), threads=1)  # whoever serves it has threads


def _export(folder: Path | None, out: Path) -> str:
    """Write the 8-bit form if it finds the same; returns what the command said of it."""
    command = [sys.executable, "-m", "hardner", "export", "--onnx", str(out), "--int8"]
    if folder is not None:
        command += ["--model", str(folder)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    said = " ".join(done.stderr.split()).removeprefix(f"{out}: ").partition("; next: ")[0]
    return said if done.returncode == 0 else f"not in 8 bits: {said}"
