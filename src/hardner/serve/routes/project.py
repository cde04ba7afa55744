"""The project as a whole."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

import hardner
from hardner.schemes import SCHEMES
from hardner.serve import mention_types, uploads
from hardner.serve.bodies import BIGGEST
from hardner.serve.routes.shared import Bench
from hardner.serve.status import status
from hardner.serve.workbench import Workbench

router = APIRouter(prefix="/api", tags=["project"])


@router.get("/project")
def read_project(bench: Bench) -> dict[str, Any]:
    """What does not change while the server runs, the types, and the status."""
    limits = bench.settings.limits
    with bench.store.reading() as database:
        types = mention_types.listed(database)
    return {
        "name": bench.settings.project.stem,
        "version": hardner.__version__,
        "types": types,
        "formats": uploads.formats(),
        "schemes": list(SCHEMES),
        "limits": {
            "upload_bytes": limits.upload_bytes,
            "json_bytes": limits.json_bytes,
            "tag_characters": limits.tag_characters,
        },
        "status": _status(bench, None),
    }


@router.get("/status")
def read_status(
    bench: Bench, since: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None
) -> dict[str, Any]:
    """Where the project stands, and what has changed since an event."""
    return _status(bench, since)


def _status(bench: Workbench, since: int | None) -> dict[str, Any]:
    with bench.store.reading() as database:
        found = status(database, since)
    return found | {"run": bench.runner.shown(found["run"])}
