"""The web application: routes over a workbench, the page, and errors as one line of JSON."""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import hardner
from hardner.errors import HardnerError
from hardner.serve.errors import DISK_FULL, Missing, Refused, is_disk_full
from hardner.serve.guard import LOOPBACK, NamedAnnotator, RequestGuard
from hardner.serve.routes import documents, labels, models, people, project, review
from hardner.serve.workbench import Workbench

_PAGE = Path(__file__).with_name("page")
_DOCS = Path(__file__).with_name("docs.html")
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
ERRORS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 507)


class ErrorAnswer(BaseModel):
    """What is wrong, in one line."""

    error: str


def create_app(
    bench: Workbench, hosts: Collection[str] = LOOPBACK, token: str | None = None
) -> ASGIApp:
    """The application over a workbench.

    Args:
        bench: Stays open as long as the application runs.
        hosts: Names that the Host header may have; ``*`` stands for any IP address.
        token: What a request has to bring, if anything.
    """
    app = create_routes()
    app.state.bench = bench
    app.state.asks_name = token is not None
    return RequestGuard(app, hosts, token, bench.settings.limits)


def create_routes() -> FastAPI:
    """The application without a workbench and without its guard."""
    app = FastAPI(
        title="hardner serve",
        description="Label, adapt, look, repeat.",
        version=hardner.__version__,
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": ErrorAnswer} for status in ERRORS},
    )
    for part in (project, documents, labels, people, models, review):
        app.include_router(part.router)
    add_docs(app)
    _add_page(app)
    app.add_middleware(NamedAnnotator)
    add_errors(app)
    return app


def add_errors(app: FastAPI) -> None:
    """Answer whatever goes wrong by one line of JSON."""
    for kind in (HardnerError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _error)
    for kind in (OSError, sqlite3.OperationalError):
        app.add_exception_handler(kind, _system_error)


def _add_page(app: FastAPI) -> None:
    # Read once: a request names a key of this table, never a path.
    files = {
        path.relative_to(_PAGE).as_posix(): path.read_bytes()
        for path in _PAGE.rglob("*")
        if path.suffix in _MEDIA_TYPES
    }

    @app.get("/static/{name:path}", include_in_schema=False)
    def static(request: Request, name: str) -> Response:
        if name not in files:
            raise Missing("there is no such file")
        tag = f'"{hashlib.sha256(files[name]).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(files[name], headers=headers, media_type=_MEDIA_TYPES[Path(name).suffix])

    @app.get("/", include_in_schema=False)
    def index(request: Request) -> Response:
        return static(request, "index.html")


def add_docs(app: FastAPI) -> None:
    """A page that says what the routes take and give, and its style."""

    @app.get("/static/docs.css", include_in_schema=False)
    def style() -> Response:
        return Response((_PAGE / "docs.css").read_bytes(), media_type=_MEDIA_TYPES[".css"])

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return Response(_docs_page(app.openapi()), media_type=_MEDIA_TYPES[".html"])


def _docs_page(description: dict[str, Any]) -> str:
    """The OpenAPI description for people, as one page without scripts, which its policy forbids."""
    info, sections = description["info"], "\n".join(_docs_sections(description))
    title, about = escape(info["title"]), escape(info["description"])
    page = Template(_DOCS.read_text("utf-8"))
    return page.substitute(title=title, about=about, sections=sections)


def _docs_sections(description: dict[str, Any]) -> Iterator[str]:
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            given = {f"{one['name']} ({one['in']})": one for one in route.get("parameters", ())}
            given |= {
                f"body, {kind}": body
                for kind, body in route.get("requestBody", {}).get("content", {}).items()
            }
            rows = (f"{name}: {json.dumps(one['schema'])}" for name, one in given.items())
            yield (
                f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
                f"<p>{escape(route.get('description', ''))}</p>"
                + "".join(f"<p><code>{escape(row)}</code></p>" for row in rows)
                + "</section>"
            )
    for name, schema in description["components"]["schemas"].items():
        yield f"<section><h2>{name}</h2><pre>{escape(json.dumps(schema, indent=2))}</pre></section>"


async def _system_error(request: Request, error: Exception) -> Response:
    """What the system refused: a full disk is no failure of ours, all else is."""
    if not is_disk_full(error):
        raise error
    return await _error(request, error)


async def _error(request: Request, error: Exception) -> Response:
    status, message = 422, str(error)
    extra: dict[str, Any] = {}
    headers: Mapping[str, str] | None = None
    match error:
        case Refused():
            status, extra, headers = error.status, error.extra, error.headers
        case RequestValidationError():
            first = error.errors()[0]
            message = (
                f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
            )
        case HTTPException():
            status, message, headers = error.status_code, error.detail, error.headers
        case _ if is_disk_full(error):
            status, message = 507, DISK_FULL
        case ClientDisconnect():  # who left before the request was complete will not read this
            status, message = 400, "the request was cut short"
        case HardnerError():
            pass
        case _:
            status, message = 500, "hardner failed at this; the terminal says more"
    # JSON text may hold half surrogates, which cannot be sent.
    line = " ".join(message.encode("utf-8", "replace").decode().split())
    return JSONResponse({"error": line, **extra}, status, headers)
