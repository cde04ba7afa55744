"""A server at an address of this machine."""

import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address
from types import FrameType

import uvicorn

from hardner.errors import HardnerError
from hardner.serve.app import create_app
from hardner.serve.guard import LOOPBACK
from hardner.serve.workbench import Workbench, WorkbenchSettings

_BACKLOG = 128
"""Connections that may wait to be accepted."""


def run_server(
    settings: WorkbenchSettings, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serves a project until the process is asked to end.

    Args:
        settings: Of the workbench.
        host: The address to listen at; if others can reach it, they need a token.
        port: The port to listen at; 0 is any that is free.
        on_ready: Called with the address to open, token included, once connections are taken.
    """
    token = None if _is_loopback(host) else secrets.token_urlsafe(24)
    with _listening(host, port) as listening, closing(Workbench(settings)) as bench, _until_asked():
        config = uvicorn.Config(
            create_app(bench, _hosts(host), token),
            log_level="warning",
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        address = f"http://{_shown(host)}:{listening.getsockname()[1]}/"
        on_ready(address if token is None else f"{address}?token={token}")
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _until_asked() -> Iterator[None]:
    """Being asked to end, by Ctrl-C or otherwise, is the way to end."""

    def ask(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, ask)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _shown(host: str) -> str:
    """The address as this machine's browser opens it."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HardnerError(f"cannot listen at {host}, port {port}: {reason}") from None
    return listening


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _hosts(host: str) -> set[str]:
    """What the Host header may say."""
    if host in ("0.0.0.0", "::"):
        return {*LOOPBACK, "*", socket.gethostname(), socket.getfqdn()}
    return {*LOOPBACK, host}
