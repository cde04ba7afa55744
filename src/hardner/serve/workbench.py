"""All that a running server has: the project, the model at work, and what goes on beside it."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from hardner.serve import documents, engine, labels, models, runner
from hardner.serve.errors import Conflict, Refused
from hardner.serve.store import Database, Store
from hardner.serve.sweep import Sweep
from hardner.serve.worker import Loaded, Worker
from hardner.types import Sentence

UNLABELLED = 300
"""Sentences without labels that the models of a run are compared on."""


@dataclass(frozen=True)
class Limits:
    """What a request may hold."""

    upload_bytes: int = 100 << 20
    json_bytes: int = 16 << 20
    text_characters: int = 50_000_000
    """Of the documents of one upload, decompressed."""
    tag_characters: int = 200_000


@dataclass(frozen=True)
class Settings:
    """How a server is started."""

    project: Path
    model: Path | None = None
    """The folder of the model to adapt from; None is the bundled one."""
    limits: Limits = field(default_factory=Limits)
    adapt: Sequence[str] = runner.COMMAND
    """The command that adapts."""
    load: Callable[[Path | None], engine.Model] = engine.load
    """What reads a model folder."""


class Workbench:
    """Opens a project and keeps it at work until it is closed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.project)
        self.worker = Worker()
        self.runner = runner.Runner(self.store, self._run_ended, settings.adapt)
        self.sweep = Sweep(self.store, self.worker, lambda: self.runner.busy)
        with self.store.writing() as database:
            folder = (settings.model or engine.BUNDLED).resolve()
            name = "bundled" if settings.model is None else folder.name
            self._base = models.base(database, folder, name)
        self._shown: int | None = None
        self.load_current()

    def close(self) -> None:
        """Ends all that goes on; the project stays as it is."""
        self.runner.stop()
        self.sweep.stop()
        self.worker.stop()
        self.store.close()

    def load_current(self) -> None:
        """Puts the current model to work, unless it is at work already."""
        with self.store.reading() as database:
            model = models.current(database)
        if model is None or model["id"] == self._shown:
            return
        number = self._shown = model["id"]
        loading = self.worker.use(number, lambda: self._read(number))
        loading.add_done_callback(self._loaded)

    def _read(self, number: int) -> engine.Model:
        if number == self._base:
            return self.settings.load(self.settings.model)
        with tempfile.TemporaryDirectory(prefix="hardner-model-") as folder:
            with self.store.reading() as database:
                models.unpack(database, number, Path(folder))
            return self.settings.load(Path(folder))

    def _loaded(self, loading: "Future[Loaded]") -> None:
        if loading.exception() is not None:
            return
        loaded = loading.result()
        if loaded.number == self._base:
            with self.store.writing() as database:
                models.labels_of_base(database, loaded.model.labels)
        self.sweep.wake()

    def _run_ended(self) -> None:
        self.load_current()
        self.sweep.wake()

    def adapt(self, keep: bool, force: bool) -> int:
        """Starts a run on all labels there are; returns its number."""
        with self.store.reading() as database:
            order = self._order(database, keep, force)
        return self.runner.start(order)

    def _order(self, database: Database, keep: bool, force: bool) -> runner.Order:
        labelled = labels.learnt(database, held_out=False)
        if not any(sentence.spans for sentence in labelled):
            raise Refused("no sentence with a mention is labelled yet; label at least one")
        if self.settings.model is None and not engine.BUNDLED.is_dir():
            raise Conflict("no model comes with this hardner; start it with --model FOLDER")
        current = models.current(database)
        adapted = current is not None and current["kind"] == "adapted"
        return runner.Order(
            labelled,
            labels.learnt(database, held_out=True),
            unlabelled(database, UNLABELLED),
            keep,
            force,
            self.settings.model,
            current["id"] if current and adapted else None,
        )


def unlabelled(database: Database, most: int) -> list[Sentence]:
    """Sentences without labels, the same ones each time, of all the documents alike."""
    rows = database.execute(
        """SELECT sentences.id FROM documents JOIN sentences ON document = documents.id
           WHERE NOT removed AND NOT held_out AND state = 'open'
           ORDER BY (sentences.id * 2654435761) % 4294967296 LIMIT ?""",
        (most,),
    )
    return documents.bare(database, [row["id"] for row in rows])
