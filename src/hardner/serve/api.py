"""The tagging server: stateless, several models by name, for other programs to call."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import hardner
from hardner.serve.api_schema import (
    FoundEntity,
    HealthAnswer,
    ModelsAnswer,
    TagAnswer,
    TagRequest,
)
from hardner.serve.app import ERRORS, ErrorAnswer, add_docs, add_errors
from hardner.serve.errors import Missing, NotReady, TooLarge, only
from hardner.serve.fast_form import FastForm, load_fast_form
from hardner.serve.guard import LOOPBACK, RequestGuard
from hardner.serve.metrics import Metrics
from hardner.serve.model_thread import TaggingThread
from hardner.serve.workbench import Limits

if TYPE_CHECKING:
    from hardner.tag.text_tagger import TextTagger

API_LIMITS = Limits(json_bytes=4 << 20, tag_characters=200_000)
QUEUED_CHARACTERS = 1_000_000
"""That may wait for a model, by default."""
_OPEN = ("/health", "/health/live")  # without the token: probes have none
_PATHS = (*_OPEN, "/tag", "/models", "/metrics", "/docs", "/openapi.json")


@dataclass
class ServedModel:
    """A model by its name, and the thread that it is computed by."""

    name: str
    thread: "TaggingThread[TextTagger]"
    loaded: FastForm | None = None

    @property
    def is_ready(self) -> bool:
        return self.loaded is not None

    def describe(self) -> dict[str, Any]:
        form = self.loaded
        labels = list(form.tagger.labels) if form else []
        about = {"form": form.form, "note": form.note} if form else {"form": "", "note": "loading"}
        return {"name": self.name, "ready": self.is_ready, "labels": labels, **about}


class TaggingServer:
    """Models that are loaded and served until it is closed."""

    def __init__(
        self,
        models: Mapping[str, Path | None],
        *,
        exact: bool = False,
        queued: int = QUEUED_CHARACTERS,
        load: Callable[..., FastForm] = load_fast_form,
        on_failure: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Begin to load the models.

        Args:
            models: Their folders by name; None is the bundled model.
            exact: Whether they are served as they are, and not in 8 bits.
            queued: Characters that may wait for each of them.
            load: Reads a model.
            on_failure: Called when one cannot be read.
        """
        self.metrics = Metrics()
        self.models: list[ServedModel] = []
        for name, folder in models.items():
            thread: TaggingThread[TextTagger] = TaggingThread(
                os.cpu_count() or 1,
                queued,
                # Requests that are tagged together may want mentions of different scores.
                lambda tagger, texts: tagger.pipe(texts, min_score=0.0),
            )
            served = ServedModel(name, thread)
            self.models.append(served)

            def read(served: ServedModel = served, folder: Path | None = folder) -> "TextTagger":
                try:
                    served.loaded = load(folder, exact=exact)
                except Exception as error:
                    on_failure(error)
                    raise
                return served.loaded.tagger

            thread.use(0, read)

    def close(self) -> None:
        """End all threads after the work in hand."""
        for model in self.models:
            model.thread.stop()

    def find(self, name: str | None) -> ServedModel:
        """The model of that name, or the default, if it is ready."""
        if name is None:
            found = self.models[0]
        else:
            found = only((m for m in self.models if m.name == name), f"model {name!r}")
        if not found.is_ready:
            raise NotReady(f"{found.name} is being loaded; try again soon")
        return found

    async def tag(self, body: TagRequest, limits: Limits) -> dict[str, Any]:
        """The answer to a request."""
        texts, model = body.given, self.find(body.model)
        if sum(map(len, texts)) > limits.tag_characters:
            most = f"more than {limits.tag_characters:,} characters of text"
            raise TooLarge(f"{most}; send them in parts")
        assert model.loaded is not None
        tagger = model.loaded.tagger
        tagger.check_labels(body.labels)
        least = tagger.least_scores(body.min_score)
        _, found = await asyncio.wrap_future(model.thread.tag(texts))
        results = [
            [
                {name: getattr(entity, name) for name in FoundEntity.model_fields}
                for entity in entities
                if entity.score >= least[entity.label]
                and (body.labels is None or entity.label in body.labels)
            ]
            for entities in found
        ]
        self.metrics.tagged(model.name, texts, (e["label"] for own in results for e in own))
        return {"model": model.name, "results": [{"entities": own} for own in results]}


def create_api(
    server: TaggingServer,
    hosts: Collection[str] | None = LOOPBACK,
    token: str | None = None,
    limits: Limits = API_LIMITS,
) -> ASGIApp:
    """The application over a server, for `hardner serve --api` or any ASGI server.

    Args:
        server: It is closed when the application shuts down.
        hosts: Names that the Host header may have; ``*`` stands for any IP address, None for any.
        token: What a request has to bring as ``Authorization: Bearer``, if anything.
        limits: Of a request.
    """
    app = create_api_routes(server, limits)
    guarded = RequestGuard(app, hosts, token, limits, open_paths=_OPEN)
    return _Counted(guarded, server.metrics)


def create_api_routes(server: TaggingServer, limits: Limits = API_LIMITS) -> FastAPI:
    """The application without its guard."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        server.close()

    app = FastAPI(
        title="hardner serve --api",
        description="Tags text; keeps nothing of it.",
        version=hardner.__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses={status: {"model": ErrorAnswer} for status in (*ERRORS, 503)},
    )
    add_docs(app)
    add_errors(app)

    @app.post("/tag", response_model=TagAnswer)
    async def post_tag(body: TagRequest) -> Response:
        """The entities of one text or of several: start, end, label, text and score of each."""
        return JSONResponse(await server.tag(body, limits))

    @app.get("/models", response_model=ModelsAnswer)
    async def get_models() -> Response:
        """The models by name, the default one first."""
        return JSONResponse({"models": [model.describe() for model in server.models]})

    @app.get("/health", response_model=HealthAnswer)
    async def get_health() -> Response:
        """Whether all models are ready to tag: 200, else 503."""
        ready = all(model.is_ready for model in server.models)
        return JSONResponse({"status": "ready" if ready else "loading"}, 200 if ready else 503)

    @app.get("/health/live", response_model=HealthAnswer)
    async def get_live() -> Response:
        """Whether the process answers at all: 200."""
        return JSONResponse({"status": "live"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def get_metrics() -> Response:
        """Requests, latencies, words and queues, for Prometheus."""
        waiting = {model.name: model.thread.waiting for model in server.models}
        text = server.metrics.render(waiting)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def get_root(request: Request) -> Response:
        raise Missing("nothing is here; /docs says what there is")

    return app


class _Counted:
    """Counts requests and how long they took."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            # Unknown paths are one: whoever asks for many must not fill the memory.
            path = scope["path"] if scope["path"] in _PATHS else "other"
            self._metrics.request(path, status, time.perf_counter() - started)
