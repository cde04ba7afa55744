"""An ONNX graph with 8-bit integers for weights.

A product with constant weights becomes one of integers. Weights have a scale by column; the other
side has one by row, computed as it comes, so that a word's result does not depend on the batch:
    x W  ~  r * (round(x / r) round(W / c)) * c,  r = max |x| / 127 of a row, c = max |W| / 127
Tables that rows are looked up in have a scale by row.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardner.errors import import_extra

CONTRIBUTED = "com.microsoft"
"""The domain of the operators that onnxruntime adds to the standard."""
_SMALLEST_TABLE = 50_000
"""Numbers of a table that is worth quantising."""
_ZERO, _ONE, _STEP, _TINY = "int8/zero", "int8/one", "int8/step", "int8/tiny"


def quantise_graph(graph: bytes) -> bytes:
    """The graph with 8-bit weights."""
    return _Quantiser(graph).quantised()


class _Quantiser:
    def __init__(self, graph: bytes) -> None:
        self.onnx = import_extra("onnx", "onnx")
        self.model = self.onnx.load_model_from_string(graph)
        self.weights = {w.name: w for w in self.model.graph.initializer}
        self.new: dict[str, NDArray[Any]] = {
            _ZERO: np.array(128, np.uint8),
            _ONE: np.array(1, np.float32),
            _STEP: np.array(1 / 127, np.float32),
            _TINY: np.array(1e-20, np.float32),  # a row of zeros must not divide by zero
        }

    def quantised(self) -> bytes:
        graph = self.model.graph
        nodes = [made for node in graph.node for made in self._rewritten(node)]
        used = {name for node in nodes for name in node.input}
        kept = [w for name, w in self.weights.items() if name in used]
        kept += [self.onnx.numpy_helper.from_array(v, name) for name, v in self.new.items()]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.initializer.extend(kept)
        if all(known.domain != CONTRIBUTED for known in self.model.opset_import):
            self.model.opset_import.append(self.onnx.helper.make_opsetid(CONTRIBUTED, 1))
        content: bytes = self.model.SerializeToString()
        return content

    def _rewritten(self, node: Any) -> Iterator[Any]:
        """The nodes that take the place of one."""
        out = node.output[0]
        if node.op_type == "MatMul" and (weight := self._matrix(node.input[1])) is not None:
            yield from self._product(node.input[0], node.input[1], weight, out)
        elif (
            node.op_type == "Gather"
            and (table := self._matrix(node.input[0])) is not None
            and all(attribute.i == 0 for attribute in node.attribute)  # rows, not columns
            and table.size >= _SMALLEST_TABLE
        ):
            yield from self._look_up(node.input[0], node.input[1], table, out)
        else:
            yield node

    def _matrix(self, name: str) -> NDArray[np.float32] | None:
        """The value of a constant, if it is a matrix of floats."""
        if name not in self.weights:
            return None
        found = self.onnx.numpy_helper.to_array(self.weights[name])
        return found if found.ndim == 2 and found.dtype == np.float32 else None

    def _product(self, x: str, name: str, weight: NDArray[np.float32], out: str) -> Iterator[Any]:
        integers, scale, zeros = f"{name}/int8", f"{name}/scale", f"{name}/zero"
        self.new[integers], scales = _integers(weight, axis=0)
        self.new[scale], self.new[zeros] = scales[0], np.zeros_like(scales[0], np.int8)
        # r = max |x| / 127 of each row
        yield self._node("ReduceMax", [x], f"{out}/most", axes=[-1])
        yield self._node("ReduceMin", [x], f"{out}/least", axes=[-1])
        yield self._node("Neg", [f"{out}/least"], f"{out}/other")
        yield self._node("Max", [f"{out}/most", f"{out}/other", _TINY], f"{out}/some")
        yield self._node("Mul", [f"{out}/some", _STEP], f"{out}/row")
        # round(x / r)
        yield self._node("Reciprocal", [f"{out}/row"], f"{out}/inverse")
        yield self._node("Mul", [x, f"{out}/inverse"], f"{out}/shrunk")
        yield self._node("QuantizeLinear", [f"{out}/shrunk", _ONE, _ZERO], f"{out}/int8")
        # the product of integers, times c, times r
        inputs = [f"{out}/int8", integers, _ONE, scale, _ZERO, zeros]
        yield self._node("MatMulIntegerToFloat", inputs, f"{out}/product", domain=CONTRIBUTED)
        yield self._node("Mul", [f"{out}/product", f"{out}/row"], out)

    def _look_up(self, name: str, rows: str, table: NDArray[np.float32], out: str) -> Iterator[Any]:
        integers, scale = f"{name}/int8", f"{name}/scale"
        self.new[integers], self.new[scale] = _integers(table, axis=1)
        yield self._node("Gather", [integers, rows], f"{out}/int8", axis=0)
        to = self.onnx.TensorProto.FLOAT
        yield self._node("Cast", [f"{out}/int8"], f"{out}/number", to=to)
        yield self._node("Gather", [scale, rows], f"{out}/scale", axis=0)
        yield self._node("Mul", [f"{out}/number", f"{out}/scale"], out)

    def _node(self, kind: str, inputs: list[str], out: str, **attributes: Any) -> Any:
        return self.onnx.helper.make_node(kind, inputs, [out], f"{out}/{kind}", **attributes)


def _integers(matrix: NDArray[np.float32], axis: int) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """A matrix as integers with scales along an axis; their product is the matrix, rounded."""
    scales = np.abs(matrix).max(axis, keepdims=True) / 127
    scales = np.where(scales > 0, scales, 1).astype(np.float32)
    return np.rint(matrix / scales).astype(np.int8), scales
