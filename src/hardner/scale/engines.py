"""Who runs units of work: this process, several processes, or the workers of a Ray cluster."""

import logging
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Literal

from hardner.errors import HardnerError
from hardner.scale.tagging import run_in_processes

Backend = Literal["local", "ray"]

_TIMEOUT = 15.0
"""Seconds that a cluster is given to answer."""
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
"""How HTTP/2, and so gRPC, begins: a preface and empty settings; the answer is settings too."""
_OBJECT_STORE = 128 << 20
"""Bytes of shared memory of a cluster of our own: shards never pass through it."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}
"""Nothing is reported to anybody, and nothing but our own lines is said."""


RunUnits = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""As `map`, but results may come in any order, and the worker may be sent elsewhere."""


@contextmanager
def running(
    engine: Backend, device: str, workers: int, address: str | None
) -> Iterator[tuple[RunUnits, str]]:
    """A way to run units, and the device that there is for it.

    Args:
        engine: Where.
        device: What is wished for.
        workers: How many processes at most; 0 for one here, and all that a cluster has room for.
        address: Of a Ray cluster; by default one on this machine.
    """
    if engine == "local":
        yield (partial(run_in_processes, workers=workers) if workers > 1 else map), device
        return
    with cluster(address) as ray:
        if device == "auto":
            device = "cuda" if ray.cluster_resources().get("GPU") else "cpu"
        yield partial(run_on_ray, ray, workers=workers, gpu=device != "cpu"), device


@contextmanager
def cluster(address: str | None = None) -> Iterator[Any]:
    """Ray, connected to the cluster at an address, or to one on this machine for the time being.

    A connection that is there already is used and left as it is.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import_module("ray.data")
        ray: Any = import_module("ray")
    except ImportError:
        raise HardnerError("Ray is not installed; run: pip install 'hardner[ray]'") from None
    if ray.is_initialized():
        yield ray
        return
    own = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE}
    if address is not None:
        own = {}
        _probe(address)
    try:
        with _stderr_silenced(), _sigterm_kept():
            ray.init(
                address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own
            )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _stderr_silenced() -> Iterator[None]:
    """Ray's core writes to the standard error whatever it is told, so the descriptor is swapped."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and would end the process without tidying up."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _probe(address: str) -> None:
    """Whether a gRPC server answers there, as Ray's does: Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # "auto" and the like are Ray's own to look up.
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT) as line:
            line.sendall(_GREETING)
            answer = line.recv(9)
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None
    if answer[3:4] != b"\x04" and os.environ.get("RAY_USE_TLS", "0") == "0":
        raise _no_cluster(address, "something else listens there")


def _no_cluster(address: str | None, error: Exception | str) -> HardnerError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    if address is None:
        return HardnerError(f"Ray cannot start on this machine: {reason}")
    return HardnerError(f"no Ray cluster answers at {address}: {reason}")


def run_on_ray(
    ray: Any,
    worker: Callable[[Any], Any],
    units: Iterable[Any],
    *,
    workers: int = 0,
    gpu: bool = False,
) -> Iterator[Any]:
    """What workers make of each unit, as it is made; a unit of a worker that dies goes to another.

    Args:
        ray: As `cluster` gives it.
        worker: Called with a unit at a time, in several processes with a copy each.
        units: Small things: what is large is read by the workers themselves.
        workers: How many at most; 0 for as many as there is room for.
        gpu: Whether each is to have a GPU.
    """
    rows = [{"row": pickle.dumps(unit)} for unit in units]
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    room = int(ray.cluster_resources().get("GPU" if gpu else "CPU", 1)) or 1
    pool = ray.data.ActorPoolStrategy(size=max(1, min(workers or room, room, len(rows))))
    # A block a row, so that a worker asks for the next unit when it is done with one.
    made = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        _RayWorker,
        fn_constructor_args=(worker,),
        compute=pool,
        num_cpus=1,
        num_gpus=1 if gpu else 0,
    )
    try:
        for found in made.iter_rows():
            result, error = pickle.loads(found["row"])
            if error is not None:
                raise HardnerError(error)
            yield result
    except ray.exceptions.RayError as error:
        reason = " ".join(str(getattr(error, "cause", None) or error).split())
        raise HardnerError(f"Ray: {reason[-300:]}") from None


class _RayWorker:
    """A worker as Ray Data wants it: from a row to a row; what a user can mend is an answer."""

    def __init__(self, worker: Callable[[Any], Any]) -> None:
        self._call = worker

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        try:
            return {"row": pickle.dumps((self._call(pickle.loads(row["row"])), None))}
        except (HardnerError, OSError) as error:
            return {"row": pickle.dumps((None, str(error)))}
