"""An ONNX graph whose weights are 8-bit integers.

A product with constant weights becomes one of integers: weights are scaled by column, the other
side by row as it comes, so that a word's result does not depend on what is computed beside it.
    x W  ~  r * (round(x / r) round(W / c)) * c,  r = max |x| / 127 of a row, c = max |W| / 127
Tables that are looked up are scaled by row.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardner.errors import HardnerError

_CONTRIBUTED = "com.microsoft"
"""Operators that onnxruntime adds to the standard."""
TABLE = 50_000
"""Numbers of a table that is worth shrinking."""
ZERO, UNIT, SHARE, LEAST = "int8/zero", "int8/unit", "int8/share", "int8/least"


def int8(graph: bytes) -> bytes:
    """The graph with 8-bit weights."""
    return _Rewriting(graph).done()


class _Rewriting:
    def __init__(self, graph: bytes) -> None:
        try:
            self.onnx: Any = import_module("onnx")
        except ImportError:
            raise HardnerError("8-bit models need onnx: pip install hardner[onnx]") from None
        self.model = self.onnx.load_model_from_string(graph)
        self.weights = {w.name: w for w in self.model.graph.initializer}
        self.new: dict[str, NDArray[Any]] = {
            ZERO: np.array(128, np.uint8),
            UNIT: np.array(1, np.float32),
            SHARE: np.array(1 / 127, np.float32),
            LEAST: np.array(1e-20, np.float32),
        }

    def done(self) -> bytes:
        graph = self.model.graph
        nodes = [made for node in graph.node for made in self._rewritten(node)]
        used = {name for node in nodes for name in node.input}
        kept = [w for name, w in self.weights.items() if name in used]
        kept += [self.onnx.numpy_helper.from_array(v, name) for name, v in self.new.items()]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.initializer.extend(kept)
        if all(known.domain != _CONTRIBUTED for known in self.model.opset_import):
            self.model.opset_import.append(self.onnx.helper.make_opsetid(_CONTRIBUTED, 1))
        content: bytes = self.model.SerializeToString()
        return content

    def _rewritten(self, node: Any) -> Iterator[Any]:
        if node.op_type == "MatMul" and self._matrix(node.input[1]) is not None:
            yield from self._product(node.input[0], node.input[1], node.output[0])
        elif node.op_type == "Gather" and self._is_table(node):
            yield from self._look_up(node.input[0], node.input[1], node.output[0])
        else:
            yield node

    def _matrix(self, name: str) -> NDArray[np.float32] | None:
        """A constant matrix."""
        if name not in self.weights:
            return None
        found = self.onnx.numpy_helper.to_array(self.weights[name])
        return found if found.ndim == 2 and found.dtype == np.float32 else None

    def _is_table(self, node: Any) -> bool:
        table = self._matrix(node.input[0])
        by_row = all(attribute.i == 0 for attribute in node.attribute)
        return table is not None and by_row and table.size >= TABLE

    def _product(self, x: str, weight: str, out: str) -> Iterator[Any]:
        integers, scale = f"{weight}/int8", f"{weight}/scale"
        matrix = self._matrix(weight)
        assert matrix is not None
        self.new[integers], scales = _integers(matrix, axis=0)
        self.new[scale] = scales[0]
        none = f"{weight}/zero"
        self.new[none] = np.zeros_like(scales[0], np.int8)
        most, least, other = f"{out}/most", f"{out}/least", f"{out}/other"
        some, row = f"{out}/some", f"{out}/row"
        inverse, shrunk = f"{out}/inverse", f"{out}/shrunk"
        whole, product = f"{out}/int8", f"{out}/product"
        yield self._node("ReduceMax", [x], most, axes=[-1])
        yield self._node("ReduceMin", [x], least, axes=[-1])
        yield self._node("Neg", [least], other)
        yield self._node("Max", [most, other, LEAST], some)
        yield self._node("Mul", [some, SHARE], row)
        yield self._node("Reciprocal", [row], inverse)
        yield self._node("Mul", [x, inverse], shrunk)
        yield self._node("QuantizeLinear", [shrunk, UNIT, ZERO], whole)
        inputs = [whole, integers, UNIT, scale, ZERO, none]
        yield self._node("MatMulIntegerToFloat", inputs, product, domain=_CONTRIBUTED)
        yield self._node("Mul", [product, row], out)

    def _look_up(self, table: str, rows: str, out: str) -> Iterator[Any]:
        integers, scale = f"{table}/int8", f"{table}/scale"
        matrix = self._matrix(table)
        assert matrix is not None
        self.new[integers], self.new[scale] = _integers(matrix, axis=1)
        found, number, own = f"{out}/int8", f"{out}/number", f"{out}/scale"
        yield self._node("Gather", [integers, rows], found, axis=0)
        yield self._node("Cast", [found], number, to=self.onnx.TensorProto.FLOAT)
        yield self._node("Gather", [scale, rows], own, axis=0)
        yield self._node("Mul", [number, own], out)

    def _node(self, kind: str, inputs: list[str], out: str, **attributes: Any) -> Any:
        return self.onnx.helper.make_node(kind, inputs, [out], f"{out}/{kind}", **attributes)


def _integers(matrix: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """A matrix as integers and the scales along an axis: their product is the matrix again."""
    scales = np.abs(matrix).max(axis, keepdims=True) / 127
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales
