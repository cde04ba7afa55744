"""The device: which one there is, its arithmetic, and steps that a GPU captures and replays."""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from hardner.errors import HardnerError

Precision = Literal["float32", "bfloat16"]

_Compute = Callable[..., tuple[list[Tensor], list[Tensor]]]
"""tensors in -> (new values of the state, or the state itself if moved in place, results)."""


def resolve_device(name: str) -> str:
    """The device to compute on: ``auto`` is ``cuda`` where torch finds a GPU, else ``cpu``.

    ``cpu``, ``cuda`` and ``cuda:1`` and so on stay as they are; what torch does not find here is an
    error.
    """
    gpus = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if gpus else "cpu"
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (number and not number.isdecimal())):
        raise HardnerError(f"unknown device {name!r}; it is auto, cpu or cuda")
    if kind == "cuda" and not gpus:
        raise HardnerError(f"device {name}: torch finds no GPU here; choose cpu or auto")
    if number and int(number) >= gpus:
        raise HardnerError(f"device {name}: the GPUs here are cuda:0 to cuda:{gpus - 1}")
    return name


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """What a network's arithmetic is done under; always single precision on a CPU."""
    if precision == "bfloat16" and device.type == "cuda":
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


@cache
def cpu_has_bfloat16() -> bool:
    """Whether this CPU has instructions for products of bfloat16; else they would be slow."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # an older torch cannot say
    known: dict[str, object] = ask() if ask else {}
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def fit_autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """As `autocast`, for fits that a user waits for: on a CPU too, where it is made for it."""
    if precision == "bfloat16" and device.type == "cpu" and cpu_has_bfloat16():
        return torch.autocast("cpu", torch.bfloat16)
    return autocast(precision, device)


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
