"""The project as a whole: its state, and exports of its labels and scores."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

import hardner
from hardner.formats import FORMATS, Report
from hardner.schemes import SCHEMES
from hardner.serve.database import Database, last_event
from hardner.serve.errors import Refused
from hardner.serve.export import export_labels, writable_formats
from hardner.serve.history import show_undo
from hardner.serve.loose import count_loose
from hardner.serve.mention_types import list_types
from hardner.serve.models import current_model
from hardner.serve.readings import own_name
from hardner.serve.report import report_page
from hardner.serve.routes import BIGGEST, Bench, attachment, written_blocks
from hardner.serve.runs import newest_run

router = APIRouter(prefix="/api", tags=["project"])


_OF_DOCUMENTS = "'add', 'document', 'remove', 'untype', 'labels', 'loose'"
_MOST_CHANGED = 500  # sentences that are named as changed


@router.get("/project")
def get_project(bench: Bench, request: Request) -> dict[str, Any]:
    """What does not change while the server runs, the types, and the status."""
    with bench.project.reading() as database:
        types, name = list_types(database), own_name(database)
    return {
        "name": bench.settings.project.stem,
        "version": hardner.__version__,
        "types": types,
        "formats": [
            {
                "name": row.name,
                "about": row.about,
                "endings": list(row.endings),
                "readable": row.read is not None,
                "writable": row.write is not None,
                "keeps": sorted(row.holds),
                "tagged": row.tagged,
            }
            for row in FORMATS.values()
        ],
        "schemes": list(SCHEMES),
        "me": name,
        "asks_name": request.app.state.asks_name,
        "limits": asdict(bench.settings.limits),
        "status": get_status(bench),
    }


@router.get("/status")
def get_status(
    bench: Bench, since: Annotated[int | None, Query(ge=0, le=BIGGEST)] = None
) -> dict[str, Any]:
    """Where the project stands, and what has changed since an event."""
    with bench.project.reading() as database:
        found = project_status(database, since)
    run = found["run"]
    return found | {"run": run and bench.runner.with_progress(run)}


@router.get("/export")
def get_export(
    bench: Bench,
    format: Annotated[str, Query(max_length=50)],
    scheme: Annotated[str | None, Query(max_length=20)] = None,
    unit: Literal["document", "sentence"] = "document",
) -> Response:
    """The labels in a format: of whole documents, or of labelled sentences alone.

    The header `x-left-out` says what the format could not hold.
    """
    if format not in (known := writable_formats()):
        raise Refused(f"{format!r} cannot be written; known are {', '.join(known)}")
    with (
        tempfile.TemporaryDirectory(prefix="hardner-export-") as folder,
        bench.project.reading() as database,
    ):
        report = Report()
        path = export_labels(database, Path(folder), format, scheme, unit, report)
        name = f"{bench.settings.project.stem}-{path.name}"
        answer = attachment(name, "application/octet-stream", path.read_bytes())
    lost = [
        f"{count:,} × {reason}" for reason, count in report.counts.items() if "left out" in reason
    ]
    answer.headers["x-left-out"] = quote("; ".join(lost))
    return answer


@router.get("/copy")
def get_copy(bench: Bench) -> Response:
    """The project's file as it is now."""
    name = f"{bench.settings.project.stem}-copy{bench.settings.project.suffix}"
    return attachment(name, "application/octet-stream", written_blocks(bench.project.copy))


@router.get("/report")
def get_report(bench: Bench) -> Response:
    """The curve and the figures as an HTML file."""
    name = bench.settings.project.stem
    with bench.project.reading() as database:
        page = report_page(database, name, count_labels(database))
    return attachment(f"{name}-report.html", "text/html; charset=utf-8", page.encode())


def project_status(database: Database, since: int | None) -> dict[str, Any]:
    """The state of a project, and what has changed since an event."""
    last = last_event(database)
    after = last if since is None else since
    counts = count_labels(database)
    return {
        "event": last,
        "changed": _changed_sentences(database, after),
        "documents_changed": _has_event(database, after, _OF_DOCUMENTS),
        "types_changed": _has_event(database, after, "'add', 'type', 'untype'"),
        "people_changed": _has_event(database, after, "'people'"),
        "alone": database.alone,
        **show_undo(database),
        "run": newest_run(database),
        "model": current_model(database),
        "sweep": {"done": counts["predicted"], "total": counts["sentences"]},
        "counts": counts,
        "loose": count_loose(database),
    }


def _changed_sentences(database: Database, after: int) -> list[int]:
    # The plus sign keeps SQLite from the index on sentences: it is to walk the log from its end.
    rows = database.execute(
        """SELECT sentence FROM events WHERE id > ? AND +sentence IS NOT NULL
           ORDER BY id DESC LIMIT ?""",
        (after, _MOST_CHANGED),
    )
    return sorted({row["sentence"] for row in rows})


def _has_event(database: Database, after: int, kinds: str) -> bool:
    """Whether one of these kinds, or a step back or on that may be of them, has happened."""
    found = database.execute(
        f"""SELECT 1 FROM events WHERE id > ? AND +sentence IS NULL
            AND kind IN ({kinds}, 'undo', 'redo') LIMIT 1""",
        (after,),
    )
    return found.fetchone() is not None


def count_labels(database: Database) -> dict[str, int]:
    """The numbers of documents, sentences by state, mentions and predictions.

    What is held out is part of them, and counted apart as well: nothing is learnt from it.
    """
    held = database.execute(
        """SELECT count(*) AS held_out_labelled,
                  coalesce(sum(json_array_length(spans)), 0) AS held_out_mentions
           FROM documents JOIN sentences ON document = documents.id
           WHERE held_out AND NOT removed AND state <> 'open'"""
    )
    counts = database.execute("SELECT * FROM counts").fetchone()
    return {**dict(counts), **dict(held.fetchone())}
