"""The workbench at an address of this machine."""

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

_BACKLOG = 128  # connections that may wait to be accepted


def run_server(
    settings: WorkbenchSettings, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serve a project until the process is asked to end.

    Args:
        settings: Of the workbench.
        host: The address to listen at; one that other machines can reach needs a token.
        port: The port to listen at; 0 is any that is free.
        on_ready: Called with the URL to open, token included, once connections are accepted.
    """
    token = None if _is_loopback(host) else secrets.token_urlsafe(24)
    with (
        _listen(host, port) as listening,
        closing(Workbench(settings)) as bench,
        _until_interrupted(),
    ):
        config = uvicorn.Config(
            create_app(bench, _hosts(host), token),
            log_level="warning",
            server_header=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        address = f"http://{_browser_host(host)}:{listening.getsockname()[1]}/"
        on_ready(address if token is None else f"{address}?token={token}")
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """End by SIGTERM as by Ctrl-C: quietly, and after everything has been closed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listen(host: str, port: int) -> socket.socket:
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
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _browser_host(host: str) -> str:
    """The host as a browser on this machine opens it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _hosts(host: str) -> set[str]:
    """What the Host header may say."""
    if host in ("0.0.0.0", "::"):
        return {*LOOPBACK, "*", socket.gethostname(), socket.getfqdn()}
    return {*LOOPBACK, host}
