"""What every request passes before anything else sees it, and every answer on its way out.

The Host header must name this server, so that no foreign name can be pointed at it (DNS
rebinding); what a browser sends on behalf of another site is refused; a token is asked for where
the server can be reached from other machines.
"""

import hmac
import re
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardner.serve.database import acting_name
from hardner.serve.workbench import Limits

_COOKIE = "hardner_token"
_UPLOADS = "/api/uploads"
_LONGEST_NAME = 60
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RequestGuard:
    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] | None,
        token: str | None,
        limits: Limits,
        open_paths: Collection[str] = (),
    ) -> None:
        """Args:
        hosts: May be named in the Host header; ``*`` stands for any IP address, None for anything.
        open_paths: Need no token.
        """
        self._app, self._token, self._limits, self._open = app, token, limits, open_paths
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is spoken here")
        request = Request(scope)
        answer = self._app
        try:
            self._check_host(request.headers)
            if _is_foreign(request):
                raise HTTPException(403, "requests from other sites are refused")
            if self._opens_with_token(request):
                # From now on the cookie brings the token, which leaves the address bar.
                cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
                answer = RedirectResponse("/", 303, {"set-cookie": cookie})
            elif not (self._has_token(request) or request.scope["path"] in self._open):
                raise HTTPException(401, "open the address with the token that the terminal shows")
            receive = _limited(receive, self._body_limit(request))
        except HTTPException as error:
            answer = JSONResponse({"error": error.detail}, error.status_code)
        await answer(scope, receive, _with_headers(send))

    def _check_host(self, headers: Headers) -> None:
        named = headers.getlist("host")
        name = _name(named[0]) if len(named) == 1 else None
        if name is None or not self._is_own(name):
            raise HTTPException(400, "the Host header does not name this server")

    def _is_own(self, name: str) -> bool:
        own = self._hosts
        return own is None or name in own or ("*" in own and _is_ip(name))

    def _opens_with_token(self, request: Request) -> bool:
        if request.method != "GET" or request.scope["path"] != "/":
            return False
        return self._token is not None and self._is_token(request.query_params.get("token", ""))

    def _has_token(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        return (
            self._token is None
            or (scheme.lower() == "bearer" and self._is_token(bearer.strip()))
            or self._is_token(request.cookies.get(_COOKIE, ""))
        )

    def _is_token(self, given: str) -> bool:
        # In constant time: how long it takes must not tell how much of a guess was right.
        return hmac.compare_digest(given.encode(), str(self._token).encode())

    def _body_limit(self, request: Request) -> int:
        uploads = request.scope["path"] == _UPLOADS
        limit = self._limits.upload_bytes if uploads else self._limits.json_bytes
        said = request.headers.get("content-length", "0")
        if not said.isdecimal() or int(said) > limit:
            raise HTTPException(413, f"more than {limit:,} bytes")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = "application/octet-stream" if uploads else "application/json"
        # Forms of other sites can send neither kind without asking first (CORS).
        if request.method in ("POST", "PUT", "PATCH") and kind != wanted:
            raise HTTPException(415, f"the body must be {wanted}")
        return limit


class NamedAnnotator:
    """Does what a request asks for on behalf of the annotator that it names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http":
            name = unquote(Headers(scope=scope).get("x-annotator", "")).strip()
            if len(name) > _LONGEST_NAME or not name.isprintable() or "\ufffd" in name:
                error = f"X-Annotator must be a name of at most {_LONGEST_NAME} letters"
                answer = JSONResponse({"error": error}, 422)
            acting_name.set(name)  # for this request alone: each runs in a context of its own
        await answer(scope, receive, send)


def _name(host: str) -> str | None:
    found = re.fullmatch(r"(\[[^\]]*\]|[^:\[]*)(:[0-9]*)?", host)
    return found and found[1].strip("[]").lower().rstrip(".")


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_foreign(request: Request) -> bool:
    """Whether a browser sends this for another site; such a site may open the page, no more."""
    headers = request.headers
    opens = request.method == "GET" and headers.get("sec-fetch-mode") == "navigate"
    elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if elsewhere and not (opens and request.scope["path"] == "/"):
        return True
    origin = headers.get("origin")
    if origin is None or (request.method in ("GET", "HEAD", "OPTIONS") and origin == "null"):
        return False
    scheme = request.scope.get("scheme", "http")
    return origin.lower() != f"{scheme}://{headers['host']}".lower()


def _limited(receive: Receive, limit: int) -> Receive:
    """Count a body as it comes, whatever its headers said."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, f"more than {limit:,} bytes")
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sent
