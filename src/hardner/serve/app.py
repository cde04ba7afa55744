"""The application: routes over a workbench, errors as one line of JSON, a guard around all."""

from collections.abc import Collection
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import hardner
from hardner.errors import HardnerError
from hardner.serve import assets, reference
from hardner.serve.bodies import ErrorAnswer
from hardner.serve.errors import Missing, Refused
from hardner.serve.guard import LOOPBACK, Guard
from hardner.serve.routes import documents, labels, models, project, use
from hardner.serve.workbench import Workbench

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 409, 413, 415, 422, 429)
}


def create(
    bench: Workbench, hosts: Collection[str] = LOOPBACK, token: str | None = None
) -> ASGIApp:
    """The application over a workbench.

    Args:
        bench: Stays open as long as the application runs.
        hosts: Names that the Host header may have; ``*`` stands for any IP address.
        token: What a request has to bring, if anything.
    """
    app = routed()
    app.state.bench = bench
    return Guard(app, hosts, token, bench.settings.limits)


def routed() -> FastAPI:
    """The application without a workbench and without its guard."""
    app = FastAPI(
        title="hardner serve",
        description="Label, adapt, look, repeat.",
        version=hardner.__version__,
        docs_url=None,
        redoc_url=None,
        responses=REFUSALS,
    )
    for part in (project, documents, labels, models, use):
        app.include_router(part.router)
    _add_page(app)
    app.add_exception_handler(HardnerError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _failed)
    return app


def _add_page(app: FastAPI) -> None:
    held = assets.read()

    def asset(request: Request, name: str) -> Response:
        found = held.get(name)
        if found is None:
            raise Missing("there is no such file")
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.data, media_type=found.type, headers=headers)

    @app.get("/", include_in_schema=False)
    def index(request: Request) -> Response:
        return asset(request, "index.html")

    @app.get("/static/{name:path}", include_in_schema=False)
    def static(request: Request, name: str) -> Response:
        return asset(request, name)

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return Response(reference.page(app.openapi()), media_type="text/html; charset=utf-8")

    @app.get("/docs.css", include_in_schema=False)
    def docs_style() -> Response:
        return Response(reference.STYLE, media_type="text/css; charset=utf-8")


def _line(message: str) -> str:
    return " ".join(message.encode("utf-8", "replace").decode().split())


async def _refused(request: Request, error: Exception) -> Response:
    status, extra = (error.status, error.extra) if isinstance(error, Refused) else (422, {})
    return JSONResponse({"error": _line(str(error)), **extra}, status)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": _line(f"{where}: {first['msg']}")}, 422)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": _line(error.detail)}, error.status_code, error.headers)


async def _left(request: Request, error: Exception) -> Response:
    """For one who went away before the whole request was there, and will not read this."""
    return JSONResponse({"error": "the request was cut short"}, 400)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "hardner failed at this; the terminal says more"}, 500)
