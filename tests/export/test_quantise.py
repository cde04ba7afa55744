"""8-bit graphs against the same arithmetic in numpy."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tag.small_models import predictor

from hardner.errors import HardnerError
from hardner.export.onnx import onnx_graph
from hardner.export.quantise import quantise_graph

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(24, 10)).astype(np.float32)
WEIGHT[:, 3] = 0
TABLE = (RNG.normal(size=(4000, 24)) * RNG.lognormal(size=(4000, 1))).astype(np.float32)


def graph() -> bytes:
    """Rows of a table times a matrix."""
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["x"], axis=0),
        helper.make_node("MatMul", ["x", "weight"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("rows", TensorProto.INT64, ["n", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 7, 10])],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(WEIGHT, "weight")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def run(content: bytes, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(content)
    return session.run(["y"], {"rows": rows})[0]


def rounded(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    scale = np.abs(values).max(axis, keepdims=True) / 127
    scale = np.where(scale == 0, 1, scale)
    return np.rint(values / scale), scale


def test_products_are_those_of_integers() -> None:
    rows = RNG.integers(0, 4000, (5, 7))
    table, own = rounded(TABLE, 1)
    x, by_row = rounded((table * own).astype(np.float32)[rows], -1)
    w, by_column = rounded(WEIGHT, 0)
    expected = (x @ w) * by_row * by_column
    np.testing.assert_allclose(run(quantise_graph(graph()), rows), expected, rtol=1e-4, atol=1e-4)
    exact = TABLE[rows] @ WEIGHT
    assert 0 < np.abs(expected - exact).max() < 0.03 * np.abs(exact).max()


def test_a_row_does_not_depend_on_the_others() -> None:
    content = quantise_graph(graph())
    rows = RNG.integers(0, 4000, (6, 7))
    alone = np.concatenate([run(content, rows[i : i + 1]) for i in range(6)])
    np.testing.assert_array_equal(run(content, rows), alone)


def test_a_row_of_zeros_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TABLE", np.zeros_like(TABLE))
    assert (run(quantise_graph(graph()), np.zeros((2, 7), np.int64)) == 0).all()


@pytest.mark.parametrize("kind", ["transformer", "bert"])
def test_no_large_matrix_of_floats_is_left(kind: str) -> None:
    model = predictor(kind)
    weights = onnx.load_model_from_string(quantise_graph(onnx_graph(model.tagger, model.params)))
    floats = [w for w in weights.graph.initializer if w.data_type == TensorProto.FLOAT]
    products = {n.input[1] for n in weights.graph.node if n.op_type == "MatMul"}
    assert not products & {w.name for w in floats}
    integers = [w for w in weights.graph.initializer if w.data_type == TensorProto.INT8]
    assert len(integers) >= 8


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    content = graph()
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(HardnerError, match=r"pip install 'hardner\[onnx\]'"):
        quantise_graph(content)
