"""Optimisers as pure functions of named tensors, and what a GPU captures and replays.

SGD and AdamW take tensors with a leading task axis or without; Muon is for pre-training.
The learning rate may be a tensor, so that a captured step can be replayed with another rate.
Every update is differentiable in the gradients, which the exact meta-gradient needs.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from hardner.model.layers import Params

_EPSILON = 1e-8
MOMENTUM, _BETAS = 0.95, (0.9, 0.98)
"""Of Muon, and of AdamW for what it leaves."""
State = dict[str, Tensor]
"""What an optimiser remembers, by ``kind.parameter``."""
_Compute = Callable[..., tuple[list[Tensor], list[Tensor]]]
"""tensors in -> (new values of the state, or the state itself if moved in place, results)."""
_Named = Mapping[str, Tensor]
_Moved = tuple[Params, State]
_Rates = Mapping[str, Tensor | float]
"""The learning rate of each parameter."""


@dataclass(frozen=True)
class Optimizer:
    """A rule that turns gradients into steps."""

    rule: Literal["sgd", "adamw"] = "sgd"
    momentum: float = 0.0
    """Of SGD."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Of AdamW."""
    weight_decay: float = 0.0

    def init(self, params: _Named) -> State:
        kinds = ["momentum"] * bool(self.momentum) if self.rule == "sgd" else ["first", "second"]
        state = {f"{k}.{n}": torch.zeros_like(p) for k in kinds for n, p in params.items()}
        # Float64: in single precision 1 - beta ** steps loses digits where steps are few.
        if self.rule == "adamw" and params:
            device = next(iter(params.values())).device
            state["steps"] = torch.zeros((), dtype=torch.float64, device=device)
        return state

    def step(self, params: _Named, grads: _Named, state: State, rates: _Rates) -> _Moved:
        rule = self._sgd if self.rule == "sgd" else self._adamw
        return rule(params, grads, state, rates)

    def move(self, params: _Named, grads: _Named, state: State, rates: _Rates) -> None:
        """AdamW's step in place, by torch's fused kernel: faster, and without a graph."""
        with torch.no_grad():
            for rate, names in _by_rate(rates):
                adamw(
                    [params[n] for n in names],
                    [grads[n].contiguous() for n in names],  # the kernel looks at no strides
                    [state[f"first.{n}"] for n in names],
                    [state[f"second.{n}"] for n in names],
                    [],
                    [state["steps"].float() for _ in names],
                    fused=True,
                    amsgrad=False,
                    beta1=self.betas[0],
                    beta2=self.betas[1],
                    lr=rate,
                    weight_decay=self.weight_decay,
                    eps=_EPSILON,
                    maximize=False,
                )
            state["steps"] += 1

    def _sgd(self, params: _Named, grads: _Named, state: State, rates: _Rates) -> _Moved:
        new, kept = Params(), State()
        for rate, names in _by_rate({name: rates[name] for name in grads}):
            # v <- mu v + g + lambda theta; theta <- theta - alpha v
            moves, values = [grads[name] for name in names], [params[name] for name in names]
            if self.weight_decay:
                moves = list(torch._foreach_add(moves, values, alpha=self.weight_decay))
            if self.momentum:
                before = [state[f"momentum.{name}"] for name in names]
                moves = list(torch._foreach_add(moves, before, alpha=self.momentum))
                kept |= {f"momentum.{n}": m for n, m in zip(names, moves, strict=True)}
            far = torch._foreach_mul(moves, rate)
            new |= dict(zip(names, torch._foreach_sub(values, far), strict=True))
        return new, kept

    def _adamw(self, params: _Named, grads: _Named, state: State, rates: _Rates) -> _Moved:
        steps = state["steps"] + 1
        new, kept = Params(), State(steps=steps)
        decay1, decay2 = self.betas
        scale1, scale2 = 1 - decay1**steps, 1 - decay2**steps  # undo the bias towards zero
        for name, grad in grads.items():
            first = decay1 * state[f"first.{name}"] + (1 - decay1) * grad
            second = decay2 * state[f"second.{name}"] + (1 - decay2) * grad * grad
            kept[f"first.{name}"], kept[f"second.{name}"] = first, second
            move = (first / scale1) / ((second / scale2).sqrt() + _EPSILON)
            decayed = params[name] * (1 - rates[name] * self.weight_decay)
            new[name] = decayed - rates[name] * move
        return new, kept


def _by_rate(rates: _Rates) -> Iterator[tuple[Tensor | float, list[str]]]:
    """The names of each rate; one on a CPU is a number, so that it goes with any device."""
    groups: dict[object, list[str]] = {}
    for name, rate in rates.items():
        groups.setdefault(id(rate) if isinstance(rate, Tensor) else rate, []).append(name)
    for names in groups.values():
        rate = rates[names[0]]
        here = isinstance(rate, Tensor) and rate.device.type == "cpu"
        yield (float(rate) if here else rate), names


def clip(grads: _Named, limit: float, tasks: bool = False, inplace: bool = False) -> Params:
    """Scale the gradients down to a norm of at most ``limit``, of each task where ``tasks``.

    ``inplace`` scales the tensors themselves, which must be nobody else's.
    """
    if not limit:
        return dict(grads)
    found = list(grads.values())
    if not tasks and not any(g.requires_grad for g in found):
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(found)))
        scaled = torch._foreach_mul(found, (limit / norm.clamp(min=1e-12)).clamp(max=1.0))
        return dict(zip(grads, scaled, strict=True))
    first = 1 if tasks else 0
    if any(g.requires_grad for g in found):  # whose norm must have a slope at zero
        squares = [(g * g).flatten(first).sum(-1) for g in found]  # each [M] or []
        norm = torch.stack(squares).sum(0).clamp(min=1e-24).sqrt()
    else:
        norms = [torch.linalg.vector_norm(g.flatten(1), dim=-1) for g in found]  # each [M]
        norm = torch.linalg.vector_norm(torch.stack(norms), dim=0).clamp(min=1e-12)
    scale = (limit / norm).clamp(max=1.0)
    if inplace and all(g.is_contiguous() for g in found):
        return {n: g.mul_(scale.view(-1, *[1] * (g.dim() - 1))) for n, g in grads.items()}
    return {n: g * scale.view(-1, *[1] * (g.dim() - 1)) for n, g in grads.items()}


class CudaGraphRunner:
    """Calls of a function that moves a state, replayed as CUDA graphs where there is a GPU.

    A small step is hundreds of kernels of a few microseconds each; launching them one by one from
    Python takes far longer than running them.
    """

    def __init__(self, state: list[Tensor]) -> None:
        """Args: ``state`` is overwritten in place by every call."""
        self.state = state
        self._graphs: dict[Hashable, tuple[Any, list[Tensor], list[Tensor]]] = {}
        self._pool: Any = None

    def __call__(self, key: Hashable, compute: _Compute, inputs: list[Tensor]) -> list[Tensor]:
        """Move the state by ``compute(*inputs)`` and return its results.

        Args:
            key: Names everything about ``compute`` that is fixed, shapes included.
            compute: Reads the state and the inputs.
            inputs: On the device of the state, or on the host.
        """
        device = self.state[0].device
        if device.type != "cuda":
            return self._move(compute, inputs)
        if key not in self._graphs:
            self._graphs[key] = self._capture(compute, [i.to(device).clone() for i in inputs])
        graph, static, results = self._graphs[key]
        # A graph reads and writes fixed addresses: inputs are copied in, results out.
        for place, value in zip(static, inputs, strict=True):
            place.copy_(value, non_blocking=True)
        graph.replay()
        return [r.clone() for r in results]

    def _move(self, compute: _Compute, inputs: list[Tensor]) -> list[Tensor]:
        moved, results = compute(*inputs)
        pairs = zip(self.state, moved, strict=True)
        apart = [(old, new) for old, new in pairs if old.data_ptr() != new.data_ptr()]
        if apart:  # else all were moved in place
            with torch.no_grad():
                torch._foreach_copy_([old for old, _ in apart], [new for _, new in apart])
        return results

    def _capture(
        self, compute: _Compute, static: list[Tensor]
    ) -> tuple[Any, list[Tensor], list[Tensor]]:
        before = [tensor.clone() for tensor in self.state]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as torch asks: warm up before capture, on another stream
            for _ in range(2):
                compute(*static)
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad():
            torch._foreach_copy_(self.state, before)  # the warm-up may have moved it in place
        del before
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            results = self._move(compute, static)
        self._pool = self._pool or graph.pool()
        return graph, static, results


def orthogonal(matrix: Tensor, rounds: int = 5) -> Tensor:
    """The nearest matrix with singular values about 1: a quintic Newton-Schulz iteration."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(rounds):
        square = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    out: Tensor = (x.transpose(-1, -2) if tall else x).to(matrix.dtype)
    return out


class Muon:
    """Moves named tensors in place, matrices by orthogonal momentum (Jordan et al., 2024).

    Matrices inside the transformer take orthogonalised steps, scaled so that AdamW's learning rate
    suits them (Liu et al., 2025); tables, norms and biases take AdamW's. Weight decay is decoupled
    (Loshchilov and Hutter, 2019), and for matrices and tables only.
    """

    def __init__(
        self,
        params: Mapping[str, Tensor],
        weight_decay: float = 0.0,
        state: Mapping[str, Tensor] | None = None,
        steps: int = 0,
        late: Collection[str] = (),
    ) -> None:
        """Args: ``state``, ``steps`` of an earlier session; ``late`` tensors skip early steps."""
        self.params = {name: value.requires_grad_() for name, value in params.items()}
        self.weight_decay, self.steps = weight_decay, steps
        self.late = frozenset(late)
        self.state: Params = dict(state or {})
        for name, value in params.items():
            for kind in ("momentum",) if _is_matrix(name, value) else ("first", "second"):
                self.state.setdefault(f"{kind}.{name}", torch.zeros_like(value).detach())

    def half_types(self) -> dict[str, torch.dtype]:
        """The types in which a state takes half the room, by the names of `SavedState.tensors`."""
        # Second moments are far too small for float16.
        types = {f"params.{name}": torch.float16 for name in self.params}
        return types | {f"state.{name}": torch.bfloat16 for name in self.state}

    @torch.no_grad()
    def round_to_half(self) -> None:
        """Make parameters and moments what such a state holds, so that it can be gone on from."""
        types = self.half_types()
        for kind, values in (("params", self.params), ("state", self.state)):
            for name, value in values.items():
                value.copy_(value.to(types[f"{kind}.{name}"]))

    @torch.no_grad()
    def step(self, grads: Mapping[str, Tensor], rate: float, early: bool = False) -> None:
        """One step down the gradients; an ``early`` one leaves the ``late`` tensors as they are."""
        self.steps += 1
        groups: dict[tuple[int, ...], list[str]] = {}
        for name, value in self.params.items():
            if not (early and name in self.late):
                alike = tuple(value.shape) if _is_matrix(name, value) else (value.dim(),)
                groups.setdefault(alike, []).append(name)
        for alike, names in groups.items():
            kind = self._orthogonalised if len(alike) > 1 else self._adapted
            kind(names, [grads[n] for n in names], rate)

    def _orthogonalised(self, names: list[str], grads: list[Tensor], rate: float) -> None:
        """Muon for matrices of one shape, all at once: they are many and small."""
        values = [self.params[n] for n in names]
        momenta = [self.state[f"momentum.{n}"] for n in names]
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, grads)
        ahead = torch.cat(torch._foreach_add(grads, momenta, alpha=MOMENTUM))  # Nesterov momentum
        scale: float = 0.2 * max(ahead.shape[-2:]) ** 0.5
        moves = orthogonal(ahead).mul_(scale).split(1)
        torch._foreach_mul_(values, 1 - rate * self.weight_decay)
        torch._foreach_sub_(values, moves, alpha=rate)

    def _adapted(self, names: list[str], grads: list[Tensor], rate: float) -> None:
        """AdamW, for embedding tables (with weight decay) or for norms and biases (without)."""
        decays = self.params[names[0]].dim() > 2
        rule = Optimizer("adamw", betas=_BETAS, weight_decay=self.weight_decay if decays else 0.0)
        own = {n: self.params[n] for n in names}
        done = torch.tensor(self.steps - 1.0, dtype=torch.float64, device=grads[0].device)
        given = dict(zip(names, grads, strict=True))
        rule.move(own, given, self.state | {"steps": done}, dict.fromkeys(names, rate))


def _is_matrix(name: str, value: Tensor) -> bool:
    return ".layer" in name and value.dim() == 3
