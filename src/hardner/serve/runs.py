"""Adaptation runs: their rows in the project, their orders, and the process that does the work."""

import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hardner.serve.database import Database, ProjectDatabase, record_event, utc_now
from hardner.serve.errors import DISK_FULL, Conflict, is_disk_full, only
from hardner.serve.models import add_first_model, add_model, drop_first_model, unpack_model
from hardner.types import Sentence, Span

MODEL_IN_USE = "current"
"""Folder of the adapted model in use, to compare the new one with; without it, the base is."""
FIRST_MODEL = "first"
"""Folder that a model is left in which is of use already while the run goes on."""
NEW_MODEL = "model"
"""Folder that the new model is left in."""
_ORDER = "order.json"
JOB_COMMAND = (sys.executable, "-m", "hardner.serve.job")
_GRACE = 3.0  # seconds that the process has to end when it is asked to
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AdaptationOrder:
    """What to adapt, to what, and how."""

    labelled: Sequence[Sentence]
    held_out: Sequence[Sentence]
    """To score the new model on."""
    unlabelled: Sequence[Sentence]
    """To compare the models on."""
    keep: bool
    """Whether the types of the base model stay beside the new ones."""
    force: bool
    """Whether to go on where the base model does better as it is."""
    base: Path | None
    """The folder of the model to adapt; None is the bundled one."""

    @property
    def labels(self) -> list[str]:
        """The labels of the types to learn, in sentences that were labelled to their end."""
        return sorted({span.label for sentence in self.done for span in sentence.spans})

    @property
    def done(self) -> list[Sentence]:
        """The sentences that were labelled to their end."""
        return [sentence for sentence in self.labelled if sentence.is_done]

    def write(self, folder: Path) -> None:
        (folder / _ORDER).write_text(json.dumps(asdict(self), default=str), "utf-8")

    @classmethod
    def read(cls, folder: Path) -> "AdaptationOrder":
        order = json.loads((folder / _ORDER).read_text("utf-8"))
        for name in ("labelled", "held_out", "unlabelled"):
            order[name] = [
                replace(
                    Sentence(**row),
                    tokens=tuple(row["tokens"]),
                    spans=tuple(Span(*span) for span in row["spans"]),
                    rejected=tuple(Span(*span) for span in row["rejected"]),
                )
                for row in order[name]
            ]
        order["base"] = Path(order["base"]) if order["base"] else None
        return cls(**order)


def falls(result: dict[str, Any]) -> bool:
    """Whether the new model is worse on the held-out part than the one in use before."""
    before, held_out = result.get("held_out_before"), result["held_out"]
    return before is not None and held_out is not None and held_out["f1"] < before


def list_runs(database: Database, where: str = "") -> list[dict[str, Any]]:
    """The runs, newest first, without their results."""
    return [_as_json(row) | {"result": None} for row in _rows(database, where)]


def find_run(database: Database, number: int) -> dict[str, Any]:
    return _as_json(only(_rows(database, "WHERE runs.id = ?", number), f"run {number}"))


def newest_run(database: Database) -> dict[str, Any] | None:
    return next(iter(list_runs(database, "WHERE runs.id = (SELECT max(id) FROM runs)")), None)


def _rows(database: Database, where: str = "", *values: Any) -> list[sqlite3.Row]:
    return database.execute(
        f"""SELECT runs.*, models.id AS model FROM runs LEFT JOIN models ON models.run = runs.id
            {where} ORDER BY runs.id DESC""",
        values,
    ).fetchall()


def _as_json(row: sqlite3.Row) -> dict[str, Any]:
    result = json.loads(row["result"]) if row["result"] else None
    known = {**dict(row), "types": json.loads(row["types"]), "result": result}
    return {**known, "stage": "", "done": 0, "total": 0}


def learning_curve(database: Database) -> list[dict[str, Any]]:
    """The expected F1 of each run that succeeded, oldest first."""
    points = []
    for row in reversed(_rows(database, "WHERE state = 'done'")):
        result = json.loads(row["result"])
        held_out = result.get("held_out")
        points.append(
            {"run": row["id"], "at": row["ended"], "held_out": held_out and held_out["f1"]}
            | {name: row[name] for name in ("model", "sentences", "mentions")}
            | {name: result.get(name) for name in ("f1", "low", "high")}
        )
    return points


def _insert(database: Database, order: AdaptationOrder) -> int:
    mentions = sum(len(sentence.spans) for sentence in order.done)
    try:
        made = database.execute(
            """INSERT INTO runs (state, started, sentences, mentions, types)
               VALUES ('running', ?, ?, ?, ?)""",
            (utc_now(), len(order.done), mentions, json.dumps(order.labels)),
        )
    except sqlite3.IntegrityError:  # a unique index lets one run at a time be 'running'
        raise Conflict("a run is on its way already; wait for it or cancel it") from None
    record_event(database, "run")
    assert made.lastrowid is not None
    return made.lastrowid


def _end(
    database: Database,
    number: int,
    state: str,
    seconds: float = 0.0,
    message: str = "",
    result: dict[str, Any] | None = None,
) -> None:
    drop_first_model(database, number)
    kept = None if result is None else json.dumps(result)
    database.execute(
        """UPDATE runs SET state = ?, ended = ?, seconds = ?, message = ?, result = ?
           WHERE id = ? AND state = 'running'""",
        (state, utc_now(), seconds, message, kept, number),
    )
    record_event(database, "run")


@dataclass
class _ActiveRun:
    number: int
    process: subprocess.Popen[bytes]
    folder: Path
    began: float
    said: dict[str, Any] = field(default_factory=lambda: {"stage": "reading"})
    ending: str = ""  # the state to end in, if the run is ended on purpose
    thread: threading.Thread = field(init=False)

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 1)


class AdaptationRunner:
    """Runs one adaptation at a time, in a process of its own."""

    def __init__(
        self,
        project: ProjectDatabase,
        on_model: Callable[[], None],
        command: Sequence[str] = JOB_COMMAND,
    ) -> None:
        """Args: ``on_model`` is called when a model may have come, or a run has ended."""
        self._project, self._on_model, self._command = project, on_model, command
        self._active: _ActiveRun | None = None
        self._lock = threading.Lock()
        with project.writing() as database:
            for row in _rows(database, "WHERE state = 'running'"):  # left by a server that died
                message = "the server stopped; adapt again"
                _end(database, row["id"], "interrupted", message=message)

    @property
    def is_busy(self) -> bool:
        return self._active is not None

    def start(self, order: AdaptationOrder, in_use: int | None) -> int:
        """Start a run, to be compared with the adapted model in use, if any; returns its number."""
        with self._lock:
            with self._project.writing() as database:
                number = _insert(database, order)
            folder = Path(tempfile.mkdtemp(prefix="hardner-adapt-"))
            try:
                order.write(folder)
                if in_use is not None:
                    with self._project.reading() as database:
                        unpack_model(database, in_use, folder / MODEL_IN_USE)
                process = self._spawn(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                with self._project.writing() as database:
                    _end(database, number, "failed", message="the process did not start")
                raise
            active = _ActiveRun(number, process, folder, time.monotonic())
            follow = copy_context().run  # what comes of it is on behalf of who began it
            active.thread = threading.Thread(
                target=follow, args=(self._follow, active), daemon=True
            )
            self._active = active
            active.thread.start()
        return number

    def _spawn(self, folder: Path) -> subprocess.Popen[bytes]:
        # The job ends when its standard input closes, which it does even if this process is killed.
        with (folder / "errors.txt").open("wb") as errors:
            return subprocess.Popen(
                [*self._command, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def cancel(self, number: int) -> None:
        active = self._active
        if active is None or active.number != number:
            raise Conflict(f"run {number} is not on its way")
        self._stop(active, "cancelled")

    def stop(self) -> None:
        """End the run under way, as the server ends."""
        if self._active is not None:
            self._stop(self._active, "interrupted")

    def _stop(self, active: _ActiveRun, state: str) -> None:
        active.ending = active.ending or state
        active.process.terminate()
        try:
            active.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            active.process.kill()
        active.thread.join(timeout=_GRACE)

    def with_progress(self, run: dict[str, Any]) -> dict[str, Any]:
        """A run, with its progress if it is under way."""
        active = self._active
        if active is None or active.number != run["id"]:
            return run
        progress = {name: active.said.get(name, 0) for name in ("stage", "done", "total")}
        return run | progress | {"seconds": active.seconds}

    def _follow(self, active: _ActiveRun) -> None:
        """Read the job's lines until it ends, then store how it ended."""
        assert active.process.stdout is not None and active.process.stdin is not None
        try:
            for line in active.process.stdout:
                active.said |= json.loads(line)
                if first := active.said.pop("first", None):
                    self._use_first(active, first)
            self._store_outcome(active, active.process.wait())
        except Exception as error:
            _log.exception("run %d: its outcome could not be stored", active.number)
            active.process.kill()
            why = DISK_FULL if is_disk_full(error) else "its outcome could not be read"
            with self._project.writing() as database:
                _end(database, active.number, "failed", message=why)
        finally:
            active.process.stdin.close()
            active.process.stdout.close()
            active.process.wait()
            shutil.rmtree(active.folder, ignore_errors=True)
            self._active = None
            self._on_model()

    def _use_first(self, active: _ActiveRun, labels: list[str]) -> None:
        with self._project.writing() as database:
            if not active.ending:
                add_first_model(database, labels, active.number, active.folder / FIRST_MODEL)
        self._on_model()

    def _store_outcome(self, active: _ActiveRun, code: int) -> None:
        number, seconds, said = active.number, active.seconds, active.said
        with self._project.writing() as database:
            if active.ending:
                message = "cancelled" if active.ending == "cancelled" else "the server stopped"
                _end(database, number, active.ending, seconds, message)
            elif code == 0 and "result" in said:
                result = said["result"]
                _end(database, number, "done", seconds, result=result)
                folder, better = active.folder / NEW_MODEL, not falls(result)
                add_model(database, f"run {number}", said["labels"], number, folder, better)
            else:
                why = said.get("error") or f"the process ended unexpectedly (code {code})"
                if "error" not in said:
                    _log.error("run %d: %s", number, (active.folder / "errors.txt").read_text())
                _end(database, number, "failed", seconds, why)
