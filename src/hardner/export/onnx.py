"""A predictor's encoder and heads as one ONNX graph (extra ``hardner[onnx]``).

Inputs and outputs are named in `hardner.model.graph`; batch size and lengths are free. The heads
stay beside the graph too, as ordinary parameters, as decoding needs them.
"""

import io
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from hardner.errors import HardnerError, import_extra
from hardner.export.quantise import CONTRIBUTED, quantise_graph
from hardner.model.graph import EMISSIONS, PIECES, PLACES, WORDS
from hardner.model.huggingface import BertEncoder
from hardner.model.layers import Params, scoped
from hardner.model.onnx import OnnxEncoder
from hardner.model.tagger import Tagger
from hardner.model.transformer import PieceEncoder
from hardner.tag.predictor import Predictor

_OPSET = 17
_AXES = {
    PIECES: {0: "windows", 1: "pieces"},
    PLACES: {0: "sentences", 1: "words"},
    WORDS: {0: "sentences", 1: "words"},
    EMISSIONS: {1: "sentences", 2: "words"},
}
_EPSILON = 1e-5
"""Of layer norm, as in torch."""


def to_onnx(predictor: Predictor, *, quantised: bool = False) -> Predictor:
    """The same predictor with its encoder run by onnxruntime.

    Args:
        predictor: One whose encoder reads subwords: a transformer of hardner or of Hugging Face.
        quantised: Multiply 8-bit integers: faster and smaller, and a little less exact.
    """
    encoder = _exportable(predictor.tagger)
    params = {name: value.cpu() for name, value in predictor.params.items()}
    graph = onnx_graph(predictor.tagger, params)
    made = OnnxEncoder(quantise_graph(graph) if quantised else graph, encoder.pieces, encoder.size)
    heads = {name: value for name, value in params.items() if name.startswith("decoder.")}
    tagger = replace(predictor.tagger, encoder=made, heads={}, label_encoder=None)
    return Predictor(
        tagger,
        heads,
        predictor.temperatures,
        thresholds=predictor.thresholds,
        curves=predictor.curves,
    )


def _exportable(tagger: Tagger) -> PieceEncoder | BertEncoder:
    if isinstance(tagger.encoder, PieceEncoder | BertEncoder):
        return tagger.encoder
    kind = type(tagger.encoder).__name__
    raise HardnerError(f"a {kind} cannot be written as ONNX, only an encoder that reads subwords")


def onnx_graph(tagger: Tagger, params: Params) -> bytes:
    """The content of an ONNX file, in single precision."""
    encoder = _exportable(tagger)
    if isinstance(encoder, PieceEncoder):
        return _GraphBuilder(encoder, params).build()
    return _trace(encoder, params)


def _trace(encoder: BertEncoder, params: Params) -> bytes:
    """The graph of a Hugging Face network, whose operations torch records."""
    stream = io.BytesIO()
    pieces, places = torch.ones(2, 5, dtype=torch.long), torch.ones(3, 4, dtype=torch.long)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer warns of each Python value it takes as fixed
        torch.onnx.export(
            _TracedBert(encoder, params).eval(),
            (pieces, places),
            stream,  # type: ignore[arg-type]
            dynamo=False,
            opset_version=_OPSET,
            input_names=[PIECES, PLACES],
            output_names=[WORDS, EMISSIONS],
            dynamic_axes=_AXES,
        )
    return stream.getvalue()


class _TracedBert(nn.Module):
    """A forward pass of encoder and heads as a module that holds its parameters."""

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
        ids, mask = self.own(pieces)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # [W, P, H]
        words = hidden.flatten(0, 1)[places]  # [B, T, H]
        scores = nn.functional.linear(words, self.weight.flatten(0, 1), self.bias.flatten())
        return words, scores.unflatten(-1, self.bias.shape).permute(2, 0, 1, 3)


class _GraphBuilder:
    """hardner's own transformer, written with the fused operators of onnxruntime.

    Pieces [W, P] and places [B, T] -> words [B, T, H] and emissions [D, B, T, C]. Methods that add
    nodes take and return the names of values.
    """

    def __init__(self, encoder: PieceEncoder, params: Params) -> None:
        self.onnx = import_extra("onnx", "onnx")
        self.network, self.limit = encoder.transformer, encoder.pieces.limit
        self.own = scoped(params, "encoder")
        self.weight, self.bias = params["decoder.weight"][0], params["decoder.bias"][0]
        self.nodes: list[Any] = []
        self.constants: dict[str, Tensor] = {}

    def build(self) -> bytes:
        flat = self._constant("flat", torch.tensor([-1, self.network.size]))
        rotation = self.network.rotation(self.limit, torch.zeros(1))
        self._constant("cosines", rotation[0])
        self._constant("sines", rotation[1])
        self._constant("first", torch.zeros(1, dtype=torch.long))
        filled = self._add("Greater", [PIECES, self._constant("padding", torch.tensor(0))])
        mask = self._add("Cast", [filled], to=self.onnx.TensorProto.INT32)
        x = self._add("Gather", [self._own("pieces"), PIECES], axis=0)  # [W, P, H]
        h = self._norm("layer0.norm1", x)
        for i in range(self.network.layers):
            mixed = self._attend(f"layer{i}", h, mask)
            last = i == self.network.layers - 1
            if last:  # only the words' vectors are needed from here on
                x, mixed = (self._add("Reshape", [y, flat]) for y in (x, mixed))
                x, mixed = (self._add("Gather", [y, PLACES], axis=0) for y in (x, mixed))
            following = "norm" if last else f"layer{i + 1}.norm1"
            h, x = self._feed(f"layer{i}", x, mixed, following)
        self._add("Identity", [h], WORDS)
        self._decode()
        return self._content()

    def _attend(self, layer: str, h: str, mask: str) -> str:
        """[W, P, H] -> [W, P, H]."""
        heads = self.network.heads
        qkv = self._linear(f"{layer}.attention", h)
        q, k, v = self._nodes("Split", [qkv], 3, axis=-1)
        q, k = (
            self._fused("RotaryEmbedding", [y, "first", "cosines", "sines"], num_heads=heads)
            for y in (q, k)
        )
        return self._fused("MultiHeadAttention", [q, k, v, "", mask], num_heads=heads)

    def _feed(self, layer: str, x: str, mixed: str, following: str) -> tuple[str, str]:
        """The rest of a layer: the output of the norm that follows it, and its input."""
        h, x = self._residual(x, f"{layer}.out", mixed, f"{layer}.norm2")
        wide = self._matmul(f"{layer}.up", h)
        wide = self._fused("BiasGelu", [wide, self._own(f"{layer}.up.bias")])
        return self._residual(x, f"{layer}.down", wide, following)

    def _residual(self, x: str, name: str, branch: str, norm: str) -> tuple[str, str]:
        """x plus a linear map of the branch: the norm of the sum, and the sum."""
        total = self._add("Add", [x, self._linear(name, branch)])
        return self._norm(norm, total), total

    def _norm(self, name: str, x: str) -> str:
        inputs = [x, self._own(f"{name}.weight"), self._own(f"{name}.bias")]
        return self._add("LayerNormalization", inputs, axis=-1, epsilon=_EPSILON)

    def _linear(self, name: str, x: str) -> str:
        return self._add("Add", [self._matmul(name, x), self._own(f"{name}.bias")])

    def _matmul(self, name: str, x: str) -> str:
        return self._add("MatMul", [x, self._own(f"{name}.weight")])

    def _decode(self) -> None:
        heads, tags, size = self.weight.shape
        weight = self._constant("decoder.weight", self.weight.reshape(-1, size).T)
        bias = self._constant("decoder.bias", self.bias.flatten())
        shape = self._constant("heads", torch.tensor([0, 0, heads, tags]))
        scores = self._add("Add", [self._add("MatMul", [WORDS, weight]), bias])
        scores = self._add("Reshape", [scores, shape])  # [B, T, D, C]
        self._add("Transpose", [scores], EMISSIONS, perm=[2, 0, 1, 3])

    def _own(self, name: str) -> str:
        """A parameter; the weights of a linear map are transposed, to [I, O]."""
        value = self.own[name][0].float()
        transposed = value.dim() == 2 and name != "pieces"
        return self._constant(f"encoder.{name}", value.T if transposed else value)

    def _constant(self, name: str, value: Tensor) -> str:
        self.constants[name] = value
        return name

    def _fused(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self._nodes(kind, inputs, 1, domain=CONTRIBUTED, **attributes)[0]

    def _add(self, kind: str, inputs: Sequence[str], out: str = "", **attributes: Any) -> str:
        return self._nodes(kind, inputs, 1, out, **attributes)[0]

    def _nodes(
        self, kind: str, inputs: Sequence[str], outputs: int, out: str = "", **attributes: Any
    ) -> list[str]:
        name = out or f"{kind}{len(self.nodes)}"
        made = [name, *(f"{name}/{i}" for i in range(1, outputs))]
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, made, name, **attributes))
        return made

    def _content(self) -> bytes:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        heads, tags, size = self.weight.shape
        inputs = {name: list(_AXES[name].values()) for name in (PIECES, PLACES)}
        words, emissions = ([*_AXES[name].values()] for name in (WORDS, EMISSIONS))
        outputs = {WORDS: [*words, size], EMISSIONS: [heads, *emissions, tags]}
        from_array = self.onnx.numpy_helper.from_array
        graph = helper.make_graph(
            self.nodes,
            "hardner",
            [helper.make_tensor_value_info(n, types.INT64, shape) for n, shape in inputs.items()],
            [helper.make_tensor_value_info(n, types.FLOAT, shape) for n, shape in outputs.items()],
            [from_array(v.contiguous().numpy(), name) for name, v in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(CONTRIBUTED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        content: bytes = model.SerializeToString()
        return content
