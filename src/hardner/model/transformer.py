"""The project's own compact transformer: pre-norm, rotary positions, any number of tasks.

Sentences of a task are of different lengths, so that rows as wide as the longest are mostly
padding. Laid end to end (`lay_out`) the pieces of a task are one row, in which each sees those of
its own window alone. Positions are relative (rotary), so that it does not matter where a window
lies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from hardner.batch import Batch
from hardner.config import AxisSize, Bounds, check_fields
from hardner.errors import HardnerError
from hardner.features import Features, Pieces
from hardner.model.encoders import Encoded
from hardner.model.layers import (
    Mode,
    Params,
    dropout,
    embed,
    layer_norm,
    linear,
    linear_in_blocks,
    normal,
    prefixed,
    scoped,
)
from hardner.types import Sentence

Stretches = list[list[int]]
"""By row, the lengths of windows that lie end to end in it; pieces see their own window alone."""
Rotation = tuple[Tensor, Tensor]
"""Cosines and sines of rotary positions, two of [P, d / 2]."""
MAPS = ("attention", "out", "up", "down")
"""The linear maps of a layer."""
MANY = 16
"""Models from which on compiled kernels pay."""


@dataclass(frozen=True)
class Transformer:
    """Pieces -> one vector a piece."""

    vocabulary: AxisSize
    size: AxisSize = 384
    layers: Annotated[int, Bounds(1, 1000)] = 6
    heads: AxisSize = 6
    inner: AxisSize = 1536

    def __post_init__(self) -> None:
        check_fields(self, "transformer")
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
        rotary: Rotation | None = None,
    ) -> Tensor:
        """pieces [M, W, P], 0 for padding (none where ``full``) -> [M, W, P, D]."""
        x = self.begin(params, pieces, mode)
        mask = None if full else padding_mask(pieces > 0)
        x = self.layers_on(params, x, mask, range(self.layers), mode, rotary)
        return self.finish(params, x)

    def rotation(self, width: int, like: Tensor) -> Rotation:
        """The rotary positions of rows of so many pieces."""
        size = self.size // self.heads
        dtype = torch.promote_types(like.dtype, torch.float32)  # as precise as the vectors
        rates = 10_000.0 ** -(torch.arange(0, size, 2, device=like.device, dtype=dtype) / size)
        angles = torch.arange(width, device=like.device).unsqueeze(1) * rates
        return angles.cos(), angles.sin()

    def begin(self, params: Params, pieces: Tensor, mode: Mode) -> Tensor:
        """What the first layer reads: pieces [M, W, P] -> [M, W, P, D]."""
        return dropout(embed(pieces, params["pieces"]), mode)

    def layers_on(
        self,
        params: Params,
        x: Tensor,
        mask: Tensor | Stretches | None,
        layers: range,
        mode: Mode,
        rotary: Rotation | None = None,
    ) -> Tensor:
        """Some layers, one after the other: x [M, W, P, D], ``mask`` as in `PieceLayout`.

        A compiled network should be given ``rotary``: it would make it anew for every vector.
        """
        rotary = rotary or self.rotation(x.shape[2], x)
        for i in layers:
            x = self._layer(scoped(params, f"layer{i}"), x, mask, rotary, mode)
        return x

    def finish(self, params: Params, x: Tensor) -> Tensor:
        """The last norm."""
        return layer_norm(x, params["norm.weight"], params["norm.bias"])

    def _layer(
        self,
        params: Params,
        x: Tensor,
        mask: Tensor | Stretches | None,
        rotary: Rotation,
        mode: Mode,
    ) -> Tensor:
        tasks, rows, width, _ = x.shape
        fuse = is_worth_compiling(x, params["norm1.weight"].shape[0], mode.twice)
        h = _norm(params, "norm1", x, fuse)
        qkv = _product(params, "attention", h).view(tasks * rows, width, 3, self.heads, -1)
        rotate = compiled(rotate_heads) if fuse else rotate_heads
        q, k, v = rotate(qkv, *rotary, matmul_dtype(x, mask))  # [M*W, heads, P, d]
        mixed = attend(q, k, v, mask, mode)
        mixed = mixed.transpose(1, 2).reshape(tasks, rows, width, -1)
        x = x + dropout(_product(params, "out", mixed), mode)
        h = _norm(params, "norm2", x, fuse)
        h = functional.gelu(_product(params, "up", h))
        return x + dropout(_product(params, "down", h), mode)


def _norm(params: Params, name: str, x: Tensor, fuse: bool) -> Tensor:
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    if not fuse:
        return layer_norm(x, weight, bias)
    found: Tensor = compiled(task_norm)(x.flatten(1, 2), weight, bias, matmul_dtype(x))
    return found.view_as(x)


def _product(params: Params, name: str, x: Tensor) -> Tensor:
    """A linear map, in half precision where its weights are (`Transformer.halved`)."""
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    if weight.dtype.itemsize != 2:
        return linear(x, weight, bias)
    if weight.shape[0] == 1 and not x.is_cuda:
        return linear_in_blocks(x, weight, bias)
    return linear(x.to(weight.dtype), weight, bias)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Stretches | None, mode: Mode) -> Tensor:
    """Attention by the fused kernel, or by plain products where its gradient needs a gradient."""
    if isinstance(mask, list):
        return _attend_in_stretches(q, k, v, mask, mode)
    if not mode.twice:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)  # finite, so that its gradient is no NaN
    return torch.matmul(scores.softmax(-1), v)


def _attend_in_stretches(q: Tensor, k: Tensor, v: Tensor, rows: Stretches, mode: Mode) -> Tensor:
    found = []
    with torch.autocast(q.device.type, enabled=False):
        for row, lengths in enumerate(rows):
            own = (part[row : row + 1].split(lengths, dim=2) for part in (q, k, v))
            each = zip(*own, strict=True)
            mixed = [attend(q, k, v, None, mode) for q, k, v in each]
            found.append(torch.cat(mixed, dim=2))
    return found[0] if len(found) == 1 else torch.cat(found)


def _init_norm(size: int) -> Params:
    return {"weight": torch.ones(1, size), "bias": torch.zeros(1, size)}


# Where many models are computed at once on a GPU, most of the work is not the products but small
# operations, each of which reads and writes all vectors of all models. `torch.compile` makes one
# kernel of a chain of them. That takes seconds, which pays where many models are fitted and not for
# one, and the gradient of such a kernel cannot be differentiated again.


def is_worth_compiling(x: Tensor, models: int, twice: bool) -> bool:
    """Whether a chain over the vectors of so many models is to be one kernel."""
    return x.is_cuda and models >= MANY and not twice


@cache
def compiled(chain: Callable[..., Any]) -> Callable[..., Any]:
    """A chain as one kernel; made when it is first called, for vectors of any sizes."""
    return torch.compile(chain, dynamic=True)


def matmul_dtype(x: Tensor, mask: Tensor | Stretches | None = None) -> torch.dtype:
    """What the products of vectors are computed in here."""
    if isinstance(mask, list):  # a CPU takes three times as long for its gradients in half
        return x.dtype
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def task_norm(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """Layer norm, each task by its own weights: x [M, N, D], weight and bias [M, D]."""
    plain = functional.layer_norm(x, x.shape[-1:])
    return (plain * weight.unsqueeze(1) + bias.unsqueeze(1)).to(dtype)


def rotate_heads(
    qkv: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys rotated by their positions, and values.

    qkv [R, P, 3, heads, d], cos and sin [P, d / 2] -> three of [R, heads, P, d]
    """
    q, k, v = qkv.to(cos.dtype).permute(2, 0, 3, 1, 4).unbind()
    return _rotate(q, cos, sin).to(dtype), _rotate(k, cos, sin).to(dtype), v.to(dtype)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair of features by its position's angle: x [..., P, d]."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


class PieceLayout(NamedTuple):
    """What a transformer reads of a batch, and where each word lies in it."""

    pieces: Tensor  # [M, W, P]; 0 is padding
    mask: Tensor | Stretches  # which pieces of a row see which: bool [M*W, 1, 1 or P, P]
    heads: Tensor  # where in all rows of its task a word's first piece lies, [M, B, T]
    starts: Tensor  # where a sentence's first piece lies, [M, B]


def lay_out(batch: Batch, stream: str, limit: int) -> PieceLayout:
    """The layout of a stream of pieces: end to end where the batch says how many there are.

    Args:
        batch: With the words' first pieces in its stream ``heads``.
        stream: Its name.
        limit: Pieces of a window.
    """
    windows = in_windows(batch.inputs[stream], limit)
    sentences = batch.lengths.shape[1]
    width = windows[0].numel() // sentences
    starts = torch.arange(sentences, device=windows.device).mul(width).expand_as(batch.lengths)
    heads = batch.inputs["heads"] + starts.unsqueeze(-1)
    filled = windows > 0
    if batch.packed is None:
        return PieceLayout(windows, padding_mask(filled), heads, starts)
    at, place = _end_to_end(filled.flatten(1), batch.packed)  # [M, N], [M, W*P]
    pieces = functional.pad(windows.flatten(1), (0, 1)).gather(1, at)
    heads = place.gather(1, heads.flatten(1)).view_as(heads)
    mask: Tensor | Stretches
    if windows.is_cuda:  # which has one kernel for a whole row
        window = at // windows.shape[2]  # [M, N]; the padding's is behind all others
        mask = (window.unsqueeze(2) == window.unsqueeze(1)).unsqueeze(1)  # [M, 1, N, N]
    else:  # which would compute what the mask hides: most of it
        mask = [_stretches(own, batch.packed) for own in filled.sum(2).tolist()]
    return PieceLayout(pieces.unsqueeze(1), mask, heads, place.gather(1, starts))


def _stretches(lengths: list[int], width: int) -> list[int]:
    """The windows of a row and its padding, without empty ones."""
    return [length for length in (*lengths, width - sum(lengths)) if length]


def in_windows(pieces: Tensor, limit: int) -> Tensor:
    """Cut rows that hold several windows: [M, B, n * limit] -> [M, B * n, limit]."""
    tasks, _, width = pieces.shape
    if width <= limit:
        return pieces
    short = -width % limit
    pieces = functional.pad(pieces, (0, short))
    return pieces.view(tasks, -1, limit)


def padding_mask(filled: Tensor) -> Tensor:
    """The padding of a row is seen by none: [M, W, P] -> [M*W, 1, 1, P]."""
    there = filled.flatten(0, 1)[:, None, None].clone()
    there[..., 0] = True  # an empty row sees something, so that it stays finite
    return there


def _end_to_end(filled: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Where the filled places lie, one behind the other, and where each place comes to lie.

    filled [M, F], no more than ``most`` of a task -> [M, most], F filling up, and [M, F].
    """
    tasks, places = filled.shape
    rank = filled.cumsum(1) - 1  # [M, F]
    own = torch.arange(places, device=filled.device).expand(tasks, -1)
    at = own.new_full((tasks, most + 1), places)
    at = at.scatter(1, torch.where(filled, rank, most), own)  # what is not filled goes behind
    return at[:, :most].contiguous(), rank.clamp(min=0)


def vectors_at(places: Tensor, vectors: Tensor) -> Tensor:
    """The vectors of some pieces: places [M, ...] of W*P, vectors [M, W, P, H] -> [M, ..., H]."""
    flat = vectors.flatten(1, 2)
    index = places.flatten(1).unsqueeze(-1).expand(-1, -1, flat.shape[-1])
    return flat.gather(1, index).view(*places.shape, -1)


@dataclass(frozen=True)
class PieceEncoder:
    """Subword pieces read by the project's own transformer."""

    transformer: Transformer
    pieces: Pieces = field(compare=False)

    @property
    def size(self) -> int:
        return self.transformer.size

    def init(self, rng: torch.Generator) -> Params:
        return prefixed("encoder", self.transformer.init(rng))

    def features(self, sentences: Sequence[Sentence]) -> Features:
        """Windows of pieces, which may lie end to end, and the place of each word."""
        return replace(self.pieces.features(sentences), packed="pieces")

    def __call__(self, params: Params, batch: Batch, mode: Mode) -> Encoded:
        """Each word's vector is that of its first piece; the sentence's, of the opening one."""
        layout, own = lay_out(batch, "pieces", self.pieces.limit), scoped(params, "encoder")
        x = self.transformer.begin(own, layout.pieces, mode)
        layers = range(self.transformer.layers)
        x = self.transformer.layers_on(own, x, layout.mask, layers, mode)
        return taken(self.transformer.finish(own, x), layout, mode)


def taken(vectors: Tensor, layout: PieceLayout, mode: Mode) -> Encoded:
    """The vectors of words and sentences, among those of the pieces [M, W, P, H]."""
    words = vectors_at(layout.heads, vectors)  # [M, B, T, H]
    return Encoded(dropout(words, mode), vectors_at(layout.starts, vectors))
