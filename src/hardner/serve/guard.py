"""What every request passes before anything else sees it, and every answer on its way out.

The Host header must name this server, so that no foreign name can be pointed at it (DNS
rebinding); what a browser sends on behalf of another site is refused; a token is asked for where
the server can be reached from other machines.
"""

import hmac
import json
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardner.serve.workbench import Limits

COOKIE = "hardner_token"
UPLOADS = "/api/uploads"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE = ("GET", "HEAD", "OPTIONS")
WRITES = ("POST", "PUT", "PATCH")


class Stopped(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestGuard:
    """Stands around the application."""

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], token: str | None, limits: Limits
    ) -> None:
        """Args: ``hosts`` may be named in the Host header; ``*`` stands for any IP address."""
        self._app, self._token, self._limits = app, token, limits
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")
        headers = Headers(scope=scope)
        guarded = _guarded(send)
        try:
            host = self._host(headers)
            _same_site(scope, headers)
            _same_origin(scope, headers, host)
            if self._token is not None and await self._asked_for_token(scope, headers, guarded):
                return
            limit = self._sized(scope, headers)
        except Stopped as error:
            await _answer(guarded, error.status, {"error": str(error)})
            return
        await self._app(scope, _limited(receive, limit), guarded)

    def _host(self, headers: Headers) -> str:
        named = headers.getlist("host")
        name = _name(named[0]) if len(named) == 1 else None
        if name is None or not (name in self._hosts or ("*" in self._hosts and _is_ip(name))):
            raise Stopped(400, "the Host header does not name this server")
        return named[0]

    async def _asked_for_token(self, scope: Scope, headers: Headers, send: Send) -> bool:
        """Whether the request was answered: one that brings the token in its address gets a cookie.

        Raises:
            Stopped: No token, or another one.
        """
        assert self._token is not None
        brought = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._right(brought):
            cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(send, 303, {}, {"location": "/", "set-cookie": cookie})
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._right(bearer.strip()):
            return False
        if self._right(_cookie(headers.get("cookie", ""))):
            return False
        raise Stopped(401, "open the address with the token that the terminal shows")

    def _right(self, token: str) -> bool:
        assert self._token is not None
        return hmac.compare_digest(token.encode(), self._token.encode())

    def _sized(self, scope: Scope, headers: Headers) -> int:
        """How many bytes the body may have; one that has more, or is no JSON, stops."""
        uploads = scope["path"] == UPLOADS
        limit = self._limits.upload_bytes if uploads else self._limits.json_bytes
        said = headers.get("content-length", "0")
        if not said.isdecimal() or int(said) > limit:
            raise Stopped(413, f"more than {limit:,} bytes")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = "application/octet-stream" if uploads else "application/json"
        if scope["method"] in WRITES and kind != wanted:
            raise Stopped(415, f"the body must be {wanted}")
        return limit


def _name(host: str) -> str | None:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        port = port.removeprefix(":") if closed else "?"
    else:
        name, _, port = host.partition(":")
    return name.lower().rstrip(".") if not port or port.isdecimal() else None


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _same_site(scope: Scope, headers: Headers) -> None:
    """Browsers say who asks; from elsewhere, only the page itself may be opened."""
    site = headers.get("sec-fetch-site", "none")
    opens = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not (opens and scope["path"] == "/"):
        raise Stopped(403, "requests from other sites are refused")


def _same_origin(scope: Scope, headers: Headers, host: str) -> None:
    origin = headers.get("origin")
    if origin is None or (scope["method"] in SAFE and origin == "null"):
        return
    if origin.lower() != f"{scope.get('scheme', 'http')}://{host}".lower():
        raise Stopped(403, "requests from other sites are refused")


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _limited(receive: Receive, limit: int) -> Receive:
    """A body is counted as it comes, whatever it said of its length."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, f"more than {limit:,} bytes")
        return message

    return counted


def _guarded(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return with_headers


async def _answer(
    send: Send, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    every = {
        "content-type": "application/json",
        "content-length": str(len(data)),
        **(headers or {}),
    }
    raw = [(name.encode(), value.encode("latin-1")) for name, value in every.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": data})
