"""A running workbench: the project, the model in use, and what goes on beside it."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hardner
from hardner.serve import models
from hardner.serve.database import Database, ProjectDatabase
from hardner.serve.errors import Conflict, Refused
from hardner.serve.labels import labelled_sentences
from hardner.serve.model_thread import LoadedModel, ModelThread, load_predictor
from hardner.serve.predictions import Predictions
from hardner.serve.runs import JOB_COMMAND, AdaptationOrder, AdaptationRunner
from hardner.serve.sentences import find_sentences, to_sentence
from hardner.types import Sentence

if TYPE_CHECKING:
    from hardner.tag.predictor import Predictor

# Named here as well as in `hardner.tag`, whose import takes seconds.
_BUNDLED = Path(hardner.__file__).parent / "assets" / "model"
_COMPARED = 300  # sentences without labels that two models are compared on


@dataclass(frozen=True)
class Limits:
    """The most that a request may hold."""

    upload_bytes: int = 100 << 20
    json_bytes: int = 16 << 20
    text_characters: int = 50_000_000
    """Of the documents of one upload, decompressed."""
    tag_characters: int = 200_000


@dataclass(frozen=True)
class WorkbenchSettings:
    project: Path
    model: Path | None = None
    """The folder of the model to adapt from; None is the bundled one."""
    limits: Limits = field(default_factory=Limits)
    adapt: Sequence[str] = JOB_COMMAND
    """The command that adapts."""
    load: "Callable[[Path | None], Predictor]" = load_predictor
    """Reads a model folder."""


class Workbench:
    """Opens a project and keeps it at work until it is closed."""

    def __init__(self, settings: WorkbenchSettings) -> None:
        self.settings = settings
        self.project = ProjectDatabase(settings.project)
        self.model = ModelThread()
        self.runner = AdaptationRunner(self.project, self._model_came, settings.adapt)
        self.predictions = Predictions(self.project, self.model, lambda: self.runner.is_busy)
        with self.project.writing() as database:
            folder = (settings.model or _BUNDLED).resolve()
            name = "bundled" if settings.model is None else folder.name
            self._base = models.register_base_model(database, folder, name)
        self._in_use: int | None = None
        self.load_current()

    def close(self) -> None:
        """End all threads and processes; the project stays as it is."""
        self.runner.stop()
        self.model.stop()
        self.project.close()

    def load_current(self) -> None:
        """Load the current model, unless it is in use already."""
        with self.project.reading() as database:
            number = models.current_model_number(database)
        if number is None or number == self._in_use:
            return
        self._in_use = number
        self.model.use(number, lambda: self._load(number)).add_done_callback(self._loaded)

    def _load(self, number: int) -> "Predictor":
        if number == self._base:
            return self.settings.load(self.settings.model)
        with tempfile.TemporaryDirectory(prefix="hardner-model-") as folder:
            with self.project.reading() as database:
                models.unpack_model(database, number, Path(folder))
            return self.settings.load(Path(folder))

    def _loaded(self, loading: Future[LoadedModel]) -> None:
        if loading.exception() is not None:
            return
        loaded = loading.result()
        if loaded.number == self._base:
            with self.project.writing() as database:
                models.set_base_labels(database, loaded.model.labels)
        self.predictions.wake()

    def _model_came(self) -> None:
        self.load_current()
        self.predictions.wake()

    def adapt(self, keep: bool, force: bool) -> int:
        """Start a run on all labels outside the held-out part; returns its number."""
        with self.project.reading() as database:
            labelled = labelled_sentences(database, held_out=False, partly=True)
            if not any(sentence.spans and sentence.is_done for sentence in labelled):
                raise Refused(
                    "no sentence with a mention is labelled to its end yet; label at least one"
                )
            if self.settings.model is None and not _BUNDLED.is_dir():
                raise Conflict("no model comes with this hardner; start it with --model FOLDER")
            order = AdaptationOrder(
                labelled,
                labelled_sentences(database, held_out=True),
                _open_sentences(database, _COMPARED),
                keep,
                force,
                self.settings.model,
            )
            current = models.current_model_number(database)
        return self.runner.start(order, None if current == self._base else current)


def _open_sentences(database: Database, most: int) -> list[Sentence]:
    # The product with a large odd number spreads the choice over all documents, and is the same
    # each time, so that runs can be compared.
    rows = database.execute(
        """SELECT sentences.id FROM documents JOIN sentences ON document = documents.id
           WHERE NOT removed AND NOT held_out AND state = 'open'
           ORDER BY (sentences.id * 2654435761) % 4294967296 LIMIT ?""",
        (most,),
    )
    found = find_sentences(database, [row["id"] for row in rows])
    return [to_sentence(row) for row in found]
