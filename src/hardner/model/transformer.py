"""The project's own compact transformer: pre-norm, rotary positions, any number of tasks."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from hardner.errors import HardnerError
from hardner.model.fused import fused, normed, products_in, turned, worth_fusing
from hardner.model.layers import (
    Mode,
    Params,
    dropout,
    embed,
    layer_norm,
    linear,
    normal,
    prefixed,
    scoped,
)
from hardner.model.layout import padding_mask

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of rotary positions, two of [P, d / 2]."""
MAPS = ("attention", "out", "up", "down")
"""The linear maps of a layer."""


@dataclass(frozen=True)
class Transformer:
    """Pieces -> one vector a piece."""

    vocabulary: int
    size: int = 384
    layers: int = 6
    heads: int = 6
    inner: int = 1536

    def __post_init__(self) -> None:
        if self.size % (2 * self.heads):
            raise HardnerError(f"{self.heads} heads of even size do not fit into {self.size}")

    def init(self, rng: torch.Generator) -> Params:
        """Weights by the usual small normals; what writes to the residual starts smaller."""
        params = {"pieces": normal((self.vocabulary, self.size), 0.02, rng)}
        for i in range(self.layers):
            params |= prefixed(f"layer{i}", self._init_layer(rng))
        return params | prefixed("norm", _init_norm(self.size))

    def _init_layer(self, rng: torch.Generator) -> Params:
        small = 0.02 / (2 * self.layers) ** 0.5
        maps = {
            "attention": (self.size, 3 * self.size, 0.02),
            "out": (self.size, self.size, small),
            "up": (self.size, self.inner, 0.02),
            "down": (self.inner, self.size, small),
        }
        params: Params = {}
        for name, (inputs, outputs, deviation) in maps.items():
            params[f"{name}.weight"] = normal((outputs, inputs), deviation, rng)
            params[f"{name}.bias"] = torch.zeros(1, outputs)
        return (
            params
            | prefixed("norm1", _init_norm(self.size))
            | prefixed("norm2", _init_norm(self.size))
        )

    def halved(self, params: Params, dtype: torch.dtype = torch.bfloat16) -> Params:
        """The same with half precision for its products, where the device computes them faster.

        The table, the norms, attention and the sums between the layers stay as precise as they are.
        """
        ends = tuple(f".{name}.{kind}" for name in MAPS for kind in ("weight", "bias"))
        return {n: p.to(dtype) if n.endswith(ends) else p for n, p in params.items()}

    def __call__(
        self,
        params: Params,
        pieces: Tensor,
        mode: Mode,
        full: bool = False,
        turn: Rotation | None = None,
    ) -> Tensor:
        """pieces [M, W, P], 0 for padding (none where ``full``) -> [M, W, P, D]."""
        x = self.begin(params, pieces, mode)
        there = None if full else padding_mask(pieces > 0)
        x = self.layers_on(params, x, there, range(self.layers), mode, turn)
        return self.finish(params, x)

    def rotation(self, width: int, like: Tensor) -> Rotation:
        """That of rows of so many pieces."""
        return rotation(width, self.size // self.heads, like)

    def begin(self, params: Params, pieces: Tensor, mode: Mode) -> Tensor:
        """What the first layer reads: pieces [M, W, P] -> [M, W, P, D]."""
        return dropout(embed(pieces, params["pieces"]), mode)

    def layers_on(
        self,
        params: Params,
        x: Tensor,
        there: Tensor | None,
        layers: range,
        mode: Mode,
        turn: Rotation | None = None,
    ) -> Tensor:
        """Some layers, one after the other: x [M, W, P, D], ``there`` as in `Layout`, or all.

        A compiled network should be given its ``turn``: it would make it anew for every vector.
        """
        turn = turn or self.rotation(x.shape[2], x)
        for i in layers:
            x = self._layer(scoped(params, f"layer{i}"), x, there, turn, mode)
        return x

    def finish(self, params: Params, x: Tensor) -> Tensor:
        """The last norm."""
        return layer_norm(x, params["norm.weight"], params["norm.bias"])

    def _layer(
        self,
        params: Params,
        x: Tensor,
        there: Tensor | None,
        turn: Rotation,
        mode: Mode,
    ) -> Tensor:
        tasks, rows, width, _ = x.shape
        brief = worth_fusing(x, params["norm1.weight"].shape[0], mode.twice)
        h = _norm(params, "norm1", x, brief)
        qkv = _product(params, "attention", h).view(tasks * rows, width, 3, self.heads, -1)
        rotate = fused(turned) if brief else turned
        q, k, v = rotate(qkv, *turn, products_in(x))  # [M*W, heads, P, d]
        mixed = attend(q, k, v, there, mode)
        mixed = mixed.transpose(1, 2).reshape(tasks, rows, width, -1)
        x = x + dropout(_product(params, "out", mixed), mode)
        h = _norm(params, "norm2", x, brief)
        h = functional.gelu(_product(params, "up", h))
        return x + dropout(_product(params, "down", h), mode)


def _norm(params: Params, name: str, x: Tensor, brief: bool) -> Tensor:
    """A norm, as one kernel where that is ``brief``."""
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    if not brief:
        return layer_norm(x, weight, bias)
    found: Tensor = fused(normed)(x.flatten(1, 2), weight, bias, products_in(x))
    return found.view_as(x)


def _product(params: Params, name: str, x: Tensor) -> Tensor:
    """A linear map, in half precision where its weights are (`Transformer.halved`)."""
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    return linear(x.to(weight.dtype) if weight.dtype.itemsize == 2 else x, weight, bias)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, mode: Mode) -> Tensor:
    """Attention by the fused kernel, or by plain products where its gradient needs a gradient."""
    if not mode.twice:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    return torch.matmul(scores.softmax(-1), v)


def rotation(width: int, size: int, like: Tensor) -> Rotation:
    """Cosines and sines of rotary positions, as precise as the vectors: two of [P, d / 2]."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    rates = 10_000.0 ** -(torch.arange(0, size, 2, device=like.device, dtype=dtype) / size)
    angles = torch.arange(width, device=like.device).unsqueeze(1) * rates
    return angles.cos(), angles.sin()


def _init_norm(size: int) -> Params:
    return {"weight": torch.ones(1, size), "bias": torch.zeros(1, size)}
