"""Adapting, and the models that come of it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response

from hardner.serve import models, runs
from hardner.serve.bodies import AdaptBody, Nothing, PathNumber
from hardner.serve.errors import Conflict
from hardner.serve.routes.shared import Bench, attached
from hardner.serve.store import Database
from hardner.serve.workbench import Workbench

router = APIRouter(prefix="/api", tags=["models"])


@router.post("/adapt", status_code=202)
def adapt(bench: Bench, body: AdaptBody) -> dict[str, Any]:
    """Starts a run that learns from all labels outside the held-out part."""
    return _run(bench, bench.adapt(body.keep, body.force))


@router.get("/runs")
def list_runs(bench: Bench) -> dict[str, Any]:
    """The runs, newest first, without their results."""
    with bench.store.reading() as database:
        found = runs.listed(database)
    return {"runs": [bench.runner.shown(run) for run in found]}


@router.get("/runs/{number}")
def read_run(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """A run with its result."""
    return _run(bench, number)


@router.post("/runs/{number}/cancel")
def cancel_run(bench: Bench, number: PathNumber, body: Nothing) -> dict[str, Any]:
    """Ends a run that is on its way."""
    _run(bench, number)
    bench.runner.cancel(number)
    return _run(bench, number)


def _run(bench: Workbench, number: int) -> dict[str, Any]:
    with bench.store.reading() as database:
        found = runs.one(database, number)
    return bench.runner.shown(found) or found


@router.get("/curve")
def read_curve(bench: Bench) -> dict[str, Any]:
    """The expected F1 of each run that ended well, oldest first."""
    with bench.store.reading() as database:
        return {"points": runs.curve(database)}


@router.get("/models")
def list_models(bench: Bench) -> dict[str, Any]:
    """The models, newest first."""
    with bench.store.reading() as database:
        return _listed(database)


def _listed(database: Database) -> dict[str, Any]:
    found = models.listed(database)
    used = next((model["id"] for model in found if model["current"]), None)
    return {"current": used, "models": found}


@router.post("/models/{number}/use")
def use_model(bench: Bench, number: PathNumber, body: Nothing) -> dict[str, Any]:
    """Makes a model the current one."""
    with bench.store.writing() as database:
        models.use(database, number)
        found = models.one(database, number)
    bench.load_current()
    return found


@router.delete("/models/{number}")
def remove_model(bench: Bench, number: PathNumber) -> dict[str, Any]:
    """Lets go of a model's files; its figures stay."""
    with bench.store.writing() as database:
        models.remove(database, number)
        return _listed(database)


@router.get("/models/{number}/zip")
def download_model(bench: Bench, number: PathNumber) -> Response:
    """The model folder as a zip, for `hardner tag --model` and `hardner.load`."""
    with bench.store.reading() as database:
        found = models.one(database, number)
    if found["kind"] == "base":
        raise Conflict("the base model is not part of the project; adapt it first")
    name = f"{bench.settings.project.stem}-{found['name'].replace(' ', '-')}"

    def pieces() -> Iterator[bytes]:
        with tempfile.TemporaryDirectory(prefix="hardner-model-") as folder:
            with bench.store.reading() as database:
                models.unpack(database, number, Path(folder))
            yield from models.zipped(Path(folder), name)

    return attached(f"{name}.zip", "application/zip", pieces())
