"""An encoder whose arithmetic is that of an ONNX graph (extra ``hardner[onnx]``); it only tags."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from hardner.batch import Batch
from hardner.config import AxisSize
from hardner.errors import HardnerError
from hardner.features import Features, Pieces
from hardner.model.encoders import Encoded
from hardner.model.graph import PIECES, PLACES, GraphRunner
from hardner.model.layers import Mode, Params
from hardner.model.transformer import in_windows
from hardner.types import Sentence


@dataclass(frozen=True)
class OnnxEncoder:
    """The encoder that the graph was exported from."""

    graph: bytes = field(compare=False, repr=False)
    pieces: Pieces = field(compare=False)
    size: AxisSize
    _runner: GraphRunner = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_runner", GraphRunner(self.graph))

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
        found = self._runner({name: value.cpu().numpy() for name, value in inputs.items()})
        vectors = torch.from_numpy(found).to(heads.device)
        vectors = vectors.view(*places.shape, -1)  # [M, B, 1 + T, H]
        return Encoded(vectors[:, :, 1:], vectors[:, :, 0])
