"""A predictor's encoder and heads as one ONNX graph (extra ``hardner[onnx]``).

Inputs and outputs are named in `hardner.model.onnx`; batch and lengths are free. The heads also
stay beside the graph, as ordinary parameters, with whatever else decides the tags.
"""

import io
import warnings
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from hardner.errors import HardnerError
from hardner.export.graph import OPSET, written
from hardner.export.quantise import int8
from hardner.model.encoders import PieceEncoder
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import Params, scoped
from hardner.model.onnx import EMISSIONS, PIECES, PLACES, WORDS, OnnxEncoder
from hardner.model.tagger import Tagger
from hardner.tag.predictor import Predictor

AXES = {
    PIECES: {0: "windows", 1: "pieces"},
    PLACES: {0: "sentences", 1: "words"},
    WORDS: {0: "sentences", 1: "words"},
    EMISSIONS: {1: "sentences", 2: "words"},
}


def to_onnx(predictor: Predictor, *, quantised: bool = False) -> Predictor:
    """The same predictor, its encoder run by onnxruntime.

    Args:
        predictor: Its encoder reads pieces.
        quantised: Multiply in 8 bits: faster and smaller, and a little less exact.
    """
    tagger, encoder = predictor.tagger, reads_pieces(predictor.tagger)
    params = {name: value.cpu() for name, value in predictor.params.items()}
    graph = graph_of(tagger, params)
    made = OnnxEncoder(int8(graph) if quantised else graph, encoder.pieces, encoder.size)
    own = {name: value for name, value in params.items() if name.startswith("decoder.")}
    return Predictor(replace(tagger, encoder=made, heads={}), own, predictor.temperatures)


def reads_pieces(tagger: Tagger) -> PieceEncoder | BertEncoder:
    """The tagger's encoder, if it is of a kind that can be written."""
    if isinstance(tagger.encoder, PieceEncoder | BertEncoder):
        return tagger.encoder
    kind = type(tagger.encoder).__name__
    raise HardnerError(f"a {kind} cannot be written as ONNX, only an encoder that reads pieces")


def graph_of(tagger: Tagger, params: Params) -> bytes:
    """The graph, in single precision, as a file's content."""
    encoder = reads_pieces(tagger)
    return (
        written(encoder, params) if isinstance(encoder, PieceEncoder) else traced(encoder, params)
    )


def traced(encoder: BertEncoder, params: Params) -> bytes:
    """The graph of a Hugging Face network, whose operations are recorded."""
    stream = io.BytesIO()
    pieces, places = torch.ones(2, 5, dtype=torch.long), torch.ones(3, 4, dtype=torch.long)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the tracer, which cannot know what stays as it is
        torch.onnx.export(
            _Traced(encoder, params).eval(),
            (pieces, places),
            stream,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=OPSET,
            input_names=[PIECES, PLACES],
            output_names=[WORDS, EMISSIONS],
            dynamic_axes=AXES,
        )
    return stream.getvalue()


class _Traced(nn.Module):
    """A forward pass, its parameters inside."""

    def __init__(self, encoder: BertEncoder, params: Params) -> None:
        super().__init__()
        self.own = encoder.own
        self.model = deepcopy(encoder.model)
        own = {name: value[0] for name, value in scoped(params, "encoder").items()}
        self.model.load_state_dict(own, strict=False)
        self.weight = nn.Buffer(params["decoder.weight"][0].float())  # [D, C, H]
        self.bias = nn.Buffer(params["decoder.bias"][0].float())  # [D, C]

    def forward(self, pieces: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """pieces [W, P], places [B, T] -> words [B, T, H], emissions [D, B, T, C]."""
        ids, there = self.own(pieces)
        found = self.model(input_ids=ids, attention_mask=there).last_hidden_state  # [W, P, H]
        words = found.flatten(0, 1)[places]  # [B, T, H]
        scores = nn.functional.linear(words, self.weight.flatten(0, 1), self.bias.flatten())
        return words, scores.unflatten(-1, self.bias.shape).permute(2, 0, 1, 3)
