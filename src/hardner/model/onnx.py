"""An encoder whose arithmetic is that of an ONNX graph (extra ``hardner[onnx]``); it only tags."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hardner.batch import Batch, Features
from hardner.config import AxisSize
from hardner.errors import HardnerError, import_extra
from hardner.model.encoders import Encoded
from hardner.model.layers import Mode, Params
from hardner.model.subwords import Pieces, in_windows
from hardner.types import Sentence

PIECES, PLACES = "pieces", "places"
"""Inputs: windows of pieces [W, P], 0 for padding; and where words begin in them, all windows
laid end to end, [B, T]."""
WORDS, EMISSIONS = "words", "emissions"
"""Outputs: the vectors of the words [B, T, H], and what each of D heads says of them
[D, B, T, C]."""


@dataclass(frozen=True)
class OnnxEncoder:
    """The encoder that the graph was exported from."""

    graph: bytes = field(compare=False, repr=False)
    pieces: Pieces = field(compare=False)
    size: AxisSize
    _sessions: dict[int, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """By process: the threads of one do not follow it into a fork."""

    def __post_init__(self) -> None:
        self._session()

    def _session(self) -> Any:
        here = os.getpid()
        if here not in self._sessions:
            self._sessions[here] = session(self.graph)
        return self._sessions[here]

    def init(self, rng: torch.Generator) -> Params:
        return {}  # the parameters lie in the graph

    def features(self, sentences: Sequence[Sentence]) -> Features:
        return self.pieces.features(sentences)

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """The graph's vectors, on the device of the batch."""
        if torch.is_grad_enabled():
            made = "adapt the model it was made from and export the result"
            raise HardnerError(f"an ONNX model tags and cannot learn; {made}")
        windows = in_windows(batch.inputs["pieces"], self.pieces.limit).flatten(0, 1)  # [W, P]
        heads = batch.inputs["heads"]  # [M, B, T]
        rows = torch.arange(batch.lengths.numel(), device=heads.device).view(*heads.shape[:2], 1)
        width = windows.numel() // batch.lengths.numel()
        places = torch.cat((torch.zeros_like(rows), heads), dim=-1) + rows * width  # [M, B, 1 + T]
        inputs = {PIECES: windows, PLACES: places.flatten(0, 1)}
        (found,) = self._session().run([WORDS], {n: v.cpu().numpy() for n, v in inputs.items()})
        vectors = torch.from_numpy(found).to(heads.device)
        vectors = vectors.view(*places.shape, -1)  # [M, B, 1 + T, H]
        return Encoded(vectors[:, :, 1:], vectors[:, :, 0])


def session(graph: bytes) -> Any:
    """A graph ready to run, on one core: several threads may run it at once."""
    runtime = import_extra("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises no narrower one
        raise HardnerError(f"damaged graph: {error!s:.200}") from None
