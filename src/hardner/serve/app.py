"""The web application: routes over a workbench, the page, and errors as one line of JSON."""

import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from html import escape
from pathlib import Path
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
from hardner.serve.guard import LOOPBACK, RequestGuard
from hardner.serve.routes import documents, labels, models, project
from hardner.serve.workbench import Workbench

_PAGE = Path(__file__).parent / "page"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ERRORS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 507)
_DOCS_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: #8882; padding: .5rem; overflow: auto }
section { border-top: 1px solid #8886; margin-top: 1rem } h2 { font-size: 1.1rem }
:root { color-scheme: light dark }
"""


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
    return RequestGuard(app, hosts, token, bench.settings.limits)


def create_routes() -> FastAPI:
    """The application without a workbench and without its guard."""
    app = FastAPI(
        title="hardner serve",
        description="Label, adapt, look, repeat.",
        version=hardner.__version__,
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": ErrorAnswer} for status in _ERRORS},
    )
    for part in (project, documents, labels, models):
        app.include_router(part.router)
    _add_page(app)
    for kind in (HardnerError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _error)
    for kind in (OSError, sqlite3.OperationalError):
        app.add_exception_handler(kind, _system_error)
    return app


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

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return Response(_docs_page(app.openapi()), media_type=_MEDIA_TYPES[".html"])

    @app.get("/docs.css", include_in_schema=False)
    def docs_style() -> Response:
        return Response(_DOCS_STYLE, media_type=_MEDIA_TYPES[".css"])


def _docs_page(description: dict[str, Any]) -> str:
    """The OpenAPI description for people, as one page without scripts, which its policy forbids."""
    title, about = escape(description["info"]["title"]), escape(description["info"]["description"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="stylesheet" href="/docs.css"><title>{title}</title></head>'
        f"<body><main><h1>{title}</h1><p>{about} "
        'The same for machines: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(_docs_sections(description))}</main></body></html>"
    )


def _docs_sections(description: dict[str, Any]) -> Iterator[str]:
    schemas = description["components"]["schemas"]
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            yield f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(route.get('description', ''))}</p>"
            if given := route.get("parameters"):
                rows = "".join(
                    f"<li><code>{escape(p['name'])}</code> ({p['in']}): "
                    f"<code>{escape(_type(p['schema'], schemas))}</code></li>"
                    for p in given
                )
                yield f"<ul>{rows}</ul>"
            for kind, body in route.get("requestBody", {}).get("content", {}).items():
                shape = _type(body["schema"], schemas)
                yield f"<p>Body, {escape(kind)}:</p><pre>{escape(shape)}</pre>"
            yield "</section>"


def _type(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> str:
    """A schema in short: names of types, objects spelled out."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return " | ".join(_type(one, schemas, depth) for one in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"[{_type(schema['items'], schemas, depth)}, ...]"
    if "properties" in schema:
        inner = "  " * (depth + 1)
        needed = schema.get("required", [])
        rows = (
            f"{inner}{name}{'' if name in needed else '?'}: {_type(one, schemas, depth + 1)}"
            for name, one in schema["properties"].items()
        )
        return "{\n" + ",\n".join(rows) + "\n" + "  " * depth + "}"
    return str(schema.get("type", "any"))


async def _system_error(request: Request, error: Exception) -> Response:
    """What the system refused: a full disk is no failure of ours, all else is."""
    if not is_disk_full(error):
        raise error
    return await _error(request, error)


async def _error(request: Request, error: Exception) -> Response:
    """The error as one line of JSON."""
    status, message, extra, headers = 422, str(error), {}, None
    match error:
        case Refused():
            status, extra = error.status, error.extra
        case RequestValidationError():
            first = error.errors()[0]
            message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
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
