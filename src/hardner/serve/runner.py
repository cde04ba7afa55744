"""Adapting in a process of its own: started, listened to, cancelled, and its model taken in."""

import json
import logging
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardner.serve import models, runs, sheet
from hardner.serve.errors import Conflict
from hardner.serve.store import Store
from hardner.types import Sentence

COMMAND = (sys.executable, "-m", "hardner.serve.job")
PATIENCE = 3.0
"""Seconds that the process has to end by itself."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Order:
    """What a run is to do."""

    labelled: Sequence[Sentence]
    held_out: Sequence[Sentence]
    """To score the new model on."""
    unlabelled: Sequence[Sentence]
    """To compare the models on."""
    keep: bool
    """Whether the new types come beside those of the base."""
    force: bool
    """Whether to go on where the base does better as it is."""
    base: Path | None
    """Where the model to adapt lies; None is the bundled one."""
    current: int | None
    """The number of an adapted model to compare with; None is the base."""


@dataclass
class _Active:
    run: int
    process: "subprocess.Popen[bytes]"
    folder: Path
    began: float
    stage: str = "reading"
    done: int = 0
    total: int = 0
    ending: str = ""
    """The state to end in, where it was ended on purpose."""
    thread: threading.Thread = field(init=False)


class Runner:
    """Runs one adaptation at a time."""

    def __init__(
        self, store: Store, ended: Callable[[], None], command: Sequence[str] = COMMAND
    ) -> None:
        """Args: ``ended`` is called when a run has ended, however."""
        self._store, self._ended, self._command = store, ended, command
        self._active: _Active | None = None
        self._lock = threading.Lock()
        with store.writing() as database:
            runs.mend(database)

    @property
    def busy(self) -> bool:
        """Whether a run is on its way."""
        return self._active is not None

    def start(self, order: Order) -> int:
        """Start a run; returns its number."""
        with self._lock:
            with self._store.writing() as database:
                number = runs.start(database, order.labelled)
            folder = Path(tempfile.mkdtemp(prefix="hardner-adapt-"))
            try:
                self._write(folder, order)
                process = self._spawn(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                with self._store.writing() as database:
                    runs.end(database, number, "failed", message="the process did not start")
                raise
            active = _Active(number, process, folder, time.monotonic())
            active.thread = threading.Thread(target=self._follow, args=(active,), daemon=True)
            self._active = active
            active.thread.start()
        return number

    def cancel(self, number: int) -> None:
        """End a run that is on its way; its model, if it had one, is lost."""
        active = self._active
        if active is None or active.run != number:
            raise Conflict(f"run {number} is not on its way")
        self._stop(active, "cancelled")

    def stop(self) -> None:
        """End whatever is on its way, as the server ends."""
        if self._active is not None:
            self._stop(self._active, "interrupted")

    def shown(self, run: dict[str, Any] | None) -> dict[str, Any] | None:
        """A run, with how far it has come if it is on its way."""
        active = self._active
        if run is None or active is None or active.run != run["id"]:
            return run
        seconds = round(time.monotonic() - active.began, 1)
        return run | {
            "stage": active.stage,
            "done": active.done,
            "total": active.total,
            "seconds": seconds,
        }

    def _write(self, folder: Path, order: Order) -> None:
        for name in ("labelled", "held_out", "unlabelled"):
            sheet.write(folder / f"{name}.jsonl", getattr(order, name))
        if order.current is not None:
            with self._store.reading() as database:
                models.unpack(database, order.current, folder / "current")
        base = None if order.base is None else str(order.base.resolve())
        said = {"keep": order.keep, "force": order.force, "base": base}
        (folder / "order.json").write_text(json.dumps(said), "utf-8")

    def _spawn(self, folder: Path) -> "subprocess.Popen[bytes]":
        """Its standard input stays open as long as this process lives, and it looks at that."""
        with (folder / "errors.txt").open("wb") as errors:
            return subprocess.Popen(
                [*self._command, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def _stop(self, active: _Active, state: str) -> None:
        active.ending = active.ending or state
        active.process.terminate()
        try:
            active.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            active.process.kill()
        active.thread.join(timeout=PATIENCE)

    def _follow(self, active: _Active) -> None:
        """Listens to the process until it ends, then puts down how it ended."""
        said: dict[str, Any] = {}
        assert active.process.stdout is not None and active.process.stdin is not None
        try:
            for line in active.process.stdout:
                said |= json.loads(line)
                active.stage = said.get("stage", active.stage)
                active.done, active.total = said.get("done", 0), said.get("total", 0)
            code = active.process.wait()
            self._put_down(active, code, said)
        except Exception:
            log.exception("run %d could not be put down", active.run)
            active.process.kill()
            with self._store.writing() as database:
                runs.end(database, active.run, "failed", message="its outcome could not be read")
        finally:
            active.process.stdin.close()
            active.process.stdout.close()
            active.process.wait()
            shutil.rmtree(active.folder, ignore_errors=True)
            self._active = None
            self._ended()

    def _put_down(self, active: _Active, code: int, said: dict[str, Any]) -> None:
        seconds = round(time.monotonic() - active.began, 1)
        with self._store.writing() as database:
            if active.ending:
                message = "cancelled" if active.ending == "cancelled" else "the server stopped"
                runs.end(database, active.run, active.ending, seconds, message)
            elif code == 0 and "result" in said:
                runs.end(database, active.run, "done", seconds, result=said["result"])
                name, labels = f"run {active.run}", said["labels"]
                models.add(database, name, labels, active.run, active.folder / "model")
            else:
                why = said.get("error") or f"the process ended unexpectedly (code {code})"
                if "error" not in said:
                    log.error("run %d: %s", active.run, (active.folder / "errors.txt").read_text())
                runs.end(database, active.run, "failed", seconds, why)
