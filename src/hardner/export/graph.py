"""The project's own transformer and its heads as an ONNX graph of onnxruntime's fused operators."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from hardner.errors import HardnerError
from hardner.model.encoders import PieceEncoder
from hardner.model.layers import Params, scoped
from hardner.model.onnx import EMISSIONS, PIECES, PLACES, WORDS

OPSET = 17
_CONTRIBUTED = "com.microsoft"
"""Operators that onnxruntime adds to the standard."""
_EPSILON = 1e-5
"""Of norms, as torch has it."""


def written(encoder: PieceEncoder, params: Params) -> bytes:
    """Pieces [W, P] and places [B, T] -> words [B, T, H] and emissions [D, B, T, C]."""
    return _Writing(encoder, params).done()


class _Writing:
    def __init__(self, encoder: PieceEncoder, params: Params) -> None:
        try:
            self.onnx: Any = import_module("onnx")
        except ImportError:
            raise HardnerError("ONNX models need onnx: pip install hardner[onnx]") from None
        self.network, self.limit = encoder.transformer, encoder.pieces.limit
        self.own = scoped(params, "encoder")
        self.weight, self.bias = params["decoder.weight"][0], params["decoder.bias"][0]
        self.nodes: list[Any] = []
        self.constants: dict[str, Tensor] = {}

    def done(self) -> bytes:
        size = self.network.size
        flat = self._constant("flat", torch.tensor([-1, size]))
        turn = self.network.rotation(self.limit, torch.zeros(1))
        self._constant("cosines", turn[0])
        self._constant("sines", turn[1])
        self._constant("first", torch.zeros(1, dtype=torch.long))
        filled = self._add("Greater", [PIECES, self._constant("padding", torch.tensor(0))])
        there = self._add("Cast", [filled], to=self.onnx.TensorProto.INT32)
        x = self._add("Gather", [self._own("pieces"), PIECES], axis=0)  # [W, P, H]
        h = self._norm("layer0.norm1", x)
        for i in range(self.network.layers):
            mixed = self._attend(f"layer{i}", h, there)
            last = i == self.network.layers - 1
            if last:  # what follows is wanted of words only
                x, mixed = (self._add("Reshape", [y, flat]) for y in (x, mixed))
                x, mixed = (self._add("Gather", [y, PLACES], axis=0) for y in (x, mixed))
            following = "norm" if last else f"layer{i + 1}.norm1"
            h, x = self._feed(f"layer{i}", x, mixed, following)
        self._add("Identity", [h], WORDS)
        self._decode()
        return self._content()

    def _attend(self, layer: str, h: str, there: str) -> str:
        """[W, P, H] -> [W, P, H]."""
        heads = self.network.heads
        qkv = self._mapped(f"{layer}.attention", h)
        q, k, v = self._many("Split", [qkv], 3, axis=-1)
        q, k = (
            self._fused("RotaryEmbedding", [y, "first", "cosines", "sines"], num_heads=heads)
            for y in (q, k)
        )
        return self._fused("MultiHeadAttention", [q, k, v, "", there], num_heads=heads)

    def _feed(self, layer: str, x: str, mixed: str, following: str) -> tuple[str, str]:
        """The rest of a layer, up to the norm that follows it; and what that norm reads."""
        h, x = self._skip(x, f"{layer}.out", mixed, f"{layer}.norm2")
        wide = self._times(f"{layer}.up", h)
        wide = self._fused("BiasGelu", [wide, self._own(f"{layer}.up.bias")])
        return self._skip(x, f"{layer}.down", wide, following)

    def _skip(self, x: str, name: str, of: str, norm: str) -> tuple[str, str]:
        """x and a linear map of something else: the norm of their sum, and the sum."""
        total = self._add("Add", [x, self._mapped(name, of)])
        return self._norm(norm, total), total

    def _norm(self, name: str, x: str) -> str:
        inputs = [x, self._own(f"{name}.weight"), self._own(f"{name}.bias")]
        return self._add("LayerNormalization", inputs, axis=-1, epsilon=_EPSILON)

    def _mapped(self, name: str, x: str) -> str:
        return self._add("Add", [self._times(name, x), self._own(f"{name}.bias")])

    def _times(self, name: str, x: str) -> str:
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
        """A parameter; a linear map's weights lie as a product wants them, [I, O]."""
        value = self.own[name][0].float()
        turned = value.dim() == 2 and name != "pieces"
        return self._constant(f"encoder.{name}", value.T if turned else value)

    def _constant(self, name: str, value: Tensor) -> str:
        self.constants[name] = value
        return name

    def _fused(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self._many(kind, inputs, 1, _CONTRIBUTED, **attributes)[0]

    def _add(self, kind: str, inputs: Sequence[str], out: str = "", **attributes: Any) -> str:
        return self._many(kind, inputs, 1, out=out, **attributes)[0]

    def _many(
        self,
        kind: str,
        inputs: Sequence[str],
        outputs: int,
        domain: str = "",
        out: str = "",
        **attributes: Any,
    ) -> list[str]:
        name = out or f"{kind}{len(self.nodes)}"
        made = [name, *(f"{name}/{i}" for i in range(1, outputs))]
        node = self.onnx.helper.make_node(kind, inputs, made, name, domain=domain, **attributes)
        self.nodes.append(node)
        return made

    def _content(self) -> bytes:
        h, types = self.onnx.helper, self.onnx.TensorProto
        array = self.onnx.numpy_helper.from_array
        heads, tags, size = self.weight.shape
        graph = h.make_graph(
            self.nodes,
            "hardner",
            [
                h.make_tensor_value_info(PIECES, types.INT64, ["windows", "pieces"]),
                h.make_tensor_value_info(PLACES, types.INT64, ["sentences", "words"]),
            ],
            [
                h.make_tensor_value_info(WORDS, types.FLOAT, ["sentences", "words", size]),
                h.make_tensor_value_info(
                    EMISSIONS, types.FLOAT, [heads, "sentences", "words", tags]
                ),
            ],
            [array(v.contiguous().numpy(), name) for name, v in self.constants.items()],
        )
        opsets = [h.make_opsetid("", OPSET), h.make_opsetid(_CONTRIBUTED, 1)]
        content: bytes = h.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        return content
