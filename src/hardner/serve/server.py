"""The workbench, and the tagging server, at an address of this machine."""

import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from hardner.errors import HardnerError
from hardner.files import file_errors
from hardner.serve.api import TaggingServer, create_api
from hardner.serve.app import create_app
from hardner.serve.guard import LOOPBACK
from hardner.serve.workbench import Workbench, WorkbenchSettings

_BACKLOG = 128  # connections that may wait to be accepted
_ANY = ("0.0.0.0", "::")  # listens at all addresses of this machine
_TOKEN_BYTES = 24
TOKEN_VARIABLE = "HARDNER_TOKEN"
"""The environment variable that holds the token of the tagging server."""


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
    with (
        _listen(host, port) as listening,
        closing(Workbench(settings)) as bench,
        _until_interrupted(),
    ):
        token = None if _is_loopback(host) else _token_of(settings.project)
        address = f"http://{_browser_host(host)}:{listening.getsockname()[1]}/"
        on_ready(address if token is None else f"{address}?token={token}")
        _server(create_app(bench, _hosts(host), token), patience=5).run(sockets=[listening])


def run_api(
    models: Mapping[str, Path | None],
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    *,
    token: str | None = None,
    exact: bool = False,
) -> None:
    """Serve models for other programs until the process is asked to end.

    What is being answered then is finished first.

    Args:
        models: Their folders by name; None is the bundled one.
        host: The address to listen at; one that other machines can reach needs a token.
        port: The port to listen at; 0 is any that is free.
        on_ready: Called with the URL once connections are accepted; models may still be loading.
        token: What requests have to bring.
        exact: Whether the models are served as they are, and not in 8 bits.
    """
    if token is None and not _is_loopback(host):
        others = f"{host}: other machines can reach it, so it needs a token"
        raise HardnerError(f"{others}; set {TOKEN_VARIABLE}")
    failures: list[Exception] = []
    running: list[uvicorn.Server] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        for server in running:
            server.should_exit = True

    with (
        _listen(host, port) as listening,
        closing(TaggingServer(models, exact=exact, on_failure=failed)) as tagging,
        _until_interrupted(),
    ):
        # Whoever knows the token may call this server by any name.
        hosts = _hosts(host) if token is None else None
        running.append(_server(create_api(tagging, hosts, token), patience=30))
        running[0].should_exit = bool(failures)
        on_ready(f"http://{_browser_host(host)}:{listening.getsockname()[1]}/")
        running[0].run(sockets=[listening])
    if failures:
        raise failures[0]


def _server(app: ASGIApp, patience: int) -> uvicorn.Server:
    """Args: ``patience`` is how many seconds answers may still take when it is asked to end."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=patience,
    )
    return uvicorn.Server(config)


def _token_of(project: Path) -> str:
    """The token of a project, kept beside it for its owner alone.

    It is made once: pages that are open know it, and go on after the server was started again.
    """
    path = project.with_name(f"{project.name}-token")
    with file_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(handle, "r+", encoding="ascii", errors="ignore") as file:
            path.chmod(0o600)
            token = file.read().strip()
            if len(token) < _TOKEN_BYTES:  # a new file, or one that was cut short
                token = secrets.token_urlsafe(_TOKEN_BYTES)
                file.seek(0)
                file.write(token)
    return token


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
    """The host as browsers open it, on other machines as well where these can reach it."""
    if host in _ANY:
        return _own_address()
    return f"[{host}]" if ":" in host else host


def _own_address() -> str:
    """The address of this machine that others see, or its name where it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # of no machine; nothing is sent
        except OSError:
            return socket.gethostname()
        return str(asked.getsockname()[0])


def _hosts(host: str) -> set[str]:
    """What the Host header may say."""
    if host in _ANY:
        return {*LOOPBACK, "*", socket.gethostname(), socket.getfqdn()}
    return {*LOOPBACK, host}
