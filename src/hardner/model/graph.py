"""An encoder's ONNX graph, run by onnxruntime (extra ``hardner[onnx]``); torch is not needed."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError, import_extra
from hardner.features import Ints

GRAPH = "encoder.onnx"
"""The file of a model folder that holds it."""
PIECES, PLACES = "pieces", "places"
"""Inputs: windows of pieces [W, P], 0 for padding; and where words begin in them, all windows
laid end to end, [B, T]."""
WORDS, EMISSIONS = "words", "emissions"
"""Outputs: the vectors of the words [B, T, H], and what each of D heads says of them
[D, B, T, C]."""


class GraphRunner:
    """A graph that any number of threads, and processes that were forked, may run."""

    def __init__(self, graph: bytes) -> None:
        self._graph = graph
        self._sessions: dict[int, Any] = {}
        """By process: the threads of one do not follow it into a fork."""
        self._session()

    def __call__(self, inputs: Mapping[str, Ints]) -> NDArray[np.float32]:
        """The vectors of the words, [B, T, H]."""
        (words,) = self._session().run([WORDS], inputs)
        found: NDArray[np.float32] = words
        return found

    def _session(self) -> Any:
        here = os.getpid()
        if here not in self._sessions:
            self._sessions[here] = _session(self._graph)
        return self._sessions[here]


def _session(graph: bytes) -> Any:
    """A graph ready to run, on one core: several threads may run it at once."""
    runtime = import_extra("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises no narrower one
        raise HardnerError(f"damaged graph: {error!s:.200}") from None
